#include "compiler/Codegen/EmitKernel.h"

#include "compiler/Codegen/LowerConvert.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

using namespace map;

constexpr int64_t vectorWidth = 16;

/// Indices of the geometry that the runtime passes.
enum Geometry {
  Rows,
  Columns,
  SourceRow,
  SourceColumn,
  TargetRow,
  TargetColumn,
  Row0,
  Column0,
  ScaleColumns,
  BlockRows,
  BlockColumns,
  SourcePhase,
  TensorScaleBits,
  GeometryFields
};

class KernelEmitter {
public:
  KernelEmitter(OpBuilder &builder, FusedOp fused)
      : builder(builder), location(fused.getLoc()),
        body(fused.getBody().front()), code(body.getArgument(0).getType()),
        scaled(body.getNumArguments() > 1),
        packed(code.getIntOrFloatBitWidth() == 4),
        result(body.back().getOperand(0).getType()) {}

  void run(StringRef name) {
    Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
    auto type = builder.getFunctionType({pointer, pointer, pointer, pointer},
                                        builder.getI64Type());
    auto function = builder.create<func::FuncOp>(location, name, type);
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    source = entry->getArgument(0);
    scales = entry->getArgument(1);
    target = entry->getArgument(2);
    loadGeometry(entry->getArgument(3));
    if (body.getNumArguments() > 2)
      tensorScale = builder.create<arith::BitcastOp>(
          location, builder.getF32Type(),
          builder.create<arith::TruncIOp>(location, builder.getI32Type(),
                                          geometry[TensorScaleBits]));
    Value zero = number(0), minusOne = number(-1);
    contiguous = builder.create<arith::AndIOp>(
        location, equals(geometry[SourceColumn], number(1)),
        equals(geometry[TargetColumn], number(1)));
    Value found =
        loop(zero, geometry[Rows], 1, minusOne,
             [&](Value row, Value seen) { return emitRow(row, seen); });
    builder.create<func::ReturnOp>(location, found);
  }

private:
  using LoopBody = llvm::function_ref<Value(Value index, Value seen)>;

  Value number(int64_t value) {
    return builder.create<arith::ConstantOp>(location,
                                             builder.getI64IntegerAttr(value));
  }
  Value add(Value a, Value b) {
    return builder.create<arith::AddIOp>(location, a, b);
  }
  Value subtract(Value a, Value b) {
    return builder.create<arith::SubIOp>(location, a, b);
  }
  Value multiply(Value a, Value b) {
    return builder.create<arith::MulIOp>(location, a, b);
  }
  Value divide(Value a, Value b) {
    return builder.create<arith::DivUIOp>(location, a, b);
  }
  Value equals(Value a, Value b) {
    return builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::eq, a,
                                         b);
  }

  /// A loop that carries the index of the first element whose cast lost bits:
  /// -1, the largest unsigned number, as long as there is none.
  Value loop(Value from, Value to, int64_t step, Value seen, LoopBody emit) {
    auto loop = builder.create<scf::ForOp>(
        location, from, to, number(step), seen,
        [&](OpBuilder &, Location, Value index, ValueRange carried) {
          Value next = emit(index, carried[0]);
          builder.create<scf::YieldOp>(location, next);
        });
    return loop.getResult(0);
  }

  void loadGeometry(Value pointer) {
    for (int64_t field = 0; field != GeometryFields; ++field) {
      Value address = builder.create<LLVM::GEPOp>(location, pointer.getType(),
                                                  builder.getI64Type(), pointer,
                                                  ValueRange{number(field)});
      geometry.push_back(builder.create<LLVM::LoadOp>(
          location, builder.getI64Type(), address, 8));
    }
  }

  Value emitRow(Value row, Value seen) {
    rowSource = multiply(row, geometry[SourceRow]);
    if (packed)
      rowSource = add(rowSource, geometry[SourcePhase]);
    rowTarget = multiply(row, geometry[TargetRow]);
    rowIndex = multiply(row, geometry[Columns]);
    if (!scaled)
      return emitSegment(number(0), geometry[Columns], {}, seen);
    Value rowBlock = divide(add(geometry[Row0], row), geometry[BlockRows]);
    Value firstScale = multiply(rowBlock, geometry[ScaleColumns]);
    Value width = geometry[BlockColumns], column0 = geometry[Column0];
    Value first = divide(column0, width);
    Value past =
        add(divide(subtract(add(column0, geometry[Columns]), number(1)), width),
            number(1));
    return loop(first, past, 1, seen, [&](Value block, Value inner) {
      Value begin = subtract(multiply(block, width), column0);
      Value end = add(begin, width);
      begin = builder.create<arith::MaxSIOp>(location, begin, number(0));
      end = builder.create<arith::MinSIOp>(location, end, geometry[Columns]);
      Type element = body.getArgument(1).getType();
      Value scale = load(scales, add(firstScale, block), element, 1);
      return emitSegment(begin, end, scale, inner);
    });
  }

  /// Columns `begin` to `end` of a row, which share a scale.
  Value emitSegment(Value begin, Value end, Value scale, Value seen) {
    Value extent = subtract(end, begin);
    Value whole =
        subtract(extent, builder.create<arith::AndIOp>(
                             location, extent, number(vectorWidth - 1)));
    Value inVectors = contiguous;
    if (packed) // a vector begins with a byte
      inVectors = builder.create<arith::AndIOp>(
          location, contiguous, equals(half(add(rowSource, begin)), number(0)));
    Value vectors =
        builder.create<arith::SelectOp>(location, inVectors, whole, number(0));
    Value middle = add(begin, vectors);
    seen = loop(begin, middle, vectorWidth, seen, [&](Value column, Value s) {
      return emitElements(column, scale, vectorWidth, s);
    });
    return loop(middle, end, 1, seen, [&](Value column, Value s) {
      return emitElements(column, scale, 1, s);
    });
  }

  Value emitElements(Value column, Value scale, int64_t count, Value seen) {
    // Vectors are only used where both strides are 1.
    Value from = count > 1 ? column : multiply(column, geometry[SourceColumn]);
    Value to = count > 1 ? column : multiply(column, geometry[TargetColumn]);
    lost = {};
    Value at = add(rowSource, from);
    Value value =
        packed ? loadPacked(at, count) : load(source, at, code, count);
    value = emitBody(value, scale, count);
    Value address = addressOf(target, add(rowTarget, to), result);
    builder.create<LLVM::StoreOp>(location, value, address, bytesOf(result));
    return lost ? firstLost(add(rowIndex, column), count, seen) : seen;
  }

  Value emitBody(Value value, Value scale, int64_t count) {
    IRMapping mapping;
    mapping.map(body.getArgument(0), value);
    if (scaled)
      mapping.map(body.getArgument(1), splat(scale, count));
    if (tensorScale)
      mapping.map(body.getArgument(2), splat(tensorScale, count));
    for (Operation &op : body.without_terminator())
      emitOperation(op, mapping, count);
    return mapping.lookup(body.back().getOperand(0));
  }

  void emitOperation(Operation &op, IRMapping &mapping, int64_t count) {
    if (auto convert = dyn_cast<ConvertOp>(op)) {
      Value input = mapping.lookup(convert.getInput());
      Type from = convert.getInput().getType();
      Type to = convert.getResult().getType();
      Value value = emitConvert(builder, location, input, from, to);
      if (convert.getExact()) {
        Value back = emitConvert(builder, location, value, to, from);
        Value differs = emitDiffers(builder, location, input, back);
        lost =
            lost ? Value(builder.create<arith::OrIOp>(location, lost, differs))
                 : differs;
      }
      mapping.map(convert.getResult(), value);
    } else if (isa<arith::ConstantOp>(op)) {
      Operation *copy = builder.clone(op);
      mapping.map(op.getResult(0), splat(copy->getResult(0), count));
    } else {
      Value a = mapping.lookup(op.getOperand(0));
      Value b = mapping.lookup(op.getOperand(1));
      mapping.map(op.getResult(0), emitArithmetic(builder, op, a, b));
    }
  }

  /// `seen`, or the first of `count` elements from `index` on that is lost.
  Value firstLost(Value index, int64_t count, Value seen) {
    Value any = lost;
    if (count > 1) {
      auto bits = VectorType::get({1}, builder.getIntegerType(count));
      Value mask = builder.create<vector::ExtractOp>(
          location, builder.create<vector::BitCastOp>(location, bits, lost),
          ArrayRef<int64_t>{0});
      Value none = builder.create<arith::ConstantOp>(
          location, builder.getIntegerAttr(mask.getType(), 0));
      any = builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::ne,
                                          mask, none);
      Value lane = builder.create<LLVM::CountTrailingZerosOp>(
          location, mask.getType(), mask, false);
      index = add(index, builder.create<arith::ExtUIOp>(
                             location, builder.getI64Type(), lane));
    }
    Value found =
        builder.create<arith::SelectOp>(location, any, index, number(-1));
    return builder.create<arith::MinUIOp>(location, seen, found);
  }

  static unsigned bytesOf(Type element) {
    return element.getIntOrFloatBitWidth() / 8;
  }
  Value addressOf(Value base, Value index, Type element) {
    return builder.create<LLVM::GEPOp>(location, base.getType(),
                                       storageType(element), base,
                                       ValueRange{index});
  }
  Value load(Value base, Value index, Type element, int64_t count) {
    Type type = storageType(element);
    if (count > 1)
      type = VectorType::get({count}, type);
    return builder.create<LLVM::LoadOp>(
        location, type, addressOf(base, index, element), bytesOf(element));
  }
  /// Whether an element is the first (0) or the second (1) of its byte.
  Value half(Value index) {
    return builder.create<arith::AndIOp>(location, index, number(1));
  }
  /// Elements of four bits, each in a byte of its own; several begin with a
  /// byte.
  Value loadPacked(Value index, int64_t count) {
    Type byte = builder.getI8Type();
    Value at = builder.create<arith::ShRUIOp>(location, index, number(1));
    if (count > 1) {
      Value pairs = load(source, at, byte, count / 2);
      return builder.create<vector::InterleaveOp>(
          location, lowHalf(pairs),
          builder.create<arith::ShRUIOp>(location, pairs, bits(4, pairs)));
    }
    Value pair = load(source, at, byte, 1);
    Value shift = builder.create<arith::TruncIOp>(
        location, byte, multiply(half(index), number(4)));
    return lowHalf(builder.create<arith::ShRUIOp>(location, pair, shift));
  }
  Value lowHalf(Value bytes) {
    return builder.create<arith::AndIOp>(location, bytes, bits(15, bytes));
  }
  /// A constant of the type of `like`: a byte or a vector of them.
  Value bits(int64_t value, Value like) {
    TypedAttr constant = builder.getI8IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(like.getType()))
      constant = DenseElementsAttr::get(vector, Attribute(constant));
    return builder.create<arith::ConstantOp>(location, constant);
  }
  Value splat(Value value, int64_t count) {
    if (count == 1)
      return value;
    return builder.create<vector::BroadcastOp>(
        location, VectorType::get({count}, value.getType()), value);
  }

  OpBuilder &builder;
  Location location;
  Block &body;
  Type code; ///< of an element of the source
  bool scaled, packed;
  Type result;
  Value source, scales, target, contiguous;
  Value tensorScale; ///< null if the weight has none
  SmallVector<Value> geometry;
  Value rowSource, rowTarget, rowIndex; ///< of the row that is being written
  Value lost;                           ///< elements that exact casts changed
};

} // namespace

void emitKernel(OpBuilder &builder, FusedOp fused) {
  OpBuilder::InsertionGuard guard(builder);
  KernelEmitter(builder, fused).run(*fused.getKernel());
}

} // namespace mbc::compiler
