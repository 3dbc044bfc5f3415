#pragma once

#include "runtime/CommandOptions.h"

#include <string>

namespace mbc {

/// The commands that need the compiler or a plan. Each returns the exit
/// status.
int convertCommand(const CompileOptions &compile,
                   const ExecutionOptions &execution,
                   const OutputOptions &output, const std::string &target,
                   bool dryRun);
int compileCommand(const CompileOptions &compile, const OutputOptions &output,
                   const std::string &planFile);
int runPlanCommand(const std::string &planFile, std::string source,
                   const std::string &target, const ExecutionOptions &execution,
                   const OutputOptions &output);
int checkCommand(const CompileOptions &compile, const OutputOptions &output);
int graphCommand(const CompileOptions &compile, const OutputOptions &output,
                 const std::string &file);
int specsCommand(const CompileOptions &compile, const OutputOptions &output);

/// `mbc spec new`: writes a drafted spec to `file`, or to standard output.
int draftCommand(const CompileOptions &compile, const OutputOptions &output,
                 const std::string &file);

/// Prints "error: ..." and returns `status`.
int report(const Error &error, int status = 1);

/// The same where --json may ask for a document on standard output.
int report(const Error &error, const OutputOptions &output);

} // namespace mbc
