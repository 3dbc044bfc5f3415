#pragma once

#include "mlir/IR/Builders.h"

namespace mbc::compiler {

/// How kernels hold an element: f32 as it is, every other format as the
/// integer of its bits.
mlir::Type storageType(mlir::Type element);

/// Conversions of one element or of a vector of them, in integer and f32
/// arithmetic that every target has. `value` has the storage type of `from`
/// (or a vector of it), the result that of `to`; one of the two is f32.
mlir::Value emitConvert(mlir::OpBuilder &builder, mlir::Location location,
                        mlir::Value value, mlir::Type from, mlir::Type to);

/// Which elements of the f32 `before` differ from the f32 `after`. A NaN
/// differs from nothing.
mlir::Value emitDiffers(mlir::OpBuilder &builder, mlir::Location location,
                        mlir::Value before, mlir::Value after);

/// `op` of a body, an addition, multiplication or division, of `a` and `b`.
mlir::Value emitArithmetic(mlir::OpBuilder &builder, mlir::Operation &op,
                           mlir::Value a, mlir::Value b);

} // namespace mbc::compiler
