#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Codegen/GpuCompile.h"
#include "compiler/Export/FusedClasses.h"
#include "compiler/Import/RulesToMap.h"
#include "compiler/Transforms/Passes.h"

using namespace mlir;

namespace mbc::compiler {

Result<TensorProgram> compileClasses(const std::vector<RuleClass> &classes,
                                     Direction direction,
                                     const ShardLayout &layout,
                                     dsl::Diagnostics &diagnostics) {
  MLIRContext context;
  prepareContext(context);
  DiagnosticBridge bridge(context, classes, diagnostics);
  OwningOpRef<ModuleOp> module = importRules(context, classes);
  if (!module)
    return fail("some rules have tensors that do not fit together");

  PassManager passes(&context);
  passes.enableVerifier(false); // verified on entry, and mb-verify-fused closes
  buildPipeline(passes, direction, layout);
  if (failed(passes.run(*module)))
    return fail("some rules cannot be brought into the layout");

  TensorProgram program;
  std::vector<map::FusedOp> bodies;
  exportClasses(*module, classes, direction, program, bodies);
  if (bodies.empty())
    return program;
  Result<std::string> object = compileKernels(context, bodies);
  if (!object)
    return std::unexpected(object.error());
  program.kernelObject = std::move(*object);
  auto modules = compileGpuKernels(context, bodies);
  if (!modules)
    return std::unexpected(modules.error());
  program.deviceModules = std::move(*modules);
  return program;
}

} // namespace mbc::compiler
