#include "compiler/RuleClass.h"

#include "tests/compiler/RuleBuilder.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

using namespace test;

const std::vector<ShardLayout> sizes = {{1, 1}, {2, 2}, {2, 2, true}};

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
        dsl::ShardKind::Vocab})
    EXPECT_EQ(findings(copyRule({4, 6}, kind)), Texts{});
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

TEST(RoundTrip, ReportsAConstantOnTheWayToMegatron) {
  // Half of the Megatron tensor is a constant: that is fine. Half of the
  // Hugging Face tensor set to a constant on its own side is not.
  SideBuilder hf, megatron;
  hf.tensor(0);
  uint32_t first = megatron.tensor(0);
  megatron.concat({first, megatron.fill(0, {2})});
  Rule rule = makeRule(typed({2}), {typed({4})}, std::move(hf));
  rule.mapping->megatron = megatron.nodes;
  EXPECT_EQ(findings(rule),
            Texts{"export after import at TP 1, ETP 1 does not give back "
                  "element [2] of Hugging Face tensor 0 (shape [4]): write the "
                  "rule so that each element has one place on either side "
                  "(rule of 'decoder.layers.{i}.a')"});
}

TEST(RoundTrip, SkipsLayoutsThatDoNotDivide) {
  EXPECT_EQ(findings(copyRule({3, 3}, dsl::ShardKind::Column)), Texts{});
}

} // namespace
} // namespace mbc::compiler
