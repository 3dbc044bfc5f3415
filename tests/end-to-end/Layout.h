#pragma once

#include "tests/end-to-end/Fixture.h"

namespace mbc::test {

struct Reference;

struct Layout {
  int64_t tp = 1, pp = 1, ep = 1, etp = 1;

  std::vector<std::string> options() const;
  std::string text() const;
  int64_t ranksPerStage() const { return std::max(tp, ep * etp); }
};

/// A count that a size does not divide.
struct Obstacle {
  int64_t count = 0, size = 0;
  std::string what;
};

/// Why a model does not fit a layout; empty if it fits. What Megatron-Core
/// asserts when it builds such a model: heads, widths, experts and layers
/// divide.
std::vector<Obstacle> obstacles(const Reference &reference, const Json &config,
                                const Layout &layout);

/// The per-rank format's directory names hold the tensor rank only, so ranks
/// that differ in the expert tensor rank would share one.
bool perRankCanName(const Layout &layout);

/// First physical decoder layer of each stage, then the number of layers.
std::vector<int64_t> stageBorders(const Json &config, int64_t pp);

/// Every combination of 1, 2 and 4.
std::vector<Layout> allLayouts();

/// Nine of them, in which each pair of sizes of each two of TP, PP, EP and ETP
/// occurs: an orthogonal array of strength two.
std::vector<Layout> pairwiseLayouts();

} // namespace mbc::test
