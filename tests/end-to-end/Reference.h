#pragma once

#include "tests/end-to-end/Layout.h"

#include <optional>
#include <set>

/// What Megatron must hold, computed from the Hugging Face tensors by the
/// published formulas, without any code or spec of the product. Where a fixture
/// has answers made by other software, a test compares this with them.
namespace mbc::test {

enum class Cut : uint8_t {
  None,
  Rows,       ///< column parallel: dimension 0
  Columns,    ///< row parallel: dimension 1
  Sections,   ///< each section's rows on their own, then joined
  ExpertRows, ///< rows dealt out over the EP ranks, one more to the first ones
};

struct Parameter {
  Tensor whole;
  Cut cut = Cut::None;
  Extents sections;   ///< rows of each, for Cut::Sections
  int64_t heads = 0;  ///< where whole heads are cut, not rows: must divide
  int64_t groups = 0; ///< key/value heads: must divide, or be divided
  std::optional<int64_t> expert; ///< cut by ETP, held by one EP rank
  int64_t draftExperts = 0;      ///< in a draft module: how many experts it has
  std::optional<int64_t> layer;  ///< physical decoder layer, if it is in one
  bool everywhereFirst = false;  ///< first stage: embedding, vision tower
};

struct Reference {
  std::map<std::string, Parameter> parameters;
  std::set<std::string> vocabulary; ///< parameters with a row a token
  int64_t experts = 0;

  /// What rank s of a stage holds of `name`, or nothing: s is the rank inside
  /// the stage. Vocabulary rows are padded to a multiple of `vocabMultiple`.
  std::optional<Tensor> onRank(const std::string &name, const Layout &layout,
                               int64_t s, int64_t vocabMultiple) const;
  /// The whole parameter, padded.
  Tensor whole(const std::string &name, int64_t vocabMultiple) const;
};

Reference reference(const HfModel &model);

/// The Megatron name with the sequential spelling of experts.
std::string sequentialName(const std::string &name);

} // namespace mbc::test
