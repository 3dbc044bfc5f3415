#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

/// An uneven pipeline: the options, and the first layer of each stage as one
/// counts it from them.
struct Uneven {
  const char *fixture;
  int64_t pp;
  std::vector<std::string> options;
  std::vector<int64_t> borders;
};

void PrintTo(const Uneven &uneven, std::ostream *out) {
  *out << uneven.fixture << " on " << uneven.pp << " stages";
}

class PipelineTest : public testing::TestWithParam<Uneven> {};

TEST_P(PipelineTest, EachStageHoldsItsLayersAndAllComesBack) {
  const Uneven &uneven = GetParam();
  Answers answers(uneven.fixture);
  answers.borders = uneven.borders;
  const Scratch scratch;
  answers.model.write(scratch / "hf");
  for (const std::string format : {"torch", "torch_dist"}) {
    SCOPED_TRACE(format);
    const std::string target = scratch / format;
    std::vector<std::string> arguments{"convert",
                                       scratch / "hf",
                                       target,
                                       "--format",
                                       format,
                                       "--pp",
                                       std::to_string(uneven.pp),
                                       "--make-vocab-size-divisible-by",
                                       "128"};
    for (const auto &more : {uneven.options, importOptions(uneven.fixture)})
      arguments.insert(arguments.end(), more.begin(), more.end());
    Outcome outcome = mbc(arguments);
    ASSERT_EQ(outcome.status, 0) << spell(arguments) << "\n" << outcome.err;
    if (format == "torch") {
      EXPECT_EQ(answers.compareRanks(list(target), {1, uneven.pp, 1, 1}, 128,
                                     false, true),
                "");
    }
    outcome = mbc({"convert", target, target + "-hf"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(
        difference(exportOf(answers.model), readSafetensors(target + "-hf")),
        "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, PipelineTest,
    testing::Values(
        Uneven{"llama", 2, {"--first-stage-layers", "1"}, {0, 1, 3}},
        Uneven{"llama", 2, {"--last-stage-layers", "1"}, {0, 2, 3}},
        Uneven{"qwen2",
               2,
               {"--first-stage-layers", "2", "--last-stage-layers", "1"},
               {0, 2, 3}},
        Uneven{"qwen3_moe", 2, {"--pipeline-layout", "Et|ttL"}, {0, 1, 3}},
        Uneven{"deepseek_v3",
               4,
               {"--pipeline-layout", "E|tt|t|tmL"},
               {0, 0, 2, 3, 4}},
        Uneven{"glm_moe_dsa", 2, {"--first-stage-layers", "3"}, {0, 3, 4}},
        Uneven{
            "glm5_next", 2, {"--pipeline-layout", "K-KEKE|DEKE"}, {0, 6, 10}}));

TEST(Pipeline, LayersThatDoNotAddUpAreRefused) {
  const Scratch scratch;
  fixture("llama").write(scratch / "hf");
  const Outcome outcome = mbc({"convert", scratch / "hf", scratch / "mg",
                               "--pp", "3", "--first-stage-layers", "2"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("1")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("2")) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(scratch / "mg/release"));
}

TEST(Pipeline, AStageOfAHybridModelBeginsBeforeSparseAttention) {
  const Scratch scratch;
  fixture("glm5_next").write(scratch / "hf");
  const Outcome outcome =
      mbc({"convert", scratch / "hf", scratch / "mg", "--pp", "2",
           "--pipeline-layout", "K-KE|KEDEKE"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("K-KE|KEDEKE")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("D")) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(scratch / "mg/release"));
}

} // namespace
} // namespace mbc::test
