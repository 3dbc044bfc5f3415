#pragma once

#include "compiler/BoxMap.h"
#include "compiler/Map/MapOps.h"

namespace mbc::compiler {

Shape shapeOf(mlir::Value value);

/// The index map of an operation that only moves elements, its operands being
/// the inputs; nothing for every other operation. A fill has no inputs.
std::optional<BoxMap> movementMap(mlir::Operation *op);

/// The bits of a constant in a float or integer type, rounded to nearest even.
uint64_t constantBits(mlir::Type type, double value);

map::BoxAttr attributeOf(mlir::MLIRContext *context, const Box &box);
Box boxOf(map::BoxAttr attribute);

} // namespace mbc::compiler
