#include "compiler/Codegen/GpuTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cstddef>

using namespace mlir;

namespace mbc::compiler {
namespace {

enum Argument { Table, RowsOfTiles, TilesOfRow, Lost };
using Row = device::Row;

Type globalPointer(MLIRContext *context) {
  return LLVM::LLVMPointerType::get(context, 1);
}

} // namespace

void GpuTable::open(StringRef name, uint32_t blockThreads) {
  Type pointer = globalPointer(builder.getContext());
  Type i32 = builder.getI32Type();
  function = builder.create<LLVM::LLVMFuncOp>(
      location, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  {pointer, pointer, i32, pointer}));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    builder.getUnitAttr());
  function->setAttr("nvvm.maxntid", builder.getDenseI32ArrayAttr(
                                        {static_cast<int32_t>(blockThreads)}));
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  thread = builder.create<NVVM::ThreadIdXOp>(location, i32);
  Value tile = builder.create<NVVM::BlockIdXOp>(location, i32);
  instance = findRow(tile);
  Value offset = op<arith::MulIOp>(wide(instance), number(sizeof(Row), 64));
  row = advance(function.getArgument(Table), offset);
  tileInRow = op<arith::SubIOp>(tile, field32(offsetof(Row, firstTile)));
  rows = field32(offsetof(Row, rows));
  columns = field32(offsetof(Row, columns));
}

void GpuTable::close() {
  builder.create<LLVM::ReturnOp>(location, ValueRange{});
  builder.setInsertionPointAfter(function);
}

/// Where all rows have as many tiles, a division costs less than a look into
/// memory before the others.
Value GpuTable::findRow(Value tile) {
  Value each = function.getArgument(TilesOfRow);
  Value differ = builder.create<arith::CmpIOp>(
      location, arith::CmpIPredicate::eq, each, number(0));
  auto found = builder.create<scf::IfOp>(
      location, differ,
      [&](OpBuilder &, Location) {
        Value place = op<arith::MulIOp>(wide(tile), number(4, 64));
        Value row = load(advance(function.getArgument(RowsOfTiles), place),
                         builder.getI32Type(), 4);
        builder.create<scf::YieldOp>(location, row);
      },
      [&](OpBuilder &, Location) {
        builder.create<scf::YieldOp>(location, op<arith::DivUIOp>(tile, each));
      });
  return found.getResult(0);
}

void GpuTable::placeThread(uint32_t width) {
  Value tiles = field32(offsetof(Row, columnTiles));
  Value shift = field32(offsetof(Row, columnThreads));
  Value rowTile = op<arith::DivUIOp>(tileInRow, tiles);
  Value columnTile = op<arith::RemUIOp>(tileInRow, tiles);
  Value across = op<arith::ShLIOp>(number(1), shift);
  rowStep = op<arith::ShRUIOp>(number(device::threads), shift);
  Value tileRows = op<arith::MulIOp>(rowStep, number(device::rowsPerThread));
  firstRow = op<arith::AddIOp>(op<arith::MulIOp>(rowTile, tileRows),
                               op<arith::ShRUIOp>(thread, shift));
  Value lane = op<arith::AndIOp>(thread, op<arith::SubIOp>(across, number(1)));
  Value group = op<arith::AddIOp>(op<arith::ShLIOp>(columnTile, shift), lane);
  column = op<arith::MulIOp>(group, number(width));
}

Value GpuTable::field(size_t offset, Type type) {
  return load(advance(row, number(offset, 64)), type,
              type.getIntOrFloatBitWidth() / 8);
}

Value GpuTable::address(size_t offset) {
  return builder.create<LLVM::IntToPtrOp>(
      location, globalPointer(builder.getContext()), field64(offset));
}

Value GpuTable::divide(Value index, size_t offset) {
  Value multiplier = wide(field32(offset));
  Value shift = wide(field32(offset + sizeof(uint32_t)));
  Value quotient =
      op<arith::ShRUIOp>(op<arith::MulIOp>(wide(index), multiplier), shift);
  return builder.create<arith::TruncIOp>(location, builder.getI32Type(),
                                         quotient);
}

Value GpuTable::number(int64_t value, unsigned bits) {
  return builder.create<arith::ConstantOp>(
      location, builder.getIntegerAttr(builder.getIntegerType(bits), value));
}
Value GpuTable::wide(Value value) {
  return builder.create<arith::ExtUIOp>(location, builder.getI64Type(), value);
}
Value GpuTable::less(Value a, Value b) {
  return builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::ult, a,
                                       b);
}
Value GpuTable::least(Value a, Value b) { return op<arith::MinUIOp>(a, b); }

Value GpuTable::position(Value row, Value rowStride, Value column,
                         Value columnStride) {
  Value across = wide(column);
  if (columnStride)
    across = op<arith::MulIOp>(across, columnStride);
  return op<arith::AddIOp>(op<arith::MulIOp>(wide(row), rowStride), across);
}

Value GpuTable::advance(Value base, Value bytes) {
  return builder.create<LLVM::GEPOp>(
      location, base.getType(), builder.getI8Type(), base, ValueRange{bytes});
}
/// What a kernel reads, nobody writes while it runs.
Value GpuTable::load(Value address, Type type, unsigned alignment) {
  return builder.create<LLVM::LoadOp>(location, type, address, alignment,
                                      /*isVolatile=*/false,
                                      /*isNonTemporal=*/false,
                                      /*isInvariant=*/true);
}
void GpuTable::store(Value value, Value address, unsigned alignment) {
  builder.create<LLVM::StoreOp>(location, value, address, alignment);
}

void GpuTable::reportLost(Value index) {
  Value offset = op<arith::MulIOp>(wide(instance), number(8, 64));
  builder.create<LLVM::AtomicRMWOp>(location, LLVM::AtomicBinOp::umin,
                                    advance(function.getArgument(Lost), offset),
                                    index, LLVM::AtomicOrdering::monotonic);
}

} // namespace mbc::compiler
