#include "runtime/Checkpoint.h"

#include "runtime/TorchArchive.h"
#include "runtime/TorchRanksLayout.h"
#include "runtime/TorchRanksWriter.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <set>

#include <gtest/gtest.h>

namespace mbc {
namespace {

/// A rank's file with float tensors of one element, the same in each of its
/// model chunks.
void writeRank(const test::TemporaryDirectory &root, std::string_view folder,
               std::string_view common, const std::vector<std::string> &names,
               int64_t chunks = 1) {
  Shape one{1};
  std::vector<RankTensor> tensors;
  std::vector<std::string> keys;
  for (int64_t chunk = 0; chunk != chunks; ++chunk)
    keys.insert(keys.end(), names.begin(), names.end());
  for (size_t i = 0; i != keys.size(); ++i)
    tensors.push_back({keys[i], DType::F32, one.dims(),
                       static_cast<int64_t>(i / names.size())});
  std::vector<std::string_view> storages(keys.size(),
                                         std::string_view("\0\0\0\0", 4));
  root.write(fmt::format("{}/model_optim_rng.pt", folder),
             archiveBytes(rankFileRoot,
                          *rankFilePickle(common, tensors, chunks), storages));
}

std::vector<std::string> moeKeys(int64_t layers, int64_t experts) {
  std::vector<std::string> keys;
  for (int64_t layer = 0; layer != layers; ++layer)
    for (int64_t expert = 0; expert != experts; ++expert)
      keys.push_back(fmt::format(
          "decoder.layers.{}.mlp.experts.linear_fc1.weight{}", layer, expert));
  return keys;
}

std::string argsOf(int pp, int ep) {
  return fmt::format(
      R"({{"args":{{"num_layers":4,"num_experts":4,)"
      R"("tensor_model_parallel_size":1,"pipeline_model_parallel_size":{},)"
      R"("expert_model_parallel_size":{}}},"checkpoint_version":3.0}})",
      pp, ep);
}

std::string nameOf(const Checkpoint &checkpoint, std::string_view folder,
                   std::string_view key) {
  for (const StoredTensor &tensor : checkpoint.tensors)
    if (checkpoint.files[tensor.pieces[0].file].path.starts_with(folder) &&
        (tensor.key.empty() ? tensor.name : tensor.key) == key)
      return std::string(tensor.name);
  return "none";
}

// One and the same pair of folders has two readings.
TEST(TorchRanks, SecondFolderIsAnExpertRank) {
  test::TemporaryDirectory root;
  for (const char *folder : {"mp_rank_00_000", "mp_rank_00_001"})
    writeRank(root, folder, argsOf(1, 2), moeKeys(4, 2));
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(nameOf(*checkpoint, "mp_rank_00_001",
                   "decoder.layers.2.mlp.experts.linear_fc1.weight1"),
            "decoder.layers.2.mlp.experts.linear_fc1.weight3");
  EXPECT_EQ(checkpoint->tensors.back().rank, "tp0.pp0.ep1");
}

TEST(TorchRanks, SecondFolderIsAPipelineStage) {
  test::TemporaryDirectory root;
  for (const char *folder : {"mp_rank_00_000", "mp_rank_00_001"})
    writeRank(root, folder, argsOf(2, 1), moeKeys(2, 4));
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(nameOf(*checkpoint, "mp_rank_00_001",
                   "decoder.layers.1.mlp.experts.linear_fc1.weight2"),
            "decoder.layers.3.mlp.experts.linear_fc1.weight2");
  EXPECT_EQ(checkpoint->tensors.back().rank, "tp0.pp1.ep0");
}

TEST(TorchRanks, WithoutArgumentsThereIsNoReading) {
  test::TemporaryDirectory root;
  for (const char *folder : {"mp_rank_00_000", "mp_rank_00_001"})
    writeRank(root, folder, R"({"checkpoint_version":3.0})", moeKeys(2, 4));
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().message,
            (root / "mp_rank_00_000/model_optim_rng.pt") +
                ": has no saved arguments (args), so the sizes TP, PP and EP "
                "of the per-rank files are not known; the names of the folders "
                "can be read in two ways. Set tensor_model_parallel_size, "
                "pipeline_model_parallel_size, expert_model_parallel_size, "
                "num_layers and num_experts in args there, or load it in "
                "Megatron with these sizes and save it as torch_dist");
}

// Chunks go round the stages: those of stage 1 are the second and the fourth.
TEST(TorchRanks, VirtualStagesTakeTurns) {
  const std::string args =
      R"({"args":{"num_layers":4,"pipeline_model_parallel_size":2,)"
      R"("virtual_pipeline_model_parallel_size":2}})";
  test::TemporaryDirectory root;
  const std::vector<std::string> keys = {"decoder.layers.0.mlp.router.weight"};
  for (const char *folder : {"mp_rank_00_000", "mp_rank_00_001"})
    writeRank(root, folder, args, keys, 2);
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  std::set<std::pair<std::string, std::string>> found;
  for (const StoredTensor &tensor : checkpoint->tensors)
    found.emplace(tensor.rank, tensor.name.substr(15, 1));
  EXPECT_EQ(found, (std::set<std::pair<std::string, std::string>>{
                       {"tp0.pp0.ep0", "0"},
                       {"tp0.pp0.ep0", "2"},
                       {"tp0.pp1.ep0", "1"},
                       {"tp0.pp1.ep0", "3"}}));
  writeRank(root, "mp_rank_00_001", args, keys, 1);
  checkpoint = openCheckpoint(root.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().message,
            root.path() + ": mp_rank_00_001/model_optim_rng.pt has 1 model "
                          "chunks, the saved arguments say 2");
}

TEST(TorchRanks, MissingFileIsNamed) {
  test::TemporaryDirectory root;
  writeRank(root, "mp_rank_00_000", argsOf(2, 1), moeKeys(2, 4));
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().message,
            (root / "mp_rank_00_001/model_optim_rng.pt") +
                ": does not exist; the saved arguments say TP 1, PP 2, EP 1");
}

TEST(TorchRanks, LayersThatDoNotAddUp) {
  test::TemporaryDirectory root;
  writeRank(root, "mp_rank_00_000", argsOf(2, 1), moeKeys(2, 4));
  writeRank(root, "mp_rank_00_001", argsOf(2, 1), moeKeys(1, 4));
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().message,
            root.path() + ": the stages hold 3 decoder layers, the saved "
                          "arguments say 4");
}

TEST(TorchRanks, ExpertTensorRanksThatFoldersCannotTellApart) {
  test::TemporaryDirectory root;
  writeRank(root, "mp_rank_00",
            R"({"args":{"num_layers":2,"tensor_model_parallel_size":1,)"
            R"("expert_tensor_parallel_size":2}})",
            moeKeys(2, 2));
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_NE(checkpoint.error().message.find("TP 1 and expert TP 2"),
            std::string::npos);
}

TEST(TorchRanks, StagesOfAHybridModelMayDiffer) {
  test::TemporaryDirectory root;
  std::string common =
      R"({"args":{"hybrid_layer_pattern":"K-K|E/DE","num_layers":4,)"
      R"("pipeline_model_parallel_size":2}})";
  writeRank(root, "mp_rank_00_000", common,
            {"decoder.layers.0.a", "decoder.layers.1.a", "decoder.layers.2.a"});
  writeRank(root, "mp_rank_00_001", common,
            {"decoder.layers.0.a", "mtp.layers.0.enorm.weight"});
  auto checkpoint = openCheckpoint(root.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(nameOf(*checkpoint, "mp_rank_00_001", "decoder.layers.0.a"),
            "decoder.layers.3.a");
  EXPECT_EQ(nameOf(*checkpoint, "mp_rank_00_001", "mtp.layers.0.enorm.weight"),
            "mtp.layers.0.enorm.weight");
}

// TP 2 and EP 3 with ETP 1: 6 ranks a stage, as neither 2 nor 3 serves both.
TEST(TorchRanksLayout, StageHasRanksForBothDivisions) {
  ParallelSizes sizes{2, 1, 3, 1};
  EXPECT_EQ(stageRanks(sizes), 6);
  std::vector<std::string> folders;
  for (const RankFile &file : rankFiles(sizes))
    folders.push_back(file.path.substr(0, file.path.find('/')));
  EXPECT_EQ(folders,
            (std::vector<std::string>{"mp_rank_00_000", "mp_rank_01_001",
                                      "mp_rank_00_002", "mp_rank_01_000",
                                      "mp_rank_00_001", "mp_rank_01_002"}));
}

TEST(TorchRanksLayout, LaterStagesComeAfterAllRanksOfTheFirst) {
  std::vector<RankFile> files = rankFiles({2, 2, 1, 2});
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[3].path, "mp_rank_01_001/model_optim_rng.pt");
  EXPECT_EQ(files[3].lowestRank, 3);
  EXPECT_EQ(files[3].place.pp, 1);
}

TEST(TorchRanksLayout, NamesOfRanks) {
  EXPECT_EQ(rankName({1, 2, 3, 0}, {2, 4, 4, 1}), "tp1.pp2.ep3.etp0");
  EXPECT_EQ(rankName({1, 2, 3, 1}, {2, 4, 4, 2}), "tp1.pp2.ep3");
  RankPlace place = parseRankName("tp11.pp2.ep13.etp0");
  EXPECT_EQ(place.tp, 11);
  EXPECT_EQ(place.pp, 2);
  EXPECT_EQ(place.ep, 13);
  EXPECT_EQ(place.etp, 0);
  EXPECT_EQ(parseRankName("tp5.pp0.ep1").etp, 5);
}

} // namespace
} // namespace mbc
