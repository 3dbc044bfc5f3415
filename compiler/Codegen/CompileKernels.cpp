#include "compiler/Codegen/CompileKernels.h"

#include "compiler/Codegen/EmitKernel.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

constexpr const char *targetTriple = "x86_64-unknown-linux-gnu";
constexpr const char *targetCpu = "x86-64-v3";

void prepareForCode(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                      func::FuncDialect, LLVM::LLVMDialect, scf::SCFDialect,
                      vector::VectorDialect>();
  registerBuiltinDialectTranslation(context);
  registerLLVMDialectTranslation(context);
}

LogicalResult lowerToLlvm(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertSCFToCFPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(module);
}

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

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  // The vector loop is written out; tails are short.
  tuning.LoopVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
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
  optimize(module, **machine);
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
