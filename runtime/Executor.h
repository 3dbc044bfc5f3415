#pragma once

#include "runtime/Plan.h"
#include "runtime/Result.h"
#include "runtime/TensorWork.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mbc {

struct RunOptions : WorkOptions {
  bool force = false; ///< replace a finished target
  bool sync = true;   ///< fsync before publication
};

/// What a run did, for a person or a program.
struct RunSummary {
  uint64_t tensors = 0;      ///< logical tensors of the target
  uint64_t files = 0;        ///< payload files
  uint64_t bytesRead = 0;    ///< tensor bytes from the source
  uint64_t bytesWritten = 0; ///< whole target
  double seconds = 0;
  std::string where; ///< the directory to load
  std::vector<std::string> notes;
};

/// Runs a plan: checks the source and the free space, compares tied copies,
/// writes every file under `targetDir`/.mbc-partial and publishes it. On
/// failure nothing is left under `targetDir` that a loader could take for a
/// checkpoint. May run once in a process at a time for one target; no exception
/// leaves it.
Result<RunSummary> run(const Plan &plan, const std::string &sourceDir,
                       const std::string &targetDir, const RunOptions &options);

} // namespace mbc
