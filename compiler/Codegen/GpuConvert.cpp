#include "compiler/Codegen/GpuConvert.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace mbc::compiler {

bool GpuConvert::handles(Type type) {
  return type.isF32() || type.isF16() || type.isBF16() ||
         isa<Float8E4M3FNType>(type) || type.isUnsignedInteger(4) ||
         type.isSignedInteger(4);
}

Value GpuConvert::word(uint32_t bits) {
  return builder.create<arith::ConstantOp>(
      location, builder.getI32IntegerAttr(static_cast<int32_t>(bits)));
}
Value GpuConvert::bitcast(Value value, Type type) {
  return builder.create<LLVM::BitcastOp>(location, type, value);
}
template <typename Op> Value GpuConvert::op(Value a, Value b) {
  return builder.create<Op>(location, a, b);
}
template <typename Op> Value GpuConvert::with(Value a, uint32_t bits) {
  return op<Op>(a, word(bits));
}
/// A constant pair of halves.
Value GpuConvert::halves(uint32_t bits) { return halvesOf(word(bits)); }
Value GpuConvert::halvesOf(Value word) {
  return bitcast(word, VectorType::get({2}, builder.getF16Type()));
}

/// The two halves as f32.
void GpuConvert::appendHalves(Value halves, Value &low, Value &high) {
  auto at = [&](int64_t index) {
    Value half = builder.create<vector::ExtractOp>(location, halves, index);
    return builder.create<arith::ExtFOp>(location, builder.getF32Type(), half);
  };
  low = at(0);
  high = at(1);
}

Pack GpuConvert::decode(ValueRange words, Type type, size_t count) {
  if (isa<Float8E4M3FNType>(type))
    return target == GpuTarget::Sm90 ? decodeE4M3(words)
                                     : decodeE4M3ByIntegers(words);
  if (type.isUnsignedInteger(4))
    return decodeNibbles(words[0], count, true);
  if (type.isSignedInteger(4))
    return decodeNibbles(words[0], count, false);
  if (type.isBF16())
    return decodeBF16(words);
  if (type.isF16())
    return decodeF16(words);
  Pack values;
  for (Value bits : words)
    values.push_back(bitcast(bits, builder.getF32Type()));
  return values;
}

Pack GpuConvert::decodeBF16(ValueRange words) {
  Pack values;
  Type f32 = builder.getF32Type();
  for (Value pair : words) {
    values.push_back(bitcast(with<arith::ShLIOp>(pair, 16), f32));
    values.push_back(bitcast(with<arith::AndIOp>(pair, 0xFFFF0000), f32));
  }
  return values;
}

Pack GpuConvert::decodeF16(ValueRange words) {
  Pack values(2 * words.size());
  for (size_t index = 0; index != words.size(); ++index)
    appendHalves(halvesOf(words[index]), values[2 * index],
                 values[2 * index + 1]);
  return values;
}

Pack GpuConvert::decodeE4M3(ValueRange words) {
  Pack values(4 * words.size());
  for (size_t index = 0; index != words.size(); ++index) {
    Value low = words[index];
    Value high = with<arith::ShRUIOp>(low, 16);
    appendHalves(halvesOfE4M3(low), values[4 * index], values[4 * index + 1]);
    appendHalves(halvesOfE4M3(high), values[4 * index + 2],
                 values[4 * index + 3]);
  }
  return values;
}

/// LLVM 19 has no intrinsic for this instruction.
Value GpuConvert::halvesOfE4M3(Value pair) {
  Value codes =
      builder.create<arith::TruncIOp>(location, builder.getI16Type(), pair);
  auto text = builder.create<LLVM::InlineAsmOp>(
      location, builder.getI32Type(), ValueRange{codes},
      "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", /*has_side_effects=*/false,
      /*is_align_stack=*/false,
      LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT),
      ArrayAttr());
  return halvesOf(text->getResult(0));
}

/// A code whose fields stand at those of a half is the value over 256; the two
/// formats differ in bias only.
Pack GpuConvert::decodeE4M3ByIntegers(ValueRange words) {
  Pack values(4 * words.size());
  for (size_t index = 0; index != words.size(); ++index) {
    // Codes 0 and 2, 1 and 3, each in the upper byte of a half.
    Value even =
        with<arith::AndIOp>(with<arith::ShLIOp>(words[index], 8), 0xFF00FF00);
    Value odd = with<arith::AndIOp>(words[index], 0xFF00FF00);
    for (size_t parity : {0, 1}) {
      Value codes = parity ? odd : even;
      Value magnitude =
          with<arith::ShRUIOp>(with<arith::AndIOp>(codes, 0x7F007F00), 1);
      Value sign = with<arith::AndIOp>(codes, 0x80008000);
      Value scaled =
          op<arith::MulFOp>(halvesOf(op<arith::OrIOp>(magnitude, sign)),
                            halves(0x5C005C00)); // 256
      appendHalves(scaled, values[4 * index + parity],
                   values[4 * index + 2 + parity]);
    }
  }
  // The code that would be 480 is NaN.
  for (Value &value : values) {
    Type f32 = builder.getF32Type();
    Value magnitude =
        with<arith::AndIOp>(bitcast(value, builder.getI32Type()), 0x7FFFFFFF);
    Value invalid = builder.create<arith::CmpIOp>(
        location, arith::CmpIPredicate::eq, magnitude, word(0x43F00000));
    value = builder.create<arith::SelectOp>(
        location, invalid, bitcast(word(0x7FC00000), f32), value);
  }
  return values;
}

/// Codes i and i + count / 2 are taken out together, as the halves of a word.
Pack GpuConvert::decodeNibbles(Value word, size_t count, bool floats) {
  Pack values(count);
  if (count == 4) // the upper two codes to the upper half
    word = op<arith::OrIOp>(
        with<arith::AndIOp>(word, 0xFF),
        with<arith::ShLIOp>(with<arith::AndIOp>(word, 0xFF00), 8));
  for (uint32_t index = 0; index != count / 2; ++index) {
    Value shifted = index ? with<arith::ShRUIOp>(word, 4 * index) : word;
    Value pair;
    if (floats) { // fields at those of a half: the value over 2^14
      Value magnitude =
          with<arith::ShLIOp>(with<arith::AndIOp>(shifted, 0x00070007), 9);
      Value sign =
          with<arith::ShLIOp>(with<arith::AndIOp>(shifted, 0x00080008), 12);
      pair = op<arith::MulFOp>(halvesOf(op<arith::OrIOp>(magnitude, sign)),
                               halves(0x74007400)); // 2^14
    } else { // mantissa of 1024: 1024 + code
      Value code = with<arith::AndIOp>(shifted, 0x000F000F);
      pair = op<arith::SubFOp>(halvesOf(with<arith::OrIOp>(code, 0x64006400)),
                               halves(0x64086408)); // 1032
    }
    appendHalves(pair, values[index], values[index + count / 2]);
  }
  return values;
}

Pack GpuConvert::encode(const Pack &values, Type type) {
  Pack words;
  if (type.isF32()) {
    for (Value value : values)
      words.push_back(bitcast(value, builder.getI32Type()));
    return words;
  }
  for (size_t index = 0; index != values.size(); index += 2)
    words.push_back(round(values[index], values[index + 1], type));
  return words;
}

/// Both halves rounded to nearest even. The instruction gives 0x7FFF for every
/// NaN, which has to become 0x7FC0 (bf16) or 0x7E00 (f16).
Value GpuConvert::round(Value low, Value high, Type type) {
  bool bf16 = type.isBF16();
  auto narrow = builder.create<LLVM::CallIntrinsicOp>(
      location, VectorType::get({2}, type),
      bf16 ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn",
      ValueRange{high, low});
  Value bits = bitcast(narrow->getResult(0), builder.getI32Type());
  uint32_t nan = bf16 ? 0x7FC07FC0 : 0x7E007E00;
  if (target == GpuTarget::Sm90) { // it is the only code above, as integers
    Type pair = VectorType::get({2}, builder.getI16Type());
    return bitcast(
        op<arith::MinSIOp>(bitcast(bits, pair), bitcast(word(nan), pair)),
        builder.getI32Type());
  }
  Value isNaN = with<arith::AndIOp>(
      with<arith::AddIOp>(with<arith::AndIOp>(bits, 0x7FFF7FFF), 0x00010001),
      0x80008000);
  Value excess = op<arith::SubIOp>(with<arith::ShRUIOp>(isNaN, bf16 ? 9 : 6),
                                   with<arith::ShRUIOp>(isNaN, 15));
  return op<arith::SubIOp>(bits, excess);
}

} // namespace mbc::compiler
