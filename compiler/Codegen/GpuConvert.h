#pragma once

#include "mlir/IR/Builders.h"

namespace mbc::compiler {

/// What the code generator may use.
enum class GpuTarget : uint8_t {
  Sm80, ///< integers and packed halves
  Sm90, ///< also conversions of FP8 and the minimum of packed integers
};

/// Neighbouring elements of a row, each a value of its own.
using Pack = llvm::SmallVector<mlir::Value, 8>;

/// Conversions of four or eight neighbouring elements between the words (i32)
/// that hold them in memory and f32, by the instructions that GPUs have for
/// pairs. They give the bits that LowerConvert.h gives, except that an f32 NaN
/// may be another one.
class GpuConvert {
public:
  GpuConvert(mlir::OpBuilder &builder, mlir::Location location,
             GpuTarget target)
      : builder(builder), location(location), target(target) {}

  /// Whether elements of the type have a form in words.
  static bool handles(mlir::Type type);
  /// `words` hold `count` elements of `type`; four that are packed are the low
  /// half of a word.
  Pack decode(mlir::ValueRange words, mlir::Type type, size_t count);
  /// The words of f32 values as elements of `type`: f32, bf16 or f16.
  Pack encode(const Pack &values, mlir::Type type);

private:
  mlir::Value word(uint32_t bits);
  mlir::Value bitcast(mlir::Value value, mlir::Type type);
  template <typename Op> mlir::Value with(mlir::Value a, uint32_t bits);
  template <typename Op> mlir::Value op(mlir::Value a, mlir::Value b);
  mlir::Value halves(uint32_t bits);
  mlir::Value halvesOf(mlir::Value word);
  void appendHalves(mlir::Value halves, mlir::Value &low, mlir::Value &high);

  Pack decodeBF16(mlir::ValueRange words);
  Pack decodeF16(mlir::ValueRange words);
  Pack decodeE4M3(mlir::ValueRange words);
  mlir::Value halvesOfE4M3(mlir::Value pair);
  Pack decodeE4M3ByIntegers(mlir::ValueRange words);
  Pack decodeNibbles(mlir::Value word, size_t count, bool floats);
  mlir::Value round(mlir::Value low, mlir::Value high, mlir::Type type);

  mlir::OpBuilder &builder;
  mlir::Location location;
  GpuTarget target;
};

} // namespace mbc::compiler
