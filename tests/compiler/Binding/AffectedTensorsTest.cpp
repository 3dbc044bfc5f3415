#include "compiler/Binding/AffectedTensors.h"
#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

using Names = std::vector<std::string>;

/// What a hole from `begin` to before `end` along `axis` of a tensor of this
/// shape, the left side of `rule`, affects.
Names affected(const std::string &rule, const Shape &shape,
               std::optional<size_t> axis, int64_t begin, int64_t end) {
  dsl::Evaluated spec = dsl::evaluateText(dsl::withModel(rule + "\n"));
  EXPECT_EQ(spec.text, "");
  StoredHole hole{"w", "", axis, begin, end};
  return affectedTensors(spec.model.mappings.at(0), spec.model.instances.at(0),
                         shape, hole);
}

TEST(AffectedTensors, PiecesThatTheRowsReach) {
  const std::string rule = "w <- concat(gate:12, up:12)";
  EXPECT_EQ(affected(rule, {24, 8}, 0, 12, 24), Names{"up"});
  EXPECT_EQ(affected(rule, {24, 8}, 0, 0, 12), Names{"gate"});
  EXPECT_EQ(affected(rule, {24, 8}, 0, 11, 13), (Names{"gate", "up"}));
  EXPECT_EQ(affected(rule, {24, 8}, 1, 0, 4), (Names{"gate", "up"}));
  EXPECT_EQ(affected(rule, {24, 8}, std::nullopt, 0, 0), (Names{"gate", "up"}));
}

TEST(AffectedTensors, ThroughOperationsThatKeepTheAxis) {
  // Columns 2 and 3 of w are rows 2 and 3 of what is turned: those of b.
  EXPECT_EQ(
      affected("w <- transpose(concat(a:2, b:3), [1, 0])", {7, 5}, 1, 2, 4),
      Names{"b"});
  EXPECT_EQ(
      affected("w <- concat(add(a, 1):2, scale(b, 2):3)", {5, 7}, 0, 0, 1),
      Names{"a"});
  EXPECT_EQ(affected("w <- stack(a, b, c)", {3, 5}, 0, 1, 2), Names{"b"});
  EXPECT_EQ(affected("w <- concat(a:2, init(0, [3]))", {5}, 0, 2, 5), Names{});
}

TEST(AffectedTensors, AllWhereRowsAreInAnotherOrder) {
  EXPECT_EQ(affected("w <- deinterleave(concat(a:4, b:4), 2, [1, 3])", {8, 5},
                     0, 0, 1),
            (Names{"a", "b"}));
  EXPECT_EQ(affected("concat(w:2, v:2) <- concat(a:2, b:2)", {2, 5}, 0, 0, 1),
            (Names{"a", "b"}));
}

} // namespace
} // namespace mbc::compiler
