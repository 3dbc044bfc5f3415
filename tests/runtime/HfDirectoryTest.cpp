#include "runtime/HfDirectory.h"

#include "runtime/PickleWriter.h"
#include "runtime/Safetensors.h"
#include "runtime/TorchArchive.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <gtest/gtest.h>

namespace mbc {
namespace {

class HfDirectory : public ::testing::Test {
protected:
  HfDirectory() { directory_.write("config.json", "{}"); }

  /// A file with float tensors of one element.
  void weights(const std::string &name, const std::vector<std::string> &names) {
    std::vector<SafetensorsEntry> entries;
    for (const std::string &tensor : names)
      entries.push_back({tensor, DType::F32, {1}});
    SafetensorsHeader header = *layoutSafetensors(entries);
    header.bytes.resize(header.fileSize);
    directory_.write(name, header.bytes);
  }
  /// A file as torch.save writes a state dict: float tensors of one element,
  /// all in one storage.
  void stateDict(const std::string &name,
                 const std::vector<std::string> &names) {
    PickleWriter out;
    out.emptyDict();
    out.mark();
    const int64_t one = 1;
    for (const std::string &tensor : names) {
      out.text(tensor);
      out.tensor("0", DType::F32, {&one, 1});
    }
    out.setItems();
    const std::string_view storage("\0\0\0\0", 4);
    directory_.write(
        name, archiveBytes("archive", std::move(out).finish(), {&storage, 1}));
  }
  void index(std::string_view map,
             const std::string &name = "model.safetensors.index.json") {
    directory_.write(name, fmt::format(R"({{"metadata":{{"total_size":1}},)"
                                       R"("weight_map":{{{}}}}})",
                                       map));
  }
  /// The message with the directory taken out.
  std::string failure() {
    auto checkpoint = openCheckpoint(directory_.path());
    if (checkpoint)
      return "no error";
    std::string message = checkpoint.error().message;
    for (size_t at; (at = message.find(directory_.path())) != message.npos;)
      message.erase(at, directory_.path().size());
    return message;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(HfDirectory, SingleFileAndSidecars) {
  weights("model.safetensors", {"a"});
  for (const char *name : {"tokenizer.json", "modeling_x.py", "README.md",
                           ".hidden", "pytorch_model.bin", "cache/file"})
    directory_.write(name, "x");
  auto checkpoint = openCheckpoint(directory_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->configJson, "{}");
  EXPECT_EQ(checkpoint->sidecars,
            (std::vector<std::string>{"modeling_x.py", "tokenizer.json"}));
  ASSERT_EQ(checkpoint->tensors.size(), 1u);
}

// Older models have nothing else; what shares a storage is a tensor each.
TEST_F(HfDirectory, StateDictsAreReadWhereThereIsNoSafetensors) {
  stateDict("pytorch_model-00001-of-00002.bin", {"a", "b"});
  stateDict("pytorch_model-00002-of-00002.bin", {"c"});
  directory_.write("training_args.bin", "x");
  for (bool indexed : {false, true}) {
    if (indexed)
      index(R"("a":"pytorch_model-00001-of-00002.bin",)"
            R"("b":"pytorch_model-00001-of-00002.bin",)"
            R"("c":"pytorch_model-00002-of-00002.bin")",
            "pytorch_model.bin.index.json");
    auto checkpoint = openCheckpoint(directory_.path());
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    ASSERT_EQ(checkpoint->tensors.size(), 3u);
    const StoredTensor &a = checkpoint->tensors[checkpoint->find("a")],
                       &b = checkpoint->tensors[checkpoint->find("b")];
    EXPECT_EQ(*a.shape, (Shape{1}));
    EXPECT_EQ(a.pieces[0].offset, b.pieces[0].offset);
    EXPECT_TRUE(checkpoint->sidecars.empty());
  }
  index(R"("a":"other.safetensors")", "pytorch_model.bin.index.json");
  EXPECT_EQ(failure(), "/pytorch_model.bin.index.json: tensor a: the file name "
                       "\"other.safetensors\" does not end in .bin");
}

TEST_F(HfDirectory, AStateDictHoldsTensorsOnly) {
  PickleWriter out;
  out.emptyDict();
  out.mark();
  out.text("step");
  out.integer(7);
  out.setItems();
  directory_.write("pytorch_model.bin",
                   archiveBytes("archive", std::move(out).finish(), {}));
  EXPECT_EQ(failure(), "/pytorch_model.bin: entry 0 (\"step\") is no tensor "
                       "with a name");
}

TEST_F(HfDirectory, TensorThatTheIndexForgetsIsUsedWithANote) {
  weights("m1.safetensors", {"a", "b"});
  index(R"("a":"m1.safetensors")");
  auto checkpoint = openCheckpoint(directory_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors.size(), 2u);
  ASSERT_EQ(checkpoint->notes.size(), 1u);
  EXPECT_EQ(checkpoint->notes[0],
            "model.safetensors.index.json does not list 1 tensor that the "
            "files hold, used all the same: b (m1.safetensors).");
}

TEST_F(HfDirectory, IndexThatLiesNamesEachTensor) {
  weights("m1.safetensors", {"a"});
  weights("m2.safetensors", {"b"});
  index(R"("a":"m2.safetensors","b":"m2.safetensors","x":"m1.safetensors")");
  EXPECT_EQ(failure(), "/model.safetensors.index.json: disagrees with the "
                       "files about 2 tensors: a (listed in m2.safetensors, "
                       "found in m1.safetensors), x (listed in "
                       "m1.safetensors, in no file)");
}

TEST_F(HfDirectory, TensorInTwoFiles) {
  weights("m1.safetensors", {"a", "b"});
  weights("m2.safetensors", {"b"});
  index(R"("a":"m1.safetensors","b":"m2.safetensors")");
  EXPECT_EQ(failure(), ": tensor b: is in two files, m1.safetensors and "
                       "m2.safetensors; remove one");
}

TEST_F(HfDirectory, TensorTwiceInAHeader) {
  std::string_view header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  directory_.write("model.safetensors", bytes.append(header).append("xx"));
  EXPECT_EQ(failure(), "/model.safetensors: tensor a: is in the header twice");
}

TEST_F(HfDirectory, IndexEntriesThatLeaveTheDirectory) {
  weights("m.safetensors", {"a"});
  for (std::string_view name : {"../outside.safetensors", "/tmp/x.safetensors",
                                "sub/../m.safetensors", "./m.safetensors"}) {
    index(fmt::format(R"("a":"{}")", name));
    std::string message = failure();
    EXPECT_EQ(message.find(fmt::format("/model.safetensors.index.json: tensor "
                                       "a: the file name \"{}\" ",
                                       name)),
              0u)
        << message;
  }
}

TEST_F(HfDirectory, IndexEntriesThatAreNoFiles) {
  index(R"("a":"m.safetensors")");
  EXPECT_EQ(failure(), "/model.safetensors.index.json: tensor a: the file "
                       "\"m.safetensors\" does not exist");
  directory_.write("d.safetensors/x", "");
  index(R"("a":"d.safetensors")");
  EXPECT_EQ(failure(), "/model.safetensors.index.json: tensor a: the file "
                       "\"d.safetensors\" is a directory");
}

TEST_F(HfDirectory, FilesOfASetAreCounted) {
  weights("model-00001-of-00003.safetensors", {"a"});
  weights("model-00003-of-00003.safetensors", {"c"});
  EXPECT_EQ(failure(), ": has 2 of the 3 files model-*.safetensors, and no "
                       "model.safetensors.index.json");
}

TEST_F(HfDirectory, LinkedWeightsAreRead) {
  weights("blob.safetensors", {"a"});
  std::filesystem::create_directory(directory_ / "snapshot");
  directory_.write("snapshot/config.json", "{}");
  std::filesystem::create_symlink("../blob.safetensors",
                                  directory_ / "snapshot/model.safetensors");
  auto checkpoint = openCheckpoint(directory_ / "snapshot");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors.size(), 1u);
}

TEST(OpenCheckpoint, UnfinishedRunIsNoCheckpoint) {
  test::TemporaryDirectory directory;
  directory.write(".mbc-partial/release/.metadata", "x");
  auto root = openCheckpoint(directory.path());
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().message,
            directory.path() + ": holds an unfinished run (.mbc-partial) and "
                               "no finished checkpoint");
  auto partial = openCheckpoint(directory / ".mbc-partial");
  ASSERT_FALSE(partial);
  EXPECT_EQ(partial.error().message,
            directory.path() +
                "/.mbc-partial: is an unfinished run, not a checkpoint");
}

} // namespace
} // namespace mbc
