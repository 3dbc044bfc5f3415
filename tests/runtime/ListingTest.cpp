#include "runtime/Listing.h"

#include "runtime/Sha256.h"
#include "runtime/TorchRanksWriter.h"
#include "tests/runtime/TorchDistFolder.h"

#include <array>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mbc {
namespace {

std::string floatsHash(const std::vector<float> &values) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(values)));
  return hash.hex();
}

Json list(const Checkpoint &checkpoint, ListingOptions options) {
  options.json = true;
  std::string text;
  auto written = writeListing(checkpoint, options,
                              [&](std::string_view part) { text += part; });
  EXPECT_TRUE(written) << written.error().message;
  return Json::parse(text);
}

const Json &row(const Json &rows, std::string_view name,
                std::string_view rank = {}) {
  static const Json none;
  for (const Json &candidate : rows)
    if (candidate["name"] == name &&
        (rank.empty() || candidate.value("rank", "") == rank))
      return candidate;
  return none;
}

class Listing : public ::testing::Test {
protected:
  /// fc1 [4, 2] gated over fc2 [2, 2], a norm, two experts of the same sizes.
  void writeModel() {
    whole("decoder.layers.0.mlp.linear_fc1.weight", {4, 2});
    whole("decoder.layers.0.mlp.linear_fc2.weight", {2, 2});
    whole("decoder.layers.0.mlp.linear_fc1.layer_norm_weight", {2});
    whole("decoder.layers.0.mlp.experts.experts.linear_fc1.weight", {2, 4, 2});
    whole("decoder.layers.0.mlp.experts.experts.linear_fc2.weight", {2, 2, 2});
  }
  void whole(std::string_view key, Shape shape) {
    Shape start = shape;
    for (size_t dim = 0; dim != start.rank(); ++dim)
      start[dim] = 0;
    folder_.tensor(key, shape);
    folder_.chunk(start, shape);
  }
  Json shards(std::string_view sizes) {
    auto checkpoint = folder_.open();
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    ListingOptions options;
    options.sha256 = true;
    options.shards = *parseShardSizes(sizes);
    return list(*checkpoint, options);
  }

  test::TorchDistFolder folder_;
};

TEST_F(Listing, RowsHaveHashesOfTheBytes) {
  writeModel();
  auto checkpoint = folder_.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ListingOptions options;
  options.sha256 = true;
  Json rows = list(*checkpoint, options);
  EXPECT_EQ(rows.size(), 7u);
  const Json &expert =
      row(rows, "decoder.layers.0.mlp.experts.linear_fc2.weight1");
  EXPECT_EQ(expert["shape"], (Json{2, 2}));
  EXPECT_EQ(expert["dtype"], "F32");
  EXPECT_EQ(expert["bytes"], 16);
  EXPECT_EQ(expert["file"], "__0_0.distcp");
  EXPECT_EQ(expert["key"],
            "decoder.layers.0.mlp.experts.experts.linear_fc2.weight");
  EXPECT_EQ(expert["sha256"], floatsHash({4, 5, 6, 7}));
}

TEST_F(Listing, KeysAreTheFilesOwn) {
  writeModel();
  std::string state = extraStateObject();
  folder_.object("output_layer._extra_state/shard_0_1", state);
  auto checkpoint = folder_.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ListingOptions options;
  options.keys = true;
  Json rows = list(*checkpoint, options);
  EXPECT_EQ(rows.size(), 6u);
  EXPECT_EQ(
      row(rows,
          "decoder.layers.0.mlp.experts.experts.linear_fc2.weight")["shape"],
      (Json{2, 2, 2}));
  EXPECT_EQ(row(rows, "output_layer._extra_state/shard_0_1")["bytes"],
            state.size());
}

TEST_F(Listing, GatedRowsAreCutInBothHalves) {
  writeModel();
  Json rows = shards("tp=2");
  const Json &fc1 =
      row(rows, "decoder.layers.0.mlp.linear_fc1.weight", "tp1.pp0.ep0");
  EXPECT_EQ(fc1["shape"], (Json{2, 2}));
  EXPECT_EQ(fc1["sha256"], floatsHash({2, 3, 6, 7}));
  const Json &fc2 =
      row(rows, "decoder.layers.0.mlp.linear_fc2.weight", "tp1.pp0.ep0");
  EXPECT_EQ(fc2["shape"], (Json{2, 1}));
  EXPECT_EQ(fc2["sha256"], floatsHash({1, 3}));
  EXPECT_EQ(row(rows, "decoder.layers.0.mlp.linear_fc1.layer_norm_weight",
                "tp1.pp0.ep0")["sha256"],
            floatsHash({0, 1}));
}

TEST_F(Listing, ExpertsGoByExpertRanks) {
  writeModel();
  Json rows = shards("tp=2,ep=2,etp=1");
  EXPECT_EQ(rows.size(), 2u * 5);
  const Json &expert =
      row(rows, "decoder.layers.0.mlp.experts.linear_fc1.weight1",
          "tp1.pp0.ep1.etp0");
  EXPECT_EQ(expert["shape"], (Json{4, 2}));
  EXPECT_TRUE(row(rows, "decoder.layers.0.mlp.experts.linear_fc1.weight1",
                  "tp0.pp0.ep0.etp0")
                  .is_null());
}

// Five rows over two expert ranks are three and two, the same on all tensor
// ranks; one row over two is one and none.
TEST_F(Listing, RowsOfATableAreDealtOutOverExpertRanks) {
  const std::string table = "decoder.layers.0.engram.embed.tables.0.weight";
  const std::string small = "decoder.layers.1.engram.embed.tables.0.weight";
  whole(table, {5, 2});
  whole(small, {1, 2});
  Json rows = shards("tp=2,ep=2");
  for (const char *tp : {"tp0", "tp1"}) {
    EXPECT_EQ(row(rows, table, fmt::format("{}.pp0.ep0", tp))["sha256"],
              floatsHash({0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(row(rows, table, fmt::format("{}.pp0.ep1", tp))["sha256"],
              floatsHash({6, 7, 8, 9}));
    const Json &none = row(rows, small, fmt::format("{}.pp0.ep1", tp));
    EXPECT_EQ(none["shape"], (Json{0, 2}));
    EXPECT_EQ(none["sha256"], floatsHash({}));
  }
}

TEST_F(Listing, SizesThatDoNotDivideAreNamed) {
  writeModel();
  auto checkpoint = folder_.open();
  ListingOptions options;
  for (auto [sizes, message] :
       {std::pair("tp=3", "2 rows do not divide by tp=3"),
        {"ep=3", "2 experts do not divide by ep=3"},
        {"pp=2", "1 decoder layers do not divide by pp=2"}}) {
    options.shards = *parseShardSizes(sizes);
    auto written = writeListing(*checkpoint, options, [](std::string_view) {});
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().message.find(message), std::string::npos)
        << written.error().message;
  }
}

TEST_F(Listing, TiedHeadIsACopyOnTheLastStage) {
  whole("embedding.word_embeddings.weight", {4, 2});
  whole("decoder.layers.0.input_layernorm.weight", {2});
  whole("decoder.layers.1.input_layernorm.weight", {2});
  whole("decoder.final_layernorm.weight", {2});
  Json rows = shards("pp=2");
  EXPECT_EQ(row(rows, "output_layer.weight", "tp0.pp1.ep0")["sha256"],
            floatsHash({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_FALSE(
      row(rows, "embedding.word_embeddings.weight", "tp0.pp0.ep0").is_null());
  EXPECT_TRUE(
      row(rows, "embedding.word_embeddings.weight", "tp0.pp1.ep0").is_null());
  EXPECT_FALSE(
      row(rows, "decoder.layers.1.input_layernorm.weight", "tp0.pp1.ep0")
          .is_null());
  EXPECT_EQ(rows.size(), 5u);
}

TEST(ShardSizes, WrongTextIsRefused) {
  EXPECT_EQ(parseShardSizes("tp=2,ep=4")->etp, 2);
  for (std::string_view text : {"tp", "tp=", "tp=0", "x=2", "tp=2;pp=1"})
    EXPECT_FALSE(parseShardSizes(text)) << text;
}

// A per-rank checkpoint at TP 2: its ranks, listed as such, joined, and cut
// again at TP 1.
TEST(ListingOfRanks, IsJoinedForAnotherLayout) {
  test::TemporaryDirectory root;
  Shape fc1{2, 2}, fc2{2, 1};
  for (float rank : {0.0f, 1.0f}) {
    // Rank t has gate row t and up row t, and column t of fc2.
    std::array<float, 4> gated = {rank * 10, rank * 10 + 1, 100 + rank * 10,
                                  101 + rank * 10};
    std::array<float, 2> columns = {rank, rank + 2};
    std::vector<RankTensor> tensors = {
        {"decoder.layers.0.mlp.linear_fc1.weight", DType::F32, fc1.dims()},
        {"decoder.layers.0.mlp.linear_fc2.weight", DType::F32, fc2.dims()}};
    std::array<std::string_view, 2> storages = {
        std::string_view(reinterpret_cast<const char *>(gated.data()), 16),
        std::string_view(reinterpret_cast<const char *>(columns.data()), 8)};
    std::string pickle = *rankFilePickle(
        R"({"args":{"num_layers":1,"tensor_model_parallel_size":2}})", tensors,
        1);
    root.write(fmt::format("mp_rank_{:02}/model_optim_rng.pt", int(rank)),
               archiveBytes(rankFileRoot, pickle, storages));
  }
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ListingOptions options;
  options.sha256 = true;
  Json own = list(*checkpoint, options);
  ASSERT_EQ(own.size(), 4u);
  EXPECT_EQ(row(own, "decoder.layers.0.mlp.linear_fc1.weight",
                "tp1.pp0.ep0")["sha256"],
            floatsHash({10, 11, 110, 111}));
  options.shards = ShardSizes{};
  Json joined = list(*checkpoint, options);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(row(joined, "decoder.layers.0.mlp.linear_fc1.weight")["sha256"],
            floatsHash({0, 1, 10, 11, 100, 101, 110, 111}));
  EXPECT_EQ(row(joined, "decoder.layers.0.mlp.linear_fc2.weight")["sha256"],
            floatsHash({0, 1, 2, 3}));
}

} // namespace
} // namespace mbc
