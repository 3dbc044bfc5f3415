#pragma once

#include "runtime/DType.h"
#include "runtime/Result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mbc {

/// A tensor of a per-rank file; number i is the archive's storage data/i.
struct RankTensor {
  std::string_view key;
  DType dtype = DType::F32;
  std::span<const int64_t> shape;
  int64_t chunk = 0; ///< which of the stage's model chunks holds it
};

/// The root folder of a per-rank file's archive.
constexpr std::string_view rankFileRoot = "model_optim_rng";

/// The data.pkl of a per-rank file: the common state (as in
/// Checkpoint::argsJson) and `model`, or `model0`, `model1` ... where a stage
/// has several chunks.
Result<std::string> rankFilePickle(std::string_view commonJson,
                                   std::span<const RankTensor> tensors,
                                   int64_t chunks);

} // namespace mbc
