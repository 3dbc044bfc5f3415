#include "tests/end-to-end/RankConversion.h"

#include <fmt/format.h>
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

/// A model of twelve layers on three stages with two virtual stages each.
class VirtualStages : public RankConversion {
protected:
  /// The fixture's first layer, `layers` times.
  void build(const std::string &name, int64_t layers) {
    model_ = fixture(name);
    model_.config["num_hidden_layers"] = layers;
    const std::string first = "model.layers.0.";
    const auto files = model_.files;
    for (auto &file : model_.files)
      std::erase_if(file.tensors, [](const auto &tensor) {
        return tensor.name.starts_with("model.layers.");
      });
    for (const auto &file : files)
      for (const auto &tensor : file.tensors)
        if (tensor.name.starts_with(first))
          for (int64_t i = 0; i != layers; ++i)
            model_.add(fmt::format("model.layers.{}.{}", i,
                                   tensor.name.substr(first.size())),
                       tensor.dtype, tensor.shape);
  }

  /// The numbers of the decoder layers that a rank holds.
  std::set<int64_t> layersOf(const std::string &rank) const {
    const std::string prefix = "decoder.layers.";
    std::set<int64_t> found;
    for (const Json &row : listing())
      if (const std::string name = row["name"];
          row["rank"] == rank && name.starts_with(prefix))
        found.insert(std::stoll(name.substr(prefix.size())));
    return found;
  }

  bool holds(const std::string &rank, const std::string &name) const {
    for (const Json &row : listing())
      if (row["rank"] == rank && row["name"] == name)
        return true;
    return false;
  }
};

// The wrong order of chunks permutes layers: same shapes, broken model.
TEST_F(VirtualStages, TakeTurns) {
  build("llama", 12);
  const Outcome done = import({"--pp", "3", "--vpp", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  using Numbers = std::set<int64_t>;
  EXPECT_EQ(layersOf("tp0.pp0.ep0"), (Numbers{0, 1, 6, 7}));
  EXPECT_EQ(layersOf("tp0.pp1.ep0"), (Numbers{2, 3, 8, 9}));
  EXPECT_EQ(layersOf("tp0.pp2.ep0"), (Numbers{4, 5, 10, 11}));
  for (int stage = 0; stage != 3; ++stage) {
    const std::string rank = fmt::format("tp0.pp{}.ep0", stage);
    EXPECT_EQ(holds(rank, "embedding.word_embeddings.weight"), stage == 0);
    EXPECT_EQ(holds(rank, "output_layer.weight"), stage == 2);
    EXPECT_EQ(holds(rank, "decoder.final_layernorm.weight"), stage == 2);
    // Each file has both chunks, and each chunk counts its layers from 0. (The
    // pickle spells a name that both have once.)
    const std::string file =
        readText(fmt::format("{}/release/mp_rank_00_{:03}/model_optim_rng.pt",
                             scratch_ / "mg", stage));
    const size_t first = file.find("model0"), second = file.find("model1");
    ASSERT_LT(first, second);
    EXPECT_EQ(file.find("model2"), std::string::npos);
    EXPECT_FALSE(file.contains("decoder.layers.2."));
    EXPECT_EQ(file.substr(first, second - first).contains("embedding."),
              stage == 0);
    EXPECT_FALSE(file.substr(second).contains("embedding."));
    EXPECT_EQ(file.substr(second).contains("output_layer.weight"), stage == 2);
    EXPECT_FALSE(
        file.substr(first, second - first).contains("output_layer.weight"));
  }
  expectSourceBack();
  ASSERT_EQ(import({"--pp", "3"}).status, 0);
  expectSourceBack();
}

// Wherever training stood, the same bytes come back.
TEST_F(VirtualStages, WithOtherSizesGiveTheSameExports) {
  build("qwen3_moe", 4);
  const std::vector<std::string> layouts[] = {
      {},
      {"--tp", "2", "--ep", "2", "--etp", "1"},
      {"--tp", "2", "--etp", "2"},
      {"--pp", "4", "--ep", "3"},
      {"--tp", "2", "--pp", "2", "--vpp", "2", "--ep", "2", "--etp", "2"}};
  for (const auto &layout : layouts)
    for (const char *format : {"torch", "torch_dist"}) {
      model_.write(scratch_ / "hf");
      std::filesystem::remove_all(scratch_ / "mg");
      std::vector<std::string> call{"convert", scratch_ / "hf", scratch_ / "mg",
                                    "--format", format};
      call.insert(call.end(), layout.begin(), layout.end());
      const Outcome done = mbc(call);
      ASSERT_EQ(done.status, 0) << spell(call) << "\n" << done.err;
      expectSourceBack();
    }
}

TEST_F(VirtualStages, OfATiedModelEndWithACopyOfTheEmbedding) {
  build("qwen2", 4);
  ASSERT_EQ(import({"--pp", "2", "--vpp", "2"}).status, 0);
  EXPECT_EQ(parameter("tp0.pp1.ep0", "output_layer.weight"),
            parameter("tp0.pp0.ep0", "embedding.word_embeddings.weight"));
  const std::string file =
      readText(scratch_ / "mg/release/mp_rank_00_001/model_optim_rng.pt");
  EXPECT_GT(file.find("output_layer.weight"), file.find("model1"));
  expectSourceBack();
}

TEST_F(VirtualStages, MayBeWrittenOutAsALayout) {
  build("llama", 12);
  const Outcome done = import(
      {"--pp", "2", "--vpp", "2", "--pipeline-layout", "Ettt|t*4|ttt|ttL"});
  ASSERT_EQ(done.status, 0) << done.err;
  using Numbers = std::set<int64_t>;
  EXPECT_EQ(layersOf("tp0.pp0.ep0"), (Numbers{0, 1, 2, 7, 8, 9}));
  EXPECT_EQ(layersOf("tp0.pp1.ep0"), (Numbers{3, 4, 5, 6, 10, 11}));
  expectSourceBack();
}

TEST_F(VirtualStages, OfAHybridModelBeginWhereStagesMay) {
  model_ = fixture("glm5_next");
  const Outcome refused = import({"--pp", "2", "--vpp", "2"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(refused.err.contains("--pp 2 --vpp 2: stages of glm5_next begin "
                                   "before \"D\" layers only"))
      << refused.err;
}

TEST_F(VirtualStages, ThatDoNotFitAreRefusedWithTheSizesThatDo) {
  build("llama", 12);
  const std::pair<std::vector<std::string>, const char *> cases[] = {
      {{"--pp", "4", "--vpp", "2"},
       "12 layers do not divide by 8 virtual stages (--pp 4 --vpp 2); legal "
       "values of PP x VPP are 1, 2, 3, 4, 6 and 12"},
      {{"--vpp", "2"}, "virtual stages need more than one pipeline stage"},
      {{"--pp", "2", "--vpp", "2", "--first-stage-layers", "2"},
       "--pipeline-layout"},
      {{"--pp", "2", "--vpp", "2", "--pipeline-layout", "Ett|tL"},
       "has 2 stages, --pp 2 times --vpp 2 is 4"},
      {{"--pp", "2", "--pipeline-layout", "Et*6|t*6mL"},
       "has 1 MTP layers (m), the model has 0"}};
  for (const auto &[options, words] : cases) {
    const Outcome refused = import(options);
    EXPECT_EQ(refused.status, 1) << spell(options);
    EXPECT_TRUE(refused.err.contains(words)) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "mg"));
  }
}

} // namespace
} // namespace mbc::test
