#include "compiler/RuleClass.h"
#include "compiler/ValueLoss.h"

#include "tests/compiler/RuleBuilder.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

using namespace test;

const std::vector<ShardLayout> sizes = {{1, 1}, {2, 2, 2}, {2, 2, 3, true}};

std::vector<std::string> findings(const Rule &rule) {
  dsl::Diagnostics diagnostics;
  checkRoundTrip({rule.type}, sizes, diagnostics);
  std::vector<std::string> texts;
  for (const dsl::Diagnostic &diagnostic : diagnostics.all())
    texts.push_back(diagnostic.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(RoundTrip, HoldsForEveryShard) {
  for (dsl::ShardKind kind :
       {dsl::ShardKind::Replicated, dsl::ShardKind::Column, dsl::ShardKind::Row,
        dsl::ShardKind::Vocab, dsl::ShardKind::ExpertRows})
    EXPECT_EQ(findings(copyRule({4, 6}, kind)), Texts{});
}

TEST(RoundTrip, HoldsForRowsThatDoNotDivide) {
  for (int64_t rows : {1, 2, 5, 7})
    EXPECT_EQ(findings(copyRule({rows, 3}, dsl::ShardKind::ExpertRows)),
              Texts{});
}

TEST(RoundTrip, HoldsForSections) {
  Rule rule = copyRule({12, 3}, dsl::ShardKind::Section);
  rule.type.sections = {{6, 2, 4}};
  EXPECT_EQ(findings(rule), Texts{});
  rule.mapping->shard.sections = {"a", "b", "c"};
  EXPECT_EQ(findings(rule), Texts{});
}

TEST(RoundTrip, HoldsForPaddedVocabulary) {
  Rule rule = copyRule({8, 2}, dsl::ShardKind::Vocab);
  rule.type.hf[0].shape = {5, 2};
  rule.type.vocabRows = 5;
  EXPECT_EQ(findings(rule), Texts{});
}

TEST(RoundTrip, HoldsForScaledWeightsAndOtherDtypes) {
  Rule rule =
      copyRule({256, 128}, dsl::ShardKind::Column, DType::BF16, DType::F8_E4M3);
  rule.type.hf[0].scale = BlockScale{DType::F32, {2, 1}, 128, 128};
  EXPECT_EQ(findings(rule), Texts{});
}

/// Megatron has half of a Hugging Face tensor; the rest is a constant.
Rule halfConstant(double constant) {
  SideBuilder hf, megatron;
  hf.tensor(0);
  uint32_t first = megatron.tensor(0);
  megatron.concat({first, megatron.fill(constant, {2})});
  Rule rule = makeRule(typed({2}), {typed({4})}, std::move(hf));
  rule.mapping->megatron = megatron.nodes;
  return rule;
}

TEST(RoundTrip, ZerosThatMegatronHasNoPlaceForAreAskedOfTheSource) {
  const Rule rule = halfConstant(0);
  dsl::Diagnostics diagnostics;
  const std::vector<RoundTrip> trips =
      checkRoundTrip({rule.type}, {{1, 1}, {2, 2}}, diagnostics);
  EXPECT_TRUE(diagnostics.all().empty());
  ASSERT_EQ(trips.front().zeros.size(), 1U);
  const ZeroRange &zeros = trips.front().zeros.front();
  EXPECT_EQ(zeros.operand, 0U);
  EXPECT_EQ(zeros.start, 2);
  EXPECT_EQ(zeros.count, 2);
  EXPECT_EQ(trips.front().repeated, 0);
}

TEST(RoundTrip, ReportsAnotherConstantOnTheWayToMegatron) {
  EXPECT_EQ(findings(halfConstant(1)),
            Texts{"export after import at TP 1, ETP 1 does not give back "
                  "element [2] of Hugging Face tensor 0 (shape [4]): write the "
                  "rule so that each element has one place on either side "
                  "(rule of 'decoder.layers.{i}.a')"});
}

TEST(RoundTrip, SkipsLayoutsThatDoNotDivide) {
  EXPECT_EQ(findings(copyRule({3, 3}, dsl::ShardKind::Column)), Texts{});
}

TEST(RoundTrip, CountsWhatCorresponds) {
  Rule rule = copyRule({8, 2}, dsl::ShardKind::Vocab);
  rule.type.hf[0].shape = {5, 2};
  rule.type.vocabRows = 5;
  dsl::Diagnostics diagnostics;
  std::vector<RoundTrip> trips =
      checkRoundTrip({rule.type}, {{1, 1}, {2, 2}, {3, 3}}, diagnostics);
  using At = RoundTrip::At;
  ASSERT_EQ(trips.size(), 1U);
  EXPECT_EQ(trips[0].at,
            (std::vector{At::Proven, At::Proven, At::Indivisible}));
  EXPECT_EQ(trips[0].hfElements, 10);
  EXPECT_EQ(trips[0].megatronElements, 16);
  EXPECT_EQ(trips[0].filled, 6);
  EXPECT_EQ(trips[0].repeated, 0);
}

/// hf + c on the right side.
Rule shifted(double constant, DType dtype) {
  SideBuilder hf;
  hf.constant(dsl::OpKind::Add, hf.tensor(0), constant);
  return makeRule(typed({2}, dtype), {typed({2}, dtype)}, std::move(hf));
}

// Worked out by hand. bfloat16 has 8 significant bits: x - 1 is exact for x in
// [0.5, 1) and wherever both lie between the same powers of two, and rounds
// elsewhere. From 256 on the spacing is 2 and x - 1 is a tie: 510 (0x43FF)
// becomes 508 + 1, a tie again, hence 508 (0x43FE). From 512 on the spacing is
// 4, and 1 is lost both times.
TEST(RoundTrip, TriesEveryValueOfASum) {
  std::vector<ConstantLoss> losses =
      constantLosses(shifted(-1, DType::BF16).type);
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].finite, 2 * 255 * 128);
  EXPECT_EQ(losses[0].example, 0x43FF);
  EXPECT_EQ(losses[0].becomes, 0x43FE);
  EXPECT_EQ(findings(shifted(-1, DType::BF16)).size(), 1U);
  EXPECT_EQ(constantLosses(shifted(0, DType::BF16).type).size(), 1U)
      << "-0 + 0 is +0";
}

TEST(RoundTrip, ProductsWithPowersOfTwoAreExactButAtTheEnds) {
  SideBuilder hf;
  hf.constant(dsl::OpKind::Scale, hf.tensor(0), 2);
  std::vector<ConstantLoss> losses =
      constantLosses(makeRule(typed({2}), {typed({2})}, std::move(hf)).type);
  ASSERT_EQ(losses.size(), 1U); // the largest exponent overflows
  EXPECT_EQ(losses[0].lost, 2 * 128);
  EXPECT_EQ(losses[0].example, 0x7F7F);
  EXPECT_EQ(losses[0].becomes, 0x7F80);
}

} // namespace
} // namespace mbc::compiler
