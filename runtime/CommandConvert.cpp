#include "runtime/CommandConvert.h"
#include "runtime/CommandSummary.h"
#include "runtime/CompilerLibrary.h"
#include "runtime/Executor.h"
#include "runtime/NewFile.h"
#include "runtime/UnitGraph.h"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

namespace mbc {
namespace {

using CompilerFunction = int (*)(const mbc_compile_options *, mbc_sink,
                                 mbc_sink);

void print(FILE *stream, const std::vector<uint8_t> &bytes) {
  fmt::print(stream, "{}",
             std::string_view(reinterpret_cast<const char *>(bytes.data()),
                              bytes.size()));
}

/// Calls one function of the compiler library. With --json what went wrong is
/// a document on standard output.
int callCompiler(CompilerFunction mbc_compiler::*function,
                 const CompileOptions &compile, const OutputOptions &output,
                 mbc_sink out) {
  Result<const mbc_compiler *> compiler = compilerLibrary();
  if (!compiler)
    return report(compiler.error(), output);
  const mbc_compile_options options = compile.given(output);
  if (!output.json)
    return ((*compiler)->*function)(&options, out, streamSink(stderr));
  std::vector<uint8_t> result, findings;
  int status = ((*compiler)->*function)(&options, bytesSink(result),
                                        bytesSink(findings));
  if (status == 0) {
    out.write(out.context, reinterpret_cast<const char *>(result.data()),
              result.size());
    print(stderr, findings);
  } else if (!result.empty()) {
    print(stdout, result);
  } else {
    std::string_view text(reinterpret_cast<const char *>(findings.data()),
                          findings.size());
    if (text.starts_with("error: "))
      text.remove_prefix(7);
    printFailureJson(text.substr(0, text.find_last_not_of('\n') + 1));
  }
  return status;
}

int execute(const Plan &plan, const std::string &source,
            const std::string &target, const ExecutionOptions &execution,
            const OutputOptions &output) {
  RunOptions options;
  if (Result<uint64_t> memory = parseSize(execution.memory); memory)
    options.memory = *memory;
  options.threads = execution.threads;
  options.device = parseDevice(execution.device).value_or(-1);
  if (Result<uint64_t> memory = parseSize(execution.deviceMemory); memory)
    options.deviceMemory = *memory;
  options.force = execution.force;
  options.sync = !execution.noSync;
  Progress progress(!output.quiet && !output.json);
  options.progress = &progress;
  Result<RunSummary> summary = run(plan, source, target, options);
  if (!summary)
    return report(summary.error(), output);
  if (output.json)
    printRunJson(*plan, *summary);
  else if (!output.quiet) {
    printRun(*plan, *summary, output.verbose);
    printNotes(*plan, summary->notes);
  }
  return 0;
}

} // namespace

int convertCommand(const CompileOptions &compile,
                   const ExecutionOptions &execution,
                   const OutputOptions &output, const std::string &target,
                   bool dryRun) {
  std::vector<uint8_t> bytes;
  int status =
      callCompiler(&mbc_compiler::compile, compile, output, bytesSink(bytes));
  if (status != 0)
    return status;
  Result<Plan> plan = Plan::fromBytes(std::move(bytes), "the compiled plan");
  if (!plan)
    return report(plan.error(), output);
  if (!dryRun)
    return execute(*plan, compile.source, target, execution, output);
  uint64_t memory = parseSize(execution.memory).value_or(0);
  const bool onDevice = parseDevice(execution.device).value_or(-1) >= 0;
  if (Result<void> fits = holdWholeTensors(**plan, memory, onDevice); !fits)
    return report(fits.error(), output);
  if (output.json)
    printPlanJson(**plan, memory);
  else if (!output.quiet)
    printPlan(**plan, memory);
  return 0;
}

int compileCommand(const CompileOptions &compile, const OutputOptions &output,
                   const std::string &planFile) {
  NewFile file(planFile);
  int status =
      callCompiler(&mbc_compiler::compile, compile, output, file.sink());
  if (status != 0)
    return status;
  if (Result<void> published = file.publish(); !published)
    return report(published.error(), output);
  Result<Plan> plan = Plan::open(planFile);
  if (!plan)
    return report(plan.error(), output);
  if (output.json)
    printPlanJson(**plan, 0);
  else if (!output.quiet)
    printPlan(**plan, 0);
  return 0;
}

int runPlanCommand(const std::string &planFile, std::string source,
                   const std::string &target, const ExecutionOptions &execution,
                   const OutputOptions &output) {
  Result<Plan> plan = Plan::open(planFile);
  if (!plan)
    return report(plan.error(), output);
  // A plan that travels with its source lies beside it.
  if (source.empty())
    source = std::filesystem::path(planFile).parent_path().string();
  if (source.empty())
    source = ".";
  return execute(*plan, source, target, execution, output);
}

int checkCommand(const CompileOptions &compile, const OutputOptions &output) {
  return callCompiler(&mbc_compiler::check, compile, output,
                      streamSink(stdout));
}

/// A text of the compiler's, on standard output or in a new file.
static int writeText(CompilerFunction mbc_compiler::*function,
                     const CompileOptions &compile, const OutputOptions &output,
                     const std::string &file) {
  if (file.empty())
    return callCompiler(function, compile, output, streamSink(stdout));
  NewFile text(file);
  int status = callCompiler(function, compile, output, text.sink());
  if (status != 0)
    return status;
  if (Result<void> published = text.publish(); !published)
    return report(published.error());
  return 0;
}

int graphCommand(const CompileOptions &compile, const OutputOptions &output,
                 const std::string &file) {
  return writeText(&mbc_compiler::graph, compile, output, file);
}

int draftCommand(const CompileOptions &compile, const OutputOptions &output,
                 const std::string &file) {
  std::error_code unreadable;
  if (!file.empty() && std::filesystem::exists(file, unreadable)) {
    fmt::print(
        stderr,
        "error: {} exists, and may have been written by hand: remove it, "
        "or name another file\n",
        file);
    return 1;
  }
  return writeText(&mbc_compiler::draft, compile, output, file);
}

int specsCommand(const CompileOptions &compile, const OutputOptions &output) {
  return callCompiler(&mbc_compiler::specs, compile, output,
                      streamSink(stdout));
}

} // namespace mbc
