#include "compiler/Export/DotText.h"
#include "compiler/Import/RulesToMap.h"
#include "compiler/Transforms/Passes.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

std::string toText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, OpPrintingFlags().useLocalScope());
  return text + "\n";
}

} // namespace

Result<std::string> graphText(const std::vector<RuleClass> &classes,
                              Direction direction, const ShardLayout &layout,
                              const std::string &stage,
                              const std::string &format) {
  if (stage != "rules" && stage != "fused")
    return fail("there is no stage '{}'; the stages are rules and fused",
                stage);
  if (format != "mlir" && format != "dot")
    return fail("there is no format '{}'; the formats are mlir and dot",
                format);
  MLIRContext context;
  prepareContext(context);
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (problem.empty())
      problem = diagnostic.str();
  });
  OwningOpRef<ModuleOp> module = importRules(context, classes);
  if (module && stage == "fused") {
    PassManager passes(&context);
    buildPipeline(passes, direction, layout);
    if (failed(passes.run(*module)))
      module = {};
  }
  if (!module)
    return fail("the graph cannot be made: {}", problem);
  return format == "dot" ? dotText(*module) : toText(*module);
}

} // namespace mbc::compiler
