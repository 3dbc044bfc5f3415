#pragma once

#include "runtime/CompilerInterface.h"
#include "runtime/Result.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace mbc {

/// How much is said, and how. A command has those of -q, -v and --json that
/// change what it prints.
struct OutputOptions {
  bool quiet = false, verbose = false, json = false;
};

/// What the compiler is asked for, as typed.
struct CompileOptions {
  std::string source, spec, specPath, config, to, format, experts, hfExperts;
  std::string forms;
  std::string dtype, quant, copies, hfConfig, pipelineLayout;
  std::string graphStage = "rules", graphFormat = "mlir";
  int64_t tp = 0, pp = 0, vpp = 0, ep = 0, etp = 0;
  int64_t firstStageLayers = 0, lastStageLayers = 0, vocabDivisor = 0;
  int64_t iteration = 0;
  std::string maxShardSize;
  bool proof = false;

  /// Points into this object.
  mbc_compile_options given(const OutputOptions &output) const;
};

/// How a plan is run, as typed.
struct ExecutionOptions {
  std::string memory = "4GiB";
  std::string device = "cpu", deviceMemory;
  unsigned threads = 0;
  bool force = false, noSync = false;
};

/// The GPU's number in "cuda" or "cuda:N", -1 for "cpu".
Result<int> parseDevice(const std::string &text);

/// "512MiB", "5GB" (powers of 1000), "4G" (as GiB), "1024".
Result<uint64_t> parseSize(const std::string &text);

/// --json, and -q and -v if asked for.
void addOutputOptions(CLI::App &command, OutputOptions &options, bool withQuiet,
                      bool withVerbose);
/// Layout, spec and dtype options; `withFormat`: --format is the target's.
void addCompileOptions(CLI::App &command, CompileOptions &options,
                       bool withFormat);
void addExecutionOptions(CLI::App &command, ExecutionOptions &options);

} // namespace mbc
