#pragma once

#include "compiler/Options.h"
#include "dsl/Model.h"
#include "runtime/MegatronNames.h"
#include "runtime/TorchRanksLayout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mbc::compiler {

/// A model declares its own experts; those of a draft module are counted.
ExpertCounts expertCounts(const dsl::Model &model);

/// How a Megatron run spreads the model over its ranks (their order:
/// runtime/TorchRanksLayout.h). The model is cut into PP x VPP chunks in the
/// order of its layers; chunk c stands on stage c mod PP and is the (c div
/// PP)-th there. Without virtual stages a chunk is a stage.
struct ParallelLayout : ParallelSizes {
  int64_t vpp = 1;
  std::vector<int64_t> chunkLayers; ///< decoder layers of each chunk
  std::string pattern;              ///< hybrid pattern with `|` cuts, or empty
  ExpertCounts experts;

  int64_t chunks() const { return pp * vpp; }
  int64_t chunkOfLayer(int64_t layer) const;
  /// Whether `chunk` holds a parameter: as its rule says, else by its name
  /// (decoder layers by number, MTP layers and a draft module in the last
  /// chunk, others in the first).
  bool holds(int64_t chunk, const MegatronName &name, dsl::Stage where) const;
  /// The stage of the first chunk that holds it.
  int64_t stageOf(const MegatronName &name, dsl::Stage where) const;
  int64_t firstLayer(int64_t chunk) const;
  /// The lowest rank of `stage` that holds dense tensors of TP rank `tp`.
  int64_t denseRank(int64_t stage, int64_t tpRank) const;
  /// The lowest rank of `stage` that holds expert tensors of (ep, etp).
  int64_t expertRank(int64_t stage, int64_t epRank, int64_t etpRank) const;
  /// The expert rank that holds the expert of a name, and its number there.
  int64_t expertRankOf(const MegatronName &name) const {
    return *name.expert / (experts.of(name) / ep);
  }
  int64_t localExpert(const MegatronName &name) const {
    return *name.expert % (experts.of(name) / ep);
  }
  /// "TP 2, PP 2, EP 2, ETP 1".
  std::string toString() const;

private:
  int64_t chunkOf(const MegatronName &name, dsl::Stage where) const;
};

/// How many ranks a shard is cut over: EP where rows are dealt out, ETP for
/// experts, else TP.
int64_t shardRanks(const dsl::Shard &shard, const ParallelSizes &sizes);
/// Which of them a rank is.
int64_t shardRank(const dsl::Shard &shard, const RankPlace &place);

/// The layout that the options ask for; every number that does not fit the
/// model is reported with the values that would.
ParallelLayout makeLayout(const Options &options, const dsl::Model &model,
                          dsl::Diagnostics &diagnostics);

/// "1, 2 and 4".
std::string joinNumbers(const std::vector<int64_t> &numbers);

/// The divisors of `limit` for which `fits` holds, as "1, 2 and 4".
std::string legalValues(int64_t limit, const auto &fits) {
  std::vector<int64_t> legal;
  for (int64_t value = 1; value <= limit; ++value)
    if (limit % value == 0 && fits(value))
      legal.push_back(value);
  return joinNumbers(legal);
}

} // namespace mbc::compiler
