#pragma once

#include "runtime/BandSink.h"
#include "runtime/DeviceCompute.h"
#include "runtime/Kernels.h"
#include "runtime/Progress.h"
#include "runtime/SourceFiles.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <string>
#include <vector>

namespace mbc {

/// What moving tensors may use.
struct WorkOptions {
  uint64_t memory = uint64_t{4} << 30; ///< bytes of buffers at most
  unsigned threads = 0;                ///< 0: one a processor
  int device = -1;                     ///< GPU for the kernels; -1: the CPU
  uint64_t deviceMemory = 0;           ///< bytes of its buffers, 0: half of it
  Progress *progress = nullptr;        ///< told of written bytes, may be null
};

/// A plan's tensors on their way from the files of a source, through kernels,
/// into a sink. References outlive it.
class TensorWork {
public:
  /// `source`: the folder of the files.
  TensorWork(const plan::Plan &plan, const std::string &source,
             const WorkOptions &options);

  /// Checks the source files, loads the kernels, opens the GPU if one is asked
  /// for.
  Result<void> prepare();
  /// Compares tied copies; gives notes.
  Result<std::vector<std::string>> compare();
  /// Moves the items that are `wanted`, by number; empty: all. `crc`: whether
  /// the sink needs checksums.
  Result<void> move(BandSink &sink, bool crc, std::vector<bool> wanted = {});

  /// Null without a GPU.
  const DeviceCompute *device() const { return device_.get(); }
  uint64_t bytesRead() const { return bytesRead_; } ///< after `move`
  /// Tensors of which something was quantised anew; after `move`.
  uint64_t quantizedAnew() const { return anew_; }

private:
  const plan::Plan &plan_;
  const WorkOptions &options_;
  unsigned threads_;
  tbb::global_control limit_;
  tbb::task_arena arena_;
  SourceFiles sources_;
  Kernels kernels_;
  std::unique_ptr<DeviceCompute> device_;
  uint64_t bytesRead_ = 0, anew_ = 0;
};

} // namespace mbc
