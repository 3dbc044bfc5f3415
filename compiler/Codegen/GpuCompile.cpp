#include "compiler/Codegen/GpuCompile.h"

#include "compiler/Codegen/GpuKernel.h"
#include "compiler/Codegen/LlvmModule.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

constexpr const char *gpuTriple = "nvptx64-nvidia-cuda";

/// A processor and the oldest PTX that has what its kernels use; drivers are
/// asked for no more.
struct Chip {
  GpuTarget target;
  uint32_t capability, driver;
  const char *name, *features;
};
constexpr Chip sm80 = {GpuTarget::Sm80, 80, 11000, "sm_80", "+ptx70"};
constexpr Chip sm90 = {GpuTarget::Sm90, 90, 12010, "sm_90", "+ptx81"};

Result<std::unique_ptr<llvm::TargetMachine>> makeMachine(const Chip &chip) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(gpuTriple, error);
  if (!target)
    return fail("this build of LLVM has no code generator for {}: {}",
                gpuTriple, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      gpuTriple, chip.name, chip.features, options, std::nullopt));
  if (!machine)
    return fail("LLVM cannot generate code for {}", chip.name);
  return machine;
}

Result<std::string> generatePtx(llvm::Module &module, const Chip &chip) {
  auto machine = makeMachine(chip);
  if (!machine)
    return std::unexpected(machine.error());
  module.setTargetTriple(gpuTriple);
  module.setDataLayout((*machine)->createDataLayout());
  optimize(module, **machine, llvm::OptimizationLevel::O3);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager emit;
  if ((*machine)->addPassesToEmitFile(emit, out, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile))
    return fail("LLVM cannot write PTX for {}", chip.name);
  emit.run(module);
  return text.str().str();
}

using Emit = llvm::function_ref<void(OpBuilder &)>;

Result<DeviceModule> compileModule(MLIRContext &context, const Chip &chip,
                                   Emit emit) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  emit(builder);
  if (failed(lowerToLlvm(*module)))
    return fail("the kernels for {} cannot be lowered to LLVM", chip.name);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*module, llvmContext);
  if (!code)
    return fail("the kernels for {} cannot be translated to LLVM IR",
                chip.name);
  Result<std::string> ptx = generatePtx(*code, chip);
  if (!ptx)
    return std::unexpected(ptx.error());
  return DeviceModule{chip.capability, chip.driver, std::move(*ptx)};
}

} // namespace

Result<std::vector<DeviceModule>>
compileGpuKernels(MLIRContext &context,
                  const std::vector<map::FusedOp> &bodies) {
  prepareForCode(context);
  std::vector<DeviceModule> modules;
  for (const Chip &chip : {sm80, sm90}) {
    std::vector<map::FusedOp> kernels;
    for (map::FusedOp fused : bodies)
      if (hasGpuKernel(fused) &&
          (chip.target == GpuTarget::Sm80 || gainsBySm90(fused)))
        kernels.push_back(fused);
    if (kernels.empty())
      continue;
    Result<DeviceModule> module =
        compileModule(context, chip, [&](OpBuilder &builder) {
          for (map::FusedOp fused : kernels)
            emitGpuKernel(builder, fused, chip.target);
        });
    if (!module)
      return std::unexpected(module.error());
    modules.push_back(std::move(*module));
  }
  return modules;
}

} // namespace mbc::compiler
