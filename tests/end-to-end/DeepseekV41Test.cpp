#include "tests/end-to-end/RankConversion.h"

#include <functional>

#include <fmt/format.h>

// What DeepSeek-V4.1 alone has: tables whose rows are dealt out over the expert
// ranks, and a draft module with experts of its own.

namespace mbc::test {
namespace {

class DeepseekV41 : public RankConversion {
protected:
  DeepseekV41() { model_ = fixture("deepseek_v41"); }

  static std::string bytesOf(const Tensor &tensor) {
    return {reinterpret_cast<const char *>(tensor.bytes.data()),
            tensor.bytes.size()};
  }

  void expectBack() {
    const Outcome done = exportBack();
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(difference(exportOf(model_), readSafetensors(scratch_ / "back")),
              "");
  }

  void drop(const std::function<bool(const std::string &)> &unwanted) {
    for (auto &file : model_.files)
      std::erase_if(file.tensors,
                    [&](const auto &tensor) { return unwanted(tensor.name); });
  }

  // 101 rows, and fewer than there are ranks.
  const std::string table_ = "decoder.layers.2.engram.embed.tables.0.weight";
  const std::string small_ = "decoder.layers.6.engram.embed.tables.0.weight";
};

// 101 rows over four ranks are 26, 25, 25 and 25; three are 1, 1, 1 and none.
TEST_F(DeepseekV41, DealsTheRowsOfATableOut) {
  const Outcome done = import({"--tp", "2", "--ep", "4", "--etp", "1"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Tensor whole = model_.tensors().at("layers.1.engram.embed.weight");
  const Tensor small = model_.tensors().at("layers.3.engram.embed.weight");
  const std::tuple<std::string, int64_t, int64_t, int64_t> ranks[] = {
      {"tp0.pp0.ep0.etp0", 0, 26, 0},
      {"tp1.pp0.ep1.etp0", 26, 51, 1},
      {"tp0.pp0.ep2.etp0", 51, 76, 2},
      {"tp1.pp0.ep3.etp0", 76, 101, 3}};
  for (const auto &[rank, begin, end, row] : ranks) {
    EXPECT_EQ(parameter(rank, table_), bytesOf(rows(whole, begin, end)))
        << rank;
    EXPECT_EQ(parameter(rank, small_),
              row == 3 ? "" : bytesOf(rows(small, row, row + 1)))
        << rank;
  }
  for (const Json &row : listing())
    if (row["name"] == small_ && row["rank"] == "tp1.pp0.ep3.etp0") {
      EXPECT_EQ(row["shape"], (Json{0, 8}));
    }
  expectBack();
}

// Each rank of the same expert rank has the same rows; the lowest writes them.
TEST_F(DeepseekV41, WritesTheRowsOfAnExpertRankOnce) {
  model_.write(scratch_ / "hf");
  const Outcome done = mbc({"convert", scratch_ / "hf", scratch_ / "dist",
                            "--tp", "2", "--ep", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Tensor whole = model_.tensors().at("layers.1.engram.embed.weight");
  const std::string first = bytesOf(rows(whole, 0, 51)),
                    second = bytesOf(rows(whole, 51, 101));
  for (int rank = 0; rank != 4; ++rank) {
    const std::string file =
        readText(scratch_ / fmt::format("dist/release/__{}_0.distcp", rank));
    EXPECT_EQ(file.contains(first), rank == 0) << rank;
    EXPECT_EQ(file.contains(second), rank == 2) << rank;
  }
}

TEST_F(DeepseekV41, RefusesRowsThatWereDealtOutOtherwise) {
  ASSERT_EQ(import({"--ep", "4"}).status, 0);
  const std::string weights = "/model_optim_rng.pt";
  std::filesystem::copy_file(scratch_ / ("mg/release/mp_rank_00_000" + weights),
                             scratch_ / ("mg/release/mp_rank_00_002" + weights),
                             std::filesystem::copy_options::overwrite_existing);
  const Outcome refused = exportBack();
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(refused.err.contains(
      table_ + ": tp0.pp0.ep1 in mp_rank_00_001/model_optim_rng.pt has 25 "
               "rows; of the 102 that all 4 expert ranks have together this "
               "one would have 26"))
      << refused.err;
}

// As published: codes of FP8, a scale for each 32 values of a row.
TEST_F(DeepseekV41, DealsQuantisedRowsOutAsValues) {
  model_.config["text_config"]["engram_head_dim"] = 32;
  for (const std::string table :
       {"layers.1.engram.embed", "layers.3.engram.embed"}) {
    auto &codes = model_.at(table + ".weight");
    codes.dtype = "F8_E4M3";
    codes.shape[1] = 32;
    model_.add(table + ".scale", "F8_E8M0", {codes.shape[0], 1});
  }
  const Answers answers(model_, {});
  const Outcome done = import({"--ep", "4"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(
      answers.compareRanks(list(scratch_ / "mg"), {.ep = 4}, 128, false, true),
      "");
  expectBack();
}

TEST_F(DeepseekV41, HasAsManyExpertRanksAsBothNumbersOfExpertsDivideBy) {
  const Outcome refused = import({"--ep", "8"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(refused.err.contains(
      "4 experts of the draft module do not divide by 8 (--ep); legal values "
      "are 1, 2 and 4"))
      << refused.err;
}

TEST_F(DeepseekV41, KeepsTheDraftModuleOnTheLastStage) {
  ASSERT_EQ(import({"--pp", "2", "--ep", "2"}).status, 0);
  const std::string expert =
      "dspark.decoder.layers.3.inner_layer.mlp.experts.linear_fc2.weight3";
  EXPECT_EQ(parameter("tp0.pp1.ep1", expert),
            bytesOf(model_.tensors().at("mtp.1.ffn.experts.3.w2.weight")));
  for (const Json &row : listing())
    if (row["name"].get<std::string>().starts_with("dspark.")) {
      EXPECT_TRUE(row["rank"].get<std::string>().contains(".pp1."));
    }
  expectBack();
}

TEST_F(DeepseekV41, IsRefusedWithPartOfItsDraftModule) {
  for (const std::string gone :
       {"mtp.0.main_norm.weight", "mtp.1.markov_head.embed.weight",
        "mtp.1.attn.attn_sink", "mtp.1.ffn.experts.3.w2.weight"}) {
    model_ = fixture("deepseek_v41");
    drop([&](const std::string &name) { return name == gone; });
    const Outcome refused = import();
    EXPECT_EQ(refused.status, 1) << gone;
    EXPECT_TRUE(refused.err.contains(gone)) << refused.err;
  }
}

// Published with each draft layer, and read by nobody.
TEST_F(DeepseekV41, LeavesTheDraftsBiasForPicturesOut) {
  HfModel published = model_;
  for (int64_t t : {0, 1})
    published.add(fmt::format("mtp.{}.ffn.gate.bias_vl", t), "F32", {4});
  std::swap(model_, published);
  const Outcome done = import();
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(done.err.contains("2 tensors are left out")) << done.err;
  std::swap(model_, published);
  expectSourceBack();
}

TEST_F(DeepseekV41, OfTextAlone) {
  model_.config.erase("vision_config");
  drop([](const std::string &name) {
    return name.starts_with("vision.") || name.starts_with("aligner.") ||
           name.starts_with("image_") || name.ends_with(".gate.bias_vl");
  });
  for (const char *ep : {"1", "4"}) {
    const Outcome done = import({"--ep", ep});
    ASSERT_EQ(done.status, 0) << done.err;
    expectSourceBack();
  }
}

} // namespace
} // namespace mbc::test
