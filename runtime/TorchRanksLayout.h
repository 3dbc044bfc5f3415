#pragma once

#include "runtime/Json.h"
#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mbc {

/// Parallel sizes of a run. ETP is that of the experts, TP that of the rest.
struct ParallelSizes {
  int64_t tp = 1, pp = 1, ep = 1, etp = 1;
};

/// Ranks of one pipeline stage, lcm(TP, EP * ETP): the fewest for which both
/// the dense and the expert division come out even.
///
/// Ranks of a stage follow each other: global rank = stage * stageRanks + s,
/// and s gives tp = s mod TP, etp = s mod ETP and ep = (s div ETP) mod EP,
/// which is Megatron's default order.
int64_t stageRanks(const ParallelSizes &sizes);

/// Where a rank stands in each division.
struct RankPlace {
  int64_t tp = 0, pp = 0, ep = 0, etp = 0;
};
RankPlace rankPlace(int64_t globalRank, const ParallelSizes &sizes);

/// "tp0.pp1.ep0", with ".etp0" if ETP differs from TP.
std::string rankName(const RankPlace &place, const ParallelSizes &sizes);
/// The inverse. Without ".etp" a place's etp is its tp.
RankPlace parseRankName(std::string_view name);

/// One file of a per-rank checkpoint.
struct RankFile {
  RankPlace place;
  int64_t lowestRank = 0; ///< global rank, the first of those that write it
  std::string path;       ///< "mp_rank_00_001/model_optim_rng.pt"
};

/// All files that ranks of these sizes write, by their lowest rank:
/// mp_rank_TT[_PPP][_EEE], the stage if PP > 1, the expert rank if EP > 1. TP
/// must be a multiple of ETP, else the names do not tell the ranks apart.
std::vector<RankFile> rankFiles(const ParallelSizes &sizes);

/// What a per-rank checkpoint says of the run that saved it.
struct RankSizes : ParallelSizes {
  int64_t vpp = 1;
  int64_t layers = 0;  ///< decoder layers, of a hybrid model pattern symbols
  int64_t experts = 0; ///< routed experts, 0 if none
};

/// Reads it from the common state (`{"args": {...}}`). Without arguments, or
/// where TP is no multiple of ETP, an error that names `path`.
Result<RankSizes> readRankSizes(const Json &common, const std::string &path);

} // namespace mbc
