#pragma once

#include "runtime/Plan.h"
#include "runtime/Progress.h"
#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mbc {

struct RunOptions {
  uint64_t memory = uint64_t{4} << 30; ///< bytes of buffers at most
  unsigned threads = 0;                ///< 0: one a processor
  bool force = false;                  ///< replace a finished target
  bool sync = true;                    ///< fsync before publication
  int device = -1;                     ///< GPU for the kernels; -1: the CPU
  uint64_t deviceMemory = 0;           ///< bytes at most, 0: half of it
  Progress *progress = nullptr;        ///< told of written bytes, may be null
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
