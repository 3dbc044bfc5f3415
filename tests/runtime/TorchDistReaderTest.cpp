#include "runtime/TensorBytes.h"
#include "tests/runtime/TorchDistFolder.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

namespace mbc {
namespace {

const StoredTensor *find(const Checkpoint &checkpoint, std::string_view name) {
  for (const StoredTensor &tensor : checkpoint.tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

std::vector<float> values(const Checkpoint &checkpoint, std::string_view name) {
  const StoredTensor *tensor = find(checkpoint, name);
  if (!tensor)
    return {};
  std::vector<float> all;
  auto streamed =
      streamBox(checkpoint, *tensor, wholeBox(*tensor),
                [&](std::span<const std::byte> bytes) {
                  size_t old = all.size();
                  all.resize(old + bytes.size() / sizeof(float));
                  std::memcpy(all.data() + old, bytes.data(), bytes.size());
                });
  EXPECT_TRUE(streamed);
  return all;
}

constexpr std::string_view fc1 =
    "decoder.layers.mlp.experts.experts.linear_fc1.weight";

TEST(TorchDistReader, ChunkOfSeveralLayersAndExpertsIsCutUp) {
  // [2 layers, 2 experts, 2 rows, 2 columns] in one chunk, values 0 to 15.
  test::TorchDistFolder folder;
  folder.tensor(fc1, {2, 2, 2, 2});
  folder.chunk({0, 0, 0, 0}, {2, 2, 2, 2});
  auto checkpoint = folder.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->tensors.size(), 4u);
  EXPECT_EQ(
      values(*checkpoint, "decoder.layers.1.mlp.experts.linear_fc1.weight0"),
      (std::vector<float>{8, 9, 10, 11}));
  EXPECT_EQ(
      values(*checkpoint, "decoder.layers.0.mlp.experts.linear_fc1.weight1"),
      (std::vector<float>{4, 5, 6, 7}));
  ASSERT_EQ(checkpoint->keys.size(), 1u);
  EXPECT_EQ(*checkpoint->keys[0].shape, (Shape{2, 2, 2, 2}));
}

TEST(TorchDistReader, ChunksAcrossColumnsAreJoined) {
  test::TorchDistFolder folder;
  folder.tensor("decoder.layers.0.self_attention.linear_proj.weight", {2, 4});
  folder.chunk({0, 2}, {2, 2}, 100);
  folder.chunk({0, 0}, {2, 2}, 0);
  auto checkpoint = folder.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(
      values(*checkpoint, "decoder.layers.0.self_attention.linear_proj.weight"),
      (std::vector<float>{0, 1, 100, 101, 2, 3, 102, 103}));
}

TEST(TorchDistReader, SectionsAreJoinedInRowOrder) {
  test::TorchDistFolder folder;
  folder.tensor("decoder.layers.0.self_attention.in_proj.weight.value", {1, 2});
  folder.chunk({0, 0}, {1, 2}, 30);
  folder.tensor("decoder.layers.0.self_attention.in_proj.weight.key", {2, 2});
  folder.chunk({1, 0}, {1, 2}, 22);
  folder.chunk({0, 0}, {1, 2}, 20);
  folder.tensor("decoder.layers.0.self_attention.in_proj.weight.query", {1, 2});
  folder.chunk({0, 0}, {1, 2}, 10);
  auto checkpoint = folder.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const StoredTensor *tensor =
      find(*checkpoint, "decoder.layers.0.self_attention.in_proj.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_TRUE(std::ranges::equal(tensor->sections, std::vector{1, 2, 1}));
  EXPECT_EQ(values(*checkpoint, tensor->name),
            (std::vector<float>{10, 11, 20, 21, 22, 23, 30, 31}));
}

TEST(TorchDistReader, HoleNamesLayerExpertAndRows) {
  test::TorchDistFolder folder;
  folder.tensor(fc1, {2, 4, 24, 8});
  for (int64_t layer : {0, 1})
    for (int64_t expert : {0, 1, 2, 3})
      for (int64_t row : {0, 12})
        if (layer != 1 || expert != 2 || row != 12)
          folder.chunk({layer, expert, row, 0}, {1, 1, 12, 8});
  auto checkpoint = folder.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->holes.size(), 1u);
  const StoredHole &hole = checkpoint->holes.front();
  EXPECT_EQ(hole.tensor, "decoder.layers.1.mlp.experts.linear_fc1.weight2");
  EXPECT_EQ(hole.axis, std::optional<size_t>(0));
  EXPECT_EQ(hole.begin, 12);
  EXPECT_EQ(hole.end, 24);
  EXPECT_EQ(hole.text,
            folder.path() +
                "/.metadata: tensor decoder.layers.1.mlp.experts.linear_fc1."
                "weight2: layer 1, expert 2 (key decoder.layers.mlp.experts."
                "experts.linear_fc1.weight): rows 12 to 23 are covered by no "
                "chunk");
}

TEST(TorchDistReader, OverlapNamesTheRows) {
  test::TorchDistFolder folder;
  folder.tensor("decoder.layers.0.mlp.linear_fc2.weight", {4, 2});
  folder.chunk({0, 0}, {3, 2});
  folder.chunk({2, 0}, {2, 2});
  auto checkpoint = folder.open();
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().message,
            folder.path() + "/.metadata: tensor decoder.layers.0.mlp.linear_"
                            "fc2.weight (key decoder.layers.0.mlp.linear_fc2."
                            "weight): rows 2 to 2 are in two chunks");
}

TEST(TorchDistReader, BothNamesOfTheMtpLayerAreRefused) {
  test::TorchDistFolder folder;
  for (const char *key :
       {"mtp.layers.0.transformer_layer.mlp.linear_fc2.weight",
        "mtp.layers.0.mtp_model_layer.mlp.linear_fc2.weight"}) {
    folder.tensor(key, {1, 2});
    folder.chunk({0, 0}, {1, 2});
  }
  auto checkpoint = folder.open();
  ASSERT_FALSE(checkpoint);
  EXPECT_NE(checkpoint.error().message.find("are two names of one tensor"),
            std::string::npos);
}

TEST(TorchDistReader, OptimizerStateIsSkippedWithANote) {
  test::TorchDistFolder folder;
  folder.tensor("output_layer.weight", {1, 2});
  folder.chunk({0, 0}, {1, 2});
  folder.tensor("optimizer.state.exp_avg.output_layer.weight", {1, 2});
  folder.chunk({0, 0}, {1, 2});
  auto checkpoint = folder.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors.size(), 1u);
  EXPECT_EQ(checkpoint->notes[0],
            "1 entries of optimizer and random state were skipped.");
}

TEST(TorchDistReader, CommonStateFromFileOrObject) {
  std::string_view json = R"({"args":{"num_layers":2,"params_dtype":)"
                          R"("torch.bfloat16"},"checkpoint_version":3.0,)"
                          R"("iteration":7})";
  {
    test::TorchDistFolder folder;
    std::string object = *commonObject(json);
    folder.object("common_state/shard_0_1", object);
    auto checkpoint = folder.open();
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->argsJson, json);
  }
  test::TorchDistFolder folder;
  std::string object = *commonObject(json);
  folder.object("common_state/shard_0_1", object);
  folder.directory().write("common.pt",
                           *commonFile(R"({"args":{},"iteration":8})"));
  auto checkpoint = folder.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->argsJson, R"({"args":{},"iteration":8})");
  EXPECT_EQ(checkpoint->notes.at(0),
            "common.pt and the object common_state differ; common.pt was used, "
            "as Megatron-Core does.");
}

TEST(TorchDistReader, RecordAndSidecars) {
  test::TorchDistFolder folder;
  folder.tensor("output_layer.weight", {1, 2});
  folder.chunk({0, 0}, {1, 2});
  folder.directory().write("mbc/record.json", "{\"schema\":1}");
  folder.directory().write("mbc/hf/config.json", "{\"x\":1}");
  folder.directory().write("mbc/hf/tokenizer.json", "t");
  auto checkpoint = folder.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->recordJson, "{\"schema\":1}");
  EXPECT_EQ(checkpoint->configJson, "{\"x\":1}");
  EXPECT_EQ(checkpoint->sidecars, std::vector<std::string>{"tokenizer.json"});
}

TEST(TorchDistReader, SectionsOfUnknownPlaceAreNotJoined) {
  test::TorchDistFolder folder;
  for (const char *key : {"decoder.layers.0.mixer.in_proj.weight.query",
                          "decoder.layers.0.mixer.in_proj.weight.gamma"}) {
    folder.tensor(key, {1, 2});
    folder.chunk({0, 0}, {1, 2});
  }
  auto checkpoint = folder.open();
  ASSERT_FALSE(checkpoint);
  EXPECT_NE(checkpoint.error().message.find(
                "decoder.layers.0.mixer.in_proj.weight.gamma: the place of its "
                "section 'gamma' among the 2 sections"),
            std::string::npos)
      << checkpoint.error().message;
}

TEST(TorchDistReader, PayloadThatIsShorterThanTheIndexSays) {
  test::TorchDistFolder folder;
  folder.tensor("output_layer.weight", {1, 2});
  folder.chunk({0, 0}, {1, 2});
  ASSERT_TRUE(folder.open());
  std::filesystem::resize_file(folder.path() + "/__0_0.distcp", 100);
  auto checkpoint = openCheckpoint(folder.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_NE(checkpoint.error().message.find("the file has 100"),
            std::string::npos)
      << checkpoint.error().message;
}

TEST(TorchDistReader, Trackers) {
  test::TemporaryDirectory root;
  std::string tracker = "latest_checkpointed_iteration.txt";
  root.write(tracker, "12\n");
  auto missing = openCheckpoint(root.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, (root / tracker) + ": points to " +
                                         (root / "iter_0000012") +
                                         ", which is no directory");
  root.write(tracker, "latest");
  EXPECT_EQ(openCheckpoint(root.path()).error().message,
            (root / tracker) +
                ": holds \"latest\", it must be an iteration or \"release\"");
}

} // namespace
} // namespace mbc
