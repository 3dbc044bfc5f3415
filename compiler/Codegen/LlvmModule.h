#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/OptimizationLevel.h"
#include "llvm/Target/TargetMachine.h"

namespace mbc::compiler {

/// What every target's code goes through between the kernels' loops and its
/// own code generator.

/// Loads the dialects that kernels are written in, and their translations.
void prepareForCode(mlir::MLIRContext &context);
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module);
void optimize(llvm::Module &module, llvm::TargetMachine &machine,
              llvm::OptimizationLevel level);

} // namespace mbc::compiler
