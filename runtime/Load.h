#pragma once

#include "runtime/DType.h"
#include "runtime/Plan.h"
#include "runtime/TensorWork.h"
#include "runtime/TorchRanksLayout.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mbc {

/// A tensor in memory, row-major and little-endian.
struct LoadedTensor {
  /// Its key in the file that the plan would write; with virtual stages behind
  /// that of its model ("model1.").
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  uint64_t address = 0; ///< of the host, or of the GPU; a multiple of 256
};

struct LoadOptions : WorkOptions {
  /// Of Megatron targets; its etp follows from its tp. A Hugging Face target is
  /// loaded whole.
  RankPlace rank;
};

/// What one rank of a plan's target holds, without a file: in the memory of the
/// GPU that computes, or of the host. All tensors are freed with the last copy
/// of `memory`.
struct LoadedTensors {
  std::vector<LoadedTensor> tensors;
  std::shared_ptr<void> memory;
  int device = -1; ///< GPU that holds them; -1: the host
  uint64_t bytes = 0, bytesRead = 0;
  double seconds = 0;
  std::vector<std::string> notes;
};

/// Loads what the plan would write for a rank: a plan of `--format torch`, or
/// one to Hugging Face. The source is checked as before a run. No exception
/// leaves it.
Result<LoadedTensors> load(const Plan &plan, const std::string &sourceDir,
                           const LoadOptions &options);

} // namespace mbc
