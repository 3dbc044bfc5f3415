#pragma once

#include "compiler/Map/MapOps.h"

namespace mbc::compiler {

/// Writes the loops of a kernel around the body of `fused` as a `func.func` at
/// the builder's place, with the signature that kernels/README.md states.
/// Rows, then scale blocks, then vectors of 16 elements with a scalar tail.
void emitKernel(mlir::OpBuilder &builder, map::FusedOp fused);

} // namespace mbc::compiler
