#pragma once

#include "compiler/Options.h"
#include "dsl/Model.h"
#include "runtime/MegatronNames.h"
#include "runtime/TorchRanksLayout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mbc::compiler {

/// How a Megatron run spreads the model over its ranks (their order:
/// runtime/TorchRanksLayout.h).
struct ParallelLayout : ParallelSizes {
  std::vector<int64_t> stageLayers; ///< decoder layers of each stage
  std::string pattern;              ///< hybrid pattern with `|` cuts, or empty

  int64_t stageOfLayer(int64_t layer) const;
  /// Whether `stage` holds a parameter: as its rule says, else by its name
  /// (decoder layers by number, MTP layers on the last stage, others on the
  /// first).
  bool holds(int64_t stage, const MegatronName &name, dsl::Stage where) const;
  /// The first stage that holds it.
  int64_t stageOf(const MegatronName &name, dsl::Stage where) const;
  int64_t firstLayer(int64_t stage) const;
  /// The lowest rank of `stage` that holds dense tensors of TP rank `tp`.
  int64_t denseRank(int64_t stage, int64_t tpRank) const;
  /// The lowest rank of `stage` that holds expert tensors of (ep, etp).
  int64_t expertRank(int64_t stage, int64_t epRank, int64_t etpRank) const;
  /// "TP 2, PP 2, EP 2, ETP 1".
  std::string toString() const;
};

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
