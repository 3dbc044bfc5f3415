#include "compiler/Codegen/CompileKernels.h"

#include "compiler/Codegen/EmitKernel.h"
#include "compiler/Codegen/LlvmModule.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

constexpr const char *targetTriple = "x86_64-unknown-linux-gnu";
constexpr const char *targetCpu = "x86-64-v3";

Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(targetTriple, error);
  if (!target)
    return fail("this build of LLVM has no code generator for {}: {}",
                targetTriple, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      targetTriple, targetCpu, "", options, llvm::Reloc::PIC_));
  if (!machine)
    return fail("LLVM cannot generate code for {}", targetCpu);
  return machine;
}

Result<std::string> generateObject(llvm::Module &module) {
  auto machine = makeTargetMachine();
  if (!machine)
    return std::unexpected(machine.error());
  module.setTargetTriple(targetTriple);
  module.setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : module) {
    function.addFnAttr("target-cpu", targetCpu);
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  optimize(module, **machine, llvm::OptimizationLevel::O2);
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager emit;
  if ((*machine)->addPassesToEmitFile(emit, out, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return fail("LLVM cannot write object files for {}", targetTriple);
  emit.run(module);
  return object.str().str();
}

} // namespace

Result<std::string> compileKernels(MLIRContext &context,
                                   const std::vector<map::FusedOp> &bodies) {
  prepareForCode(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  for (map::FusedOp fused : bodies) {
    builder.setInsertionPointToEnd(module->getBody());
    emitKernel(builder, fused);
  }
  if (failed(lowerToLlvm(*module)))
    return fail("the kernels cannot be lowered to LLVM");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*module, llvmContext);
  if (!code)
    return fail("the kernels cannot be translated to LLVM IR");
  Result<std::string> object = generateObject(*code);
  if (!object)
    return object;
  return linkShared(*object);
}

} // namespace mbc::compiler
