#pragma once

#include "compiler/Codegen/GpuConvert.h"
#include "compiler/Map/MapOps.h"

namespace mbc::compiler {

/// Whether the body of `fused` reads and writes formats that a GPU kernel has,
/// and whether Sm90 has something for them that Sm80 has not.
bool hasGpuKernel(map::FusedOp fused);
bool gainsBySm90(map::FusedOp fused);

/// Writes two entries for the body of `fused` at the builder's place: one for
/// aligned rows of whole vectors, one for anything (`device::anySuffix`).
/// kernels/README.md states what they take.
void emitGpuKernel(mlir::OpBuilder &builder, map::FusedOp fused,
                   GpuTarget target);

} // namespace mbc::compiler
