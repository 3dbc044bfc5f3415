#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <set>

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

std::set<std::string> filesOf(const std::string &directory) {
  std::set<std::string> names;
  for (const auto &entry : fs::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

class Publication : public testing::Test {
protected:
  Scratch scratch_;
};

TEST_F(Publication, AMegatronCheckpointHasItsTrackerAndNoLeftovers) {
  fixture("llama").write(scratch_ / "hf");
  for (const std::string format : {"torch_dist", "torch"}) {
    const std::string target = scratch_ / format;
    ASSERT_EQ(
        mbc({"convert", scratch_ / "hf", target, "--format", format}).status,
        0);
    EXPECT_EQ(readText(target + "/latest_checkpointed_iteration.txt"),
              "release");
    EXPECT_FALSE(fs::exists(target + "/.mbc-partial"));
    EXPECT_TRUE(fs::is_directory(target + "/release"));
  }
}

// Everything that is not a tensor travels: the source may be gone by then.
TEST_F(Publication, SidecarsAndConfigComeBackByteForByte) {
  HfModel model = fixture("glm_moe_dsa");
  model.config["x_vendor"] = {{"a", {1, 2.5, nullptr}}};
  model.config["large"] = 100000000000000001;
  model.write(scratch_ / "hf");
  const std::map<std::string, std::string> sidecars{
      {"tokenizer.json", "{\"version\": \"1.0\"}\n"},
      {"tokenizer_config.json", "{}"},
      {"generation_config.json", "{\"eos_token_id\": [1, 2]}"},
      {"chat_template.jinja", "{{ messages }}"},
      {"merges.txt", "a b\n"}};
  for (const auto &[name, text] : sidecars)
    writeText(scratch_ / ("hf/" + name), text);
  writeText(scratch_ / "hf/.cache/huggingface/x", "no");
  const std::string config = readText(scratch_ / "hf/config.json");
  ASSERT_EQ(
      mbc({"convert", scratch_ / "hf", scratch_ / "mg", "--tp", "2"}).status,
      0);
  fs::remove_all(scratch_ / "hf");
  ASSERT_EQ(mbc({"convert", scratch_ / "mg", scratch_ / "back"}).status, 0);
  for (const auto &[name, text] : sidecars)
    EXPECT_EQ(readText(scratch_ / ("back/" + name)), text) << name;
  EXPECT_FALSE(fs::exists(scratch_ / "back/.cache"));
  EXPECT_EQ(Json::parse(readText(scratch_ / "back/config.json")),
            Json::parse(config));
  EXPECT_TRUE(
      readText(scratch_ / "back/config.json").contains("100000000000000001"));
  // The recorded split of files is kept.
  EXPECT_TRUE(fs::exists(scratch_ / "back/model-00002-of-00002.safetensors"));
}

// An old export of three files, and a new one of fewer: the old files go, a
// stranger's file stays.
TEST_F(Publication, ForceReplacesExactlyWhatTheOldIndexNames) {
  fixture("glm5_next").write(scratch_ / "large"); // three files
  fixture("qwen3_moe").write(scratch_ / "small"); // two files
  ASSERT_EQ(mbc({"convert", scratch_ / "large", scratch_ / "mg1"}).status, 0);
  ASSERT_EQ(mbc({"convert", scratch_ / "small", scratch_ / "mg2"}).status, 0);
  const std::string out = scratch_ / "out";
  ASSERT_EQ(mbc({"convert", scratch_ / "mg1", out}).status, 0);
  writeText(out + "/notes.txt", "mine");
  const auto before = filesOf(out);
  const Tensors old = readSafetensors(out);

  const Outcome outcome = mbc({"convert", scratch_ / "mg2", out});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("--force")) << outcome.err;
  EXPECT_EQ(filesOf(out), before);
  EXPECT_EQ(difference(old, readSafetensors(out)), "");

  ASSERT_EQ(mbc({"convert", scratch_ / "mg2", out, "--force"}).status, 0);
  EXPECT_EQ(filesOf(out),
            (std::set<std::string>{"config.json", "notes.txt",
                                   "model-00001-of-00002.safetensors",
                                   "model-00002-of-00002.safetensors",
                                   "model.safetensors.index.json"}));
  EXPECT_EQ(readText(out + "/notes.txt"), "mine");
  EXPECT_EQ(difference(fixture("qwen3_moe").tensors(), readSafetensors(out)),
            "");
}

TEST_F(Publication, TheIndexSumsWhatTheFilesHold) {
  const HfModel model = fixture("glm5_next");
  model.write(scratch_ / "hf");
  ASSERT_EQ(mbc({"convert", scratch_ / "hf", scratch_ / "mg"}).status, 0);
  ASSERT_EQ(mbc({"convert", scratch_ / "mg", scratch_ / "back",
                 "--max-shard-size", "300KB"})
                .status,
            0);
  const Json index =
      Json::parse(readText(scratch_ / "back/model.safetensors.index.json"));
  uint64_t total = 0;
  const Tensors tensors = readSafetensors(scratch_ / "back");
  for (const auto &[name, tensor] : tensors)
    total += tensor.bytes.size();
  EXPECT_EQ(index["metadata"]["total_size"], total);
  EXPECT_EQ(index["weight_map"].size(), tensors.size());
  for (const auto &[name, file] : index["weight_map"].items())
    EXPECT_TRUE(fs::exists(scratch_ / ("back/" + file.get<std::string>())))
        << name;
  EXPECT_EQ(difference(model.tensors(), tensors), "");
}

// A plan is compiled in one place and run in another.
TEST_F(Publication, APlanRunsWhereItIsTakenTo) {
  const HfModel model = fixture("qwen3");
  model.write(scratch_ / "here/hf");
  Outcome outcome = mbc({"compile", scratch_ / "here/hf", "-o",
                         scratch_ / "import.mbc", "--tp", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  fs::create_directories(scratch_ / "there");
  fs::rename(scratch_ / "here/hf", scratch_ / "there/hf");
  outcome = mbc({"run", scratch_ / "import.mbc", "--from",
                 scratch_ / "there/hf", scratch_ / "mg"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_EQ(mbc({"convert", scratch_ / "mg", scratch_ / "back"}).status, 0);
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

TEST_F(Publication, APlanMeetsAnotherSource) {
  fixture("qwen3").write(scratch_ / "hf");
  fixture("llama").write(scratch_ / "other");
  ASSERT_EQ(
      mbc({"compile", scratch_ / "hf", "-o", scratch_ / "plan.mbc"}).status, 0);
  const Outcome outcome = mbc({"run", scratch_ / "plan.mbc", "--from",
                               scratch_ / "other", scratch_ / "mg"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("model.safetensors")) << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "mg/release"));
}

} // namespace
} // namespace mbc::test
