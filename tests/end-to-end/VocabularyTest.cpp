#include "tests/end-to-end/RankConversion.h"

#include <gtest/gtest.h>

// Padding of the vocabulary and copies of the embedding, when somebody has
// written into them.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

using Vocabulary = RankConversion;

TEST_F(Vocabulary, PaddingThatIsNotZeroIsReportedAndLeftOut) {
  model_ = fixture("llama");
  model_.config["vocab_size"] = 100;
  for (const char *name : {"lm_head.weight", "model.embed_tokens.weight"})
    model_.at(name).shape = {100, 112};
  ASSERT_EQ(import({"--tp", "2"}).status, 0);
  const std::string file =
      readText(scratch_ / "mg/release/mp_rank_00/model_optim_rng.pt");
  // The padded size, 256, as the pickle writes an integer of two bytes.
  const std::string key = "padded_vocab_size";
  EXPECT_EQ(file.substr(file.find(key) + key.size() + 2, 3),
            std::string("M\x00\x01", 3));
  change("tp1.pp0.ep0", "output_layer.weight", 3 * 112 * 2, "\xe0\x40");
  const Outcome outcome = exportBack();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.contains(
      "'output_layer.weight (tp1.pp0.ep0)': padding row 3 is not zero"))
      << outcome.err;
  EXPECT_EQ(difference(model_.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

// The copy of a tied head stands on the last stage only.
TEST_F(Vocabulary, ATiedHeadOnThreeStages) {
  model_ = fixture("qwen2");
  ASSERT_TRUE(model_.config["tie_word_embeddings"]);
  ASSERT_EQ(import({"--pp", "3"}).status, 0);
  std::set<std::pair<std::string, std::string>> ends;
  for (const Json &row : listing())
    if (const std::string name = row["name"];
        name.contains("embedding") || name.contains("output_layer"))
      ends.emplace(row["rank"], name);
  const std::string embedding = "embedding.word_embeddings.weight",
                    head = "output_layer.weight";
  EXPECT_EQ(ends, (std::set<std::pair<std::string, std::string>>{
                      {"tp0.pp0.ep0", embedding}, {"tp0.pp2.ep0", head}}));
  EXPECT_EQ(parameter("tp0.pp0.ep0", embedding),
            parameter("tp0.pp2.ep0", head));
  expectSourceBack();

  const uint64_t row = 2 * model_.config["hidden_size"].get<uint64_t>();
  change("tp0.pp2.ep0", head, 5 * row, "\x11");
  const Outcome outcome = exportBack();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("row 5 ")) << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "back/config.json"));

  ASSERT_EQ(
      mbc({"convert", scratch_ / "hf", scratch_ / "dist", "--pp", "3"}).status,
      0);
  for (const Row &listed : list(scratch_ / "dist"))
    EXPECT_NE(listed.name, head);
}

} // namespace
} // namespace mbc::test
