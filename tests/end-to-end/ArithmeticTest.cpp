#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

/// Models that no other software answered for: what Megatron holds follows from
/// the fill and the formulas. tests/end-to-end/ReferenceTest.cpp shows that
/// these formulas agree with the answers there are.
class ArithmeticTest : public testing::TestWithParam<const char *> {};

TEST_P(ArithmeticTest, WholeTensors) {
  const Answers answers(GetParam());
  const Scratch scratch;
  answers.model.write(scratch / "hf");
  std::vector<std::string> arguments{"convert", scratch / "hf", scratch / "mg",
                                     "--make-vocab-size-divisible-by", "1"};
  for (const std::string &option : importOptions(GetParam()))
    arguments.push_back(option);
  const Outcome outcome = mbc(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(answers.compareWhole(list(scratch / "mg"), 1), "");
}

TEST_P(ArithmeticTest, VocabularyIsPaddedByTheFamilysRule) {
  const Answers answers(GetParam());
  const Scratch scratch;
  answers.model.write(scratch / "hf");
  std::vector<std::string> arguments{"convert", scratch / "hf", scratch / "mg",
                                     "--tp", "2"};
  for (const std::string &option : importOptions(GetParam()))
    arguments.push_back(option);
  const Outcome outcome = mbc(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string type = answers.model.config["model_type"];
  const bool latent =
      type == "deepseek_v3" || type == "glm_moe_dsa" || type == "glm5_next";
  EXPECT_EQ(answers.compareWhole(list(scratch / "mg"), latent ? 2560 : 256),
            "");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ArithmeticTest,
                         testing::Values("llama", "qwen2", "qwen3",
                                         "deepseek_v3_fp8", "glm_moe_dsa",
                                         "glm_moe_dsa_fused", "glm5_next"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace mbc::test
