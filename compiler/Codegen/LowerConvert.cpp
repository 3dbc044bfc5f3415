#include "compiler/Codegen/LowerConvert.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

/// Arithmetic on scalars and vectors alike: types follow the operand's shape.
class Emitter {
public:
  Emitter(OpBuilder &builder, Location location, Type like)
      : builder(builder), location(location), like(like) {}

  Type shaped(Type element) const {
    auto vector = dyn_cast<VectorType>(like);
    return vector ? Type(vector.clone(element)) : element;
  }
  Type integer(unsigned width) const {
    return shaped(builder.getIntegerType(width));
  }

  Value constant(unsigned width, uint64_t bits) {
    Type type = integer(width);
    TypedAttr value = builder.getIntegerAttr(builder.getIntegerType(width),
                                             APInt(width, bits));
    if (auto vector = dyn_cast<VectorType>(type))
      value = DenseElementsAttr::get(vector, Attribute(value));
    return builder.create<arith::ConstantOp>(location, value);
  }
  Value floatConstant(uint32_t bits) {
    return bitcast(constant(32, bits), builder.getF32Type());
  }
  Value bitcast(Value value, Type element) {
    return builder.create<arith::BitcastOp>(location, shaped(element), value);
  }
  template <typename Op> Value binary(Value a, Value b) {
    return builder.create<Op>(location, a, b);
  }
  template <typename Op> Value to(Value value, Type element) {
    return builder.create<Op>(location, shaped(element), value);
  }
  Value select(Value condition, Value a, Value b) {
    return builder.create<arith::SelectOp>(location, condition, a, b);
  }
  Value isNaN(Value value) {
    return builder.create<arith::CmpFOp>(location, arith::CmpFPredicate::UNO,
                                         value, value);
  }

  /// As f16, the seven bits of exponent and mantissa are the value over 256:
  /// both formats have their exponent left of the mantissa, biased 7 and 15.
  Value decodeE4M3(Value code) {
    Type i16 = builder.getIntegerType(16);
    Value wide = to<arith::ExtUIOp>(code, i16);
    Value magnitude = binary<arith::AndIOp>(wide, constant(16, 0x7F));
    Value sign = binary<arith::AndIOp>(wide, constant(16, 0x80));
    Value half =
        binary<arith::OrIOp>(binary<arith::ShLIOp>(magnitude, constant(16, 7)),
                             binary<arith::ShLIOp>(sign, constant(16, 8)));
    Value value = binary<arith::MulFOp>(decodeF16(half),
                                        floatConstant(0x43800000)); // 256
    Value invalid = builder.create<arith::CmpIOp>(
        location, arith::CmpIPredicate::eq, magnitude, constant(16, 0x7F));
    return select(invalid, floatConstant(0x7FC00000), value);
  }

  /// As f16, exponent and mantissa are the value over 2^14: the formats have
  /// their exponent left of the mantissa, biased 1 and 15.
  Value decodeE2M1(Value code) {
    Type i16 = builder.getIntegerType(16);
    Value wide = to<arith::ExtUIOp>(code, i16);
    Value magnitude = binary<arith::AndIOp>(wide, constant(16, 7));
    Value sign = binary<arith::AndIOp>(wide, constant(16, 8));
    Value half =
        binary<arith::OrIOp>(binary<arith::ShLIOp>(magnitude, constant(16, 9)),
                             binary<arith::ShLIOp>(sign, constant(16, 12)));
    return binary<arith::MulFOp>(decodeF16(half),
                                 floatConstant(0x46800000)); // 2^14
  }

  Value decodeI4(Value code) {
    Value wide = to<arith::ExtUIOp>(code, builder.getI32Type());
    return to<arith::SIToFPOp>(binary<arith::SubIOp>(wide, constant(32, 8)),
                               builder.getF32Type());
  }

  /// The code is a float's exponent, but for 2^-127, which is subnormal.
  Value decodeE8M0(Value code) {
    Value wide = to<arith::ExtUIOp>(code, builder.getI32Type());
    auto is = [&](uint32_t value) {
      return builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::eq,
                                           wide, constant(32, value));
    };
    Value bits = binary<arith::ShLIOp>(wide, constant(32, 23));
    bits = select(is(0), constant(32, 0x00400000), bits);
    bits = select(is(0xFF), constant(32, 0x7FC00000), bits);
    return bitcast(bits, builder.getF32Type());
  }

  Value decodeF16(Value bits) {
    return to<arith::ExtFOp>(bitcast(bits, builder.getF16Type()),
                             builder.getF32Type());
  }

  Value decodeBF16(Value bits) {
    Value wide = to<arith::ExtUIOp>(bits, builder.getI32Type());
    return bitcast(binary<arith::ShLIOp>(wide, constant(32, 16)),
                   builder.getF32Type());
  }

  /// Adding just under half of the dropped bits, or half if the kept part is
  /// odd, carries into it exactly when rounding to nearest even goes up.
  Value encodeBF16(Value value) {
    Value bits = bitcast(value, builder.getI32Type());
    Value kept = binary<arith::ShRUIOp>(bits, constant(32, 16));
    Value odd = binary<arith::AndIOp>(kept, constant(32, 1));
    Value rounding = binary<arith::AddIOp>(odd, constant(32, 0x7FFF));
    Value rounded = binary<arith::ShRUIOp>(
        binary<arith::AddIOp>(bits, rounding), constant(32, 16));
    Value narrow = to<arith::TruncIOp>(rounded, builder.getIntegerType(16));
    return select(isNaN(value), constant(16, 0x7FC0), narrow);
  }

  Value encodeF16(Value value) {
    Value half = to<arith::TruncFOp>(value, builder.getF16Type());
    Value bits = bitcast(half, builder.getIntegerType(16));
    return select(isNaN(value), constant(16, 0x7E00), bits);
  }

private:
  OpBuilder &builder;
  Location location;
  Type like;
};

} // namespace

Type storageType(Type element) {
  if (element.isF32())
    return element;
  // A packed element has been taken out of its byte.
  return IntegerType::get(element.getContext(),
                          std::max(element.getIntOrFloatBitWidth(), 8u));
}

Value emitConvert(OpBuilder &builder, Location location, Value value, Type from,
                  Type to) {
  Emitter emitter(builder, location, value.getType());
  if (isa<Float8E4M3FNType>(from))
    return emitter.decodeE4M3(value);
  if (from.isUnsignedInteger(4))
    return emitter.decodeE2M1(value);
  if (from.isSignedInteger(4))
    return emitter.decodeI4(value);
  if (from.isSignedInteger(8))
    return emitter.decodeE8M0(value);
  if (from.isBF16())
    return emitter.decodeBF16(value);
  if (from.isF16())
    return emitter.decodeF16(value);
  return to.isBF16() ? emitter.encodeBF16(value) : emitter.encodeF16(value);
}

Value emitDiffers(OpBuilder &builder, Location location, Value before,
                  Value after) {
  return builder.create<arith::CmpFOp>(location, arith::CmpFPredicate::ONE,
                                       before, after);
}

Value emitArithmetic(OpBuilder &builder, Operation &op, Value a, Value b) {
  Location location = op.getLoc();
  if (isa<arith::AddFOp>(op))
    return builder.create<arith::AddFOp>(location, a, b);
  if (isa<arith::DivFOp>(op))
    return builder.create<arith::DivFOp>(location, a, b);
  return builder.create<arith::MulFOp>(location, a, b);
}

} // namespace mbc::compiler
