#pragma once

#include "runtime/Json.h"
#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mbc {

/// The sizes a per-rank checkpoint was saved with.
struct RankSizes {
  int64_t tp = 1, pp = 1, ep = 1, etp = 1, vpp = 1;
  int64_t layers = 0;  ///< decoder layers, of a hybrid model pattern symbols
  int64_t experts = 0; ///< routed experts, 0 if none
};

/// Reads them from the common state (`{"args": {...}}`). Without arguments, or
/// where TP is no multiple of ETP, an error that names `path`.
Result<RankSizes> readRankSizes(const Json &common, const std::string &path);

/// One file of such a checkpoint.
struct RankFile {
  int64_t tp = 0, pp = 0, ep = 0, etp = 0;
  std::string folder; ///< "mp_rank_00_001"
  std::string rank;   ///< "tp0.pp1.ep0", with ".etp0" if ETP differs from TP
};

/// All files that ranks of these sizes write, by stage, then by the first rank
/// of the stage that writes the file.
std::vector<RankFile> rankFiles(const RankSizes &sizes);

} // namespace mbc
