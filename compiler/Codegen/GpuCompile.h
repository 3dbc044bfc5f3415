#pragma once

#include "compiler/Map/MapOps.h"
#include "compiler/RuleClass.h"
#include "runtime/Result.h"

#include <vector>

namespace mbc::compiler {

/// PTX with the kernels of `bodies`, whose names differ, and with those that
/// move elements: one module for every GPU since sm_80, and one with what
/// later ones do better. A body in a format that GPUs have no kernel for is
/// left out. Needs no GPU and no CUDA toolkit.
Result<std::vector<DeviceModule>>
compileGpuKernels(mlir::MLIRContext &context,
                  const std::vector<map::FusedOp> &bodies);

/// `mbc-opt -mb-gpu-kernels`.
void registerGpuPass();

} // namespace mbc::compiler
