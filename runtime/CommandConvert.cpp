#include "runtime/CommandConvert.h"
#include "runtime/CommandSummary.h"
#include "runtime/CompilerLibrary.h"
#include "runtime/Executor.h"
#include "runtime/File.h"

#include <cstdio>
#include <filesystem>
#include <optional>

namespace mbc {
namespace {

using CompilerFunction = int (*)(const mbc_compile_options *, mbc_sink,
                                 mbc_sink);

void toStream(void *stream, const char *bytes, size_t count) {
  std::fwrite(bytes, 1, count, static_cast<FILE *>(stream));
}

void toBytes(void *bytes, const char *begin, size_t count) {
  auto *into = static_cast<std::vector<uint8_t> *>(bytes);
  into->insert(into->end(), begin, begin + count);
}

/// Calls one function of the compiler library.
int callCompiler(CompilerFunction mbc_compiler::*function,
                 const mbc_compile_options &options, mbc_sink out) {
  Result<const mbc_compiler *> compiler = compilerLibrary();
  if (!compiler)
    return report(compiler.error());
  return ((*compiler)->*function)(&options, out, {toStream, stderr});
}

/// A file that takes the place of `path` once all of it is written. It is begun
/// with its first bytes; on failure nothing has changed.
class NewFile {
public:
  explicit NewFile(std::string path)
      : path_(std::move(path)), temporary_(path_ + ".partial") {}
  NewFile(const NewFile &) = delete;
  ~NewFile() {
    std::error_code error;
    if (file_)
      std::filesystem::remove(temporary_, error);
  }

  mbc_sink sink() {
    auto append = [](void *file, const char *bytes, size_t count) {
      static_cast<NewFile *>(file)->append({bytes, count});
    };
    return {append, this};
  }

  Result<void> publish() {
    append({}); // there may have been no bytes
    if (written_)
      written_ = file_->sync();
    if (written_)
      written_ = renamePath(temporary_, path_);
    return written_;
  }

private:
  void append(std::string_view bytes) {
    if (!file_ && written_) {
      Result<OutputFile> created = create();
      if (created)
        file_ = std::move(*created);
      else
        written_ = std::unexpected(created.error());
    }
    if (written_)
      written_ = file_->writeAt(size_, bytes);
    size_ += bytes.size();
  }

  Result<OutputFile> create() const {
    std::error_code error;
    std::filesystem::file_status found = std::filesystem::status(path_, error);
    if (exists(found) && !is_regular_file(found))
      return fail("{}: is not a regular file: give the name of a new file, or "
                  "of one to replace",
                  path_);
    std::filesystem::remove(temporary_, error);
    return OutputFile::create(temporary_);
  }

  std::string path_, temporary_;
  std::optional<OutputFile> file_;
  uint64_t size_ = 0;
  Result<void> written_; ///< the first failure
};

int execute(const Plan &plan, const std::string &source,
            const std::string &target, const ExecutionOptions &execution,
            const OutputOptions &output) {
  RunOptions options;
  if (Result<uint64_t> memory = parseSize(execution.memory); memory)
    options.memory = *memory;
  options.threads = execution.threads;
  options.force = execution.force;
  options.sync = !execution.noSync;
  Progress progress(!output.quiet && !output.json);
  options.progress = &progress;
  Result<RunSummary> summary = run(plan, source, target, options);
  if (!summary)
    return report(summary.error());
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
  int status = callCompiler(&mbc_compiler::compile, compile.given(output),
                            {toBytes, &bytes});
  if (status != 0)
    return status;
  Result<Plan> plan = Plan::fromBytes(std::move(bytes), "the compiled plan");
  if (!plan)
    return report(plan.error());
  if (!dryRun)
    return execute(*plan, compile.source, target, execution, output);
  uint64_t memory = parseSize(execution.memory).value_or(0);
  if (output.json)
    printPlanJson(**plan, memory);
  else
    printPlan(**plan, memory);
  return 0;
}

int compileCommand(const CompileOptions &compile, const OutputOptions &output,
                   const std::string &planFile) {
  NewFile file(planFile);
  int status =
      callCompiler(&mbc_compiler::compile, compile.given(output), file.sink());
  if (status != 0)
    return status;
  if (Result<void> published = file.publish(); !published)
    return report(published.error());
  Result<Plan> plan = Plan::open(planFile);
  if (!plan)
    return report(plan.error());
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
    return report(plan.error());
  // A plan that travels with its source lies beside it.
  if (source.empty())
    source = std::filesystem::path(planFile).parent_path().string();
  if (source.empty())
    source = ".";
  return execute(*plan, source, target, execution, output);
}

int checkCommand(const CompileOptions &compile, const OutputOptions &output) {
  return callCompiler(&mbc_compiler::check, compile.given(output),
                      {toStream, stdout});
}

/// A text of the compiler's, on standard output or in a new file.
static int writeText(CompilerFunction mbc_compiler::*function,
                     const CompileOptions &compile, const OutputOptions &output,
                     const std::string &file) {
  if (file.empty())
    return callCompiler(function, compile.given(output), {toStream, stdout});
  NewFile text(file);
  int status = callCompiler(function, compile.given(output), text.sink());
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
  return writeText(&mbc_compiler::draft, compile, output, file);
}

int specsCommand(const CompileOptions &compile, const OutputOptions &output) {
  return callCompiler(&mbc_compiler::specs, compile.given(output),
                      {toStream, stdout});
}

} // namespace mbc
