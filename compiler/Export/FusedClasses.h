#pragma once

#include "compiler/Map/MapOps.h"
#include "compiler/RuleClass.h"

namespace mbc::compiler {

/// Turns the fused rules of `module`, which come from `classes` in order, into
/// plain data. `program.kernels` gets each kernel class once, in order of use;
/// `bodies` the operation that shows each kernel's body.
void exportClasses(mlir::ModuleOp module, const std::vector<RuleClass> &classes,
                   Direction direction, TensorProgram &program,
                   std::vector<map::FusedOp> &bodies);

} // namespace mbc::compiler
