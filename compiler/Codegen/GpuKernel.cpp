#include "compiler/Codegen/GpuKernel.h"

#include "compiler/Codegen/GpuTable.h"
#include "compiler/Codegen/LowerConvert.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cstddef>

using namespace mlir;

namespace mbc::compiler {
namespace {

using namespace map;
using Row = device::Row;

/// The body of a fused operation on packs of elements. How a pack
/// of the source is decoded and one of the result encoded depends on the entry.
class BodyEmitter {
public:
  BodyEmitter(OpBuilder &builder, Location location, Block &body)
      : builder(builder), location(location), body(body) {}
  virtual ~BodyEmitter() = default;

  /// `lost`: whether exact casts changed an element; empty if there are none.
  Pack lost;

  /// `source`: as loaded. Gives what is stored.
  Pack run(const Pack &source, Value scale, Value tensorScale) {
    values.clear();
    lost.clear();
    Type code = body.getArgument(0).getType();
    // An f32 is a value as it is; the others wait for their conversion.
    values[body.getArgument(0)] =
        code.isF32() ? decodeSource(source, code) : source;
    if (body.getNumArguments() > 1)
      values[body.getArgument(1)] = Pack(width(), scale);
    if (body.getNumArguments() > 2)
      values[body.getArgument(2)] = Pack(width(), tensorScale);
    for (Operation &op : body.without_terminator())
      emit(op);
    Value result = body.back().getOperand(0);
    Pack stored = values.lookup(result);
    return result.getType().isF32() ? encodeResult(stored, result.getType())
                                    : stored;
  }

protected:
  virtual size_t width() const = 0;
  virtual Pack decodeSource(const Pack &source, Type type) = 0;
  virtual Pack encodeResult(const Pack &values, Type type) = 0;
  virtual Pack decodeResult(const Pack &stored, Type type) = 0;

  OpBuilder &builder;
  Location location;
  Block &body;

private:
  void emit(Operation &op) {
    if (auto convert = dyn_cast<ConvertOp>(op)) {
      emitConversion(convert);
      return;
    }
    if (isa<arith::ConstantOp>(op)) {
      values[op.getResult(0)] = Pack(width(), builder.clone(op)->getResult(0));
      return;
    }
    Pack a = values.lookup(op.getOperand(0));
    Pack b = values.lookup(op.getOperand(1));
    for (auto [left, right] : llvm::zip_equal(a, b))
      left = emitArithmetic(builder, op, left, right);
    values[op.getResult(0)] = a;
  }

  void emitConversion(ConvertOp convert) {
    Pack input = values.lookup(convert.getInput());
    Type from = convert.getInput().getType();
    Type to = convert.getResult().getType();
    bool last = convert.getResult() == body.back().getOperand(0);
    Pack output, back;
    if (convert.getInput() == body.getArgument(0) && to.isF32()) {
      output = decodeSource(input, from);
    } else if (last && !to.isF32()) {
      output = encodeResult(input, to);
      if (convert.getExact())
        back = decodeResult(output, to);
    } else {
      output = convertEach(input, from, to);
      if (convert.getExact())
        back = convertEach(output, to, from);
    }
    if (!back.empty())
      compare(input, back);
    values[convert.getResult()] = output;
  }

  Pack convertEach(const Pack &input, Type from, Type to) {
    Pack output;
    for (Value value : input)
      output.push_back(emitConvert(builder, location, value, from, to));
    return output;
  }

  void compare(const Pack &before, const Pack &after) {
    for (size_t index = 0; index != before.size(); ++index) {
      Value differs =
          emitDiffers(builder, location, before[index], after[index]);
      if (lost.size() == before.size()) // by an earlier cast
        lost[index] =
            builder.create<arith::OrIOp>(location, lost[index], differs);
      else
        lost.push_back(differs);
    }
  }

  llvm::DenseMap<Value, Pack> values;
};

class ScalarBody : public BodyEmitter {
public:
  using BodyEmitter::BodyEmitter;

private:
  size_t width() const override { return 1; }
  Pack decodeSource(const Pack &source, Type type) override {
    return convert(source, type, builder.getF32Type());
  }
  Pack encodeResult(const Pack &values, Type type) override {
    return convert(values, builder.getF32Type(), type);
  }
  Pack decodeResult(const Pack &stored, Type type) override {
    return convert(stored, type, builder.getF32Type());
  }
  Pack convert(const Pack &pack, Type from, Type to) {
    if (from == to)
      return pack;
    return {emitConvert(builder, location, pack.front(), from, to)};
  }
};

class VectorBody : public BodyEmitter {
public:
  VectorBody(OpBuilder &builder, Location location, Block &body,
             GpuTarget target, size_t count)
      : BodyEmitter(builder, location, body),
        converter(builder, location, target), count(count) {}

private:
  size_t width() const override { return count; }
  Pack decodeSource(const Pack &source, Type type) override {
    return converter.decode(source, type, count);
  }
  Pack encodeResult(const Pack &values, Type type) override {
    return converter.encode(values, type);
  }
  Pack decodeResult(const Pack &stored, Type type) override {
    return converter.decode(stored, type, count);
  }

  GpuConvert converter;
  size_t count;
};

class GpuKernelEmitter {
public:
  GpuKernelEmitter(OpBuilder &builder, FusedOp fused, GpuTarget chip)
      : builder(builder), location(fused.getLoc()),
        body(fused.getBody().front()), code(body.getArgument(0).getType()),
        result(body.back().getOperand(0).getType()),
        scaled(body.getNumArguments() > 1), chip(chip),
        table(builder, location) {}

  void vectors(StringRef name) {
    uint32_t width = device::vectorWidth(result.getIntOrFloatBitWidth());
    VectorBody emitter(builder, location, body, chip, width);
    emitEntry(name, emitter, width);
  }
  void elements(StringRef name) {
    ScalarBody emitter(builder, location, body);
    emitEntry(name, emitter, 1);
  }

private:
  /// One of the rows that a thread handles.
  struct Part {
    Value row, inside, scale;
    Pack source;
  };

  void emitEntry(StringRef name, BodyEmitter &emitter, uint32_t width) {
    table.open(name, device::threads);
    table.placeThread(width);
    target = table.address(offsetof(Row, target));
    sourceRow = table.field64(offsetof(Row, sourceRowStride));
    targetRow = table.field64(offsetof(Row, targetRowStride));
    if (width == 1) {
      sourceColumn = table.field64(offsetof(Row, sourceColumnStride));
      targetColumn = table.field64(offsetof(Row, targetColumnStride));
    }
    SmallVector<Part> parts;
    for (uint32_t part = 0; part != device::rowsPerThread; ++part)
      parts.push_back(loadPart(part, width)); // all loads before arithmetic
    if (scaled)
      loadScales(parts, width);
    Value tensorScale;
    if (body.getNumArguments() > 2)
      tensorScale =
          table.field(offsetof(Row, tensorScale), builder.getF32Type());
    for (const Part &part : parts) {
      Pack stored = emitter.run(part.source, part.scale, tensorScale);
      builder.create<scf::IfOp>(location, part.inside,
                                [&](OpBuilder &, Location) {
                                  store(part, stored, width);
                                  if (!emitter.lost.empty())
                                    reportLost(part, emitter.lost);
                                  builder.create<scf::YieldOp>(location);
                                });
    }
    table.close();
  }

  /// Rows and columns behind the end are read as the last ones, so that loads
  /// need no branch; only stores ask.
  Part loadPart(uint32_t index, uint32_t width) {
    Part part;
    Value step = table.op<arith::MulIOp>(table.rowStep, table.number(index));
    part.row = table.op<arith::AddIOp>(table.firstRow, step);
    part.inside =
        table.op<arith::AndIOp>(table.less(part.row, table.rows),
                                table.less(table.column, table.columns));
    Value row = lastOf(part.row, table.rows, 1);
    Value at =
        table.position(row, sourceRow, loadedColumn(width), sourceColumn);
    Value base = table.address(offsetof(Row, source));
    part.source =
        width == 1 ? Pack{loadElement(base, at)} : loadWords(base, at, width);
    return part;
  }

  Value lastOf(Value index, Value extent, uint32_t width) {
    return table.least(index,
                       table.op<arith::SubIOp>(extent, table.number(width)));
  }
  Value loadedColumn(uint32_t width) {
    return lastOf(table.column, table.columns, width);
  }

  Pack loadWords(Value base, Value at, uint32_t width) {
    unsigned bits = code.getIntOrFloatBitWidth();
    unsigned words = bits * width / 32;
    Value bytes = bits == 4 ? table.op<arith::ShRUIOp>(at, table.number(1, 64))
                            : scaledBy(at, bits / 8);
    if (words == 0) // four packed elements
      return {builder.create<arith::ExtUIOp>(
          location, builder.getI32Type(),
          table.load(table.advance(base, bytes), builder.getI16Type(), 2))};
    Pack loaded;
    for (unsigned first = 0; first < words; first += 4) {
      unsigned count = std::min(words - first, 4u);
      Value address = table.advance(base, addBytes(bytes, 4 * first));
      Type type = builder.getI32Type();
      if (count == 1) {
        loaded.push_back(table.load(address, type, 4));
        continue;
      }
      Value vector =
          table.load(address, VectorType::get({count}, type), 4 * count);
      for (unsigned lane = 0; lane != count; ++lane)
        loaded.push_back(
            builder.create<vector::ExtractOp>(location, vector, lane));
    }
    return loaded;
  }

  Value loadElement(Value base, Value at) {
    if (code.getIntOrFloatBitWidth() != 4) {
      Type type = storageType(code);
      Value address =
          table.advance(base, scaledBy(at, type.getIntOrFloatBitWidth() / 8));
      return table.load(address, type, 1);
    }
    at = table.op<arith::AddIOp>(
        at, table.wide(table.field32(offsetof(Row, sourcePhase))));
    Value one = table.number(1, 64);
    Value pair =
        table.load(table.advance(base, table.op<arith::ShRUIOp>(at, one)),
                   builder.getI8Type(), 1);
    Value shift = table.op<arith::MulIOp>(table.op<arith::AndIOp>(at, one),
                                          table.number(4, 64));
    Value narrow =
        builder.create<arith::TruncIOp>(location, builder.getI8Type(), shift);
    return table.op<arith::AndIOp>(table.op<arith::ShRUIOp>(pair, narrow),
                                   table.number(15, 8));
  }

  void loadScales(SmallVector<Part> &parts, uint32_t width) {
    Value column = table.op<arith::AddIOp>(
        loadedColumn(width), table.field32(offsetof(Row, column0)));
    Value block = table.divide(column, offsetof(Row, blockColumnsMultiplier));
    Value perRow = table.field32(offsetof(Row, scaleColumns));
    Value row0 = table.field32(offsetof(Row, row0));
    Value base = table.address(offsetof(Row, scales));
    Type type = storageType(body.getArgument(1).getType());
    unsigned bytes = type.getIntOrFloatBitWidth() / 8;
    for (Part &part : parts) {
      Value row =
          table.op<arith::AddIOp>(row0, lastOf(part.row, table.rows, 1));
      Value blockRow = table.divide(row, offsetof(Row, blockRowsMultiplier));
      Value at = table.op<arith::AddIOp>(
          table.op<arith::MulIOp>(table.wide(blockRow), table.wide(perRow)),
          table.wide(block));
      part.scale = table.load(table.advance(base, scaledBy(at, bytes)), type,
                              width == 1 ? 1 : bytes);
    }
  }

  void store(const Part &part, const Pack &stored, uint32_t width) {
    Value at = table.position(part.row, targetRow, table.column, targetColumn);
    unsigned bytes = result.getIntOrFloatBitWidth() / 8;
    Value address = table.advance(target, scaledBy(at, bytes));
    if (width == 1) {
      table.store(stored.front(), address, bytes);
      return;
    }
    for (size_t first = 0; first != stored.size(); first += 4) {
      Value words = builder.create<vector::FromElementsOp>(
          location, VectorType::get({4}, builder.getI32Type()),
          ArrayRef(stored).slice(first, 4));
      table.store(words, table.advance(address, table.number(4 * first, 64)),
                  16);
    }
  }

  void reportLost(const Part &part, const Pack &lost) {
    Value any = lost.front(), first = table.number(lost.size() - 1);
    for (Value element : ArrayRef(lost).drop_front())
      any = table.op<arith::OrIOp>(any, element);
    for (size_t lane = lost.size() - 1; lane-- > 0;)
      first = builder.create<arith::SelectOp>(location, lost[lane],
                                              table.number(lane), first);
    builder.create<scf::IfOp>(location, any, [&](OpBuilder &, Location) {
      Value column = table.op<arith::AddIOp>(table.column, first);
      table.reportLost(
          table.position(part.row, table.wide(table.columns), column, {}));
      builder.create<scf::YieldOp>(location);
    });
  }

  Value scaledBy(Value index, unsigned bytes) {
    return bytes == 1 ? index
                      : table.op<arith::MulIOp>(index, table.number(bytes, 64));
  }
  Value addBytes(Value bytes, unsigned more) {
    return more == 0 ? bytes
                     : table.op<arith::AddIOp>(bytes, table.number(more, 64));
  }

  OpBuilder &builder;
  Location location;
  Block &body;
  Type code, result;
  bool scaled;
  GpuTarget chip;
  GpuTable table;
  Value target;
  Value sourceRow, sourceColumn, targetRow, targetColumn; ///< strides
};

} // namespace

bool hasGpuKernel(FusedOp fused) {
  Block &body = fused.getBody().front();
  Type result = body.back().getOperand(0).getType();
  if (!GpuConvert::handles(body.getArgument(0).getType()) ||
      !(result.isF32() || result.isF16() || result.isBF16()))
    return false;
  return llvm::all_of(body.without_terminator(), [](Operation &op) {
    return isa<ConvertOp, arith::ConstantOp, arith::AddFOp, arith::MulFOp,
               arith::DivFOp>(op);
  });
}

bool gainsBySm90(FusedOp fused) {
  Block &body = fused.getBody().front();
  return isa<Float8E4M3FNType>(body.getArgument(0).getType()) ||
         !body.back().getOperand(0).getType().isF32();
}

void emitGpuKernel(OpBuilder &builder, FusedOp fused, GpuTarget target) {
  OpBuilder::InsertionGuard guard(builder);
  std::string name = fused.getKernel()->str();
  GpuKernelEmitter(builder, fused, target).vectors(name);
  GpuKernelEmitter(builder, fused, target).elements(name + device::anySuffix);
}

} // namespace mbc::compiler
