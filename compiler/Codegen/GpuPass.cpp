#include "compiler/Codegen/GpuCompile.h"

#include "compiler/Codegen/GpuKernel.h"
#include "compiler/Codegen/LlvmModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

/// For tests and people: the kernels of a module's fused operations in place of
/// its rules.
struct GpuKernels : PassWrapper<GpuKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GpuKernels)

  GpuKernels() = default;
  GpuKernels(const GpuKernels &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "mb-gpu-kernels"; }
  StringRef getDescription() const final {
    return "Writes the GPU kernels of fused operations in place of the rules";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, NVVM::NVVMDialect,
                    scf::SCFDialect, vector::VectorDialect>();
  }
  Option<bool> sm90{*this, "sm90", llvm::cl::desc("for sm_89 and later")};

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<map::FusedOp> bodies;
    llvm::StringSet<> seen;
    module.walk([&](map::FusedOp fused) {
      if (fused.getKernel() && seen.insert(*fused.getKernel()).second)
        bodies.push_back(fused);
    });
    SmallVector<Operation *> rules;
    for (Operation &op : *module.getBody())
      rules.push_back(&op);
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    for (map::FusedOp fused : bodies)
      if (hasGpuKernel(fused))
        emitGpuKernel(builder, fused, sm90 ? GpuTarget::Sm90 : GpuTarget::Sm80);
    for (Operation *rule : rules)
      rule->erase();
  }
};

} // namespace

void registerGpuPass() { PassRegistration<GpuKernels>(); }

} // namespace mbc::compiler
