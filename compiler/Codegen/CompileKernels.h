#pragma once

#include "compiler/Map/MapOps.h"
#include "runtime/Result.h"

#include <string>
#include <vector>

namespace mbc::compiler {

/// Compiles the bodies of fused operations, whose `kernel` names differ, to an
/// ELF shared object for x86-64-v3 with one function each. What the functions
/// take and give is stated in kernels/README.md.
Result<std::string> compileKernels(mlir::MLIRContext &context,
                                   const std::vector<map::FusedOp> &bodies);

/// Links a relocatable object to a shared one with ld.lld.
Result<std::string> linkShared(const std::string &object);

} // namespace mbc::compiler
