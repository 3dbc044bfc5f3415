#include "runtime/Publish.h"
#include "runtime/Executor.h"
#include "tests/runtime/PlanBuilder.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <unistd.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> filesOf(const std::string &directory) {
  std::set<std::string> files;
  for (const auto &entry : fs::recursive_directory_iterator(directory))
    if (!entry.is_directory())
      files.insert(entry.path().lexically_relative(directory));
  return files;
}

/// Runs a plan of one tensor "t" with the bytes "tensor", sidecars as given.
class Publishing : public testing::Test {
protected:
  Publishing() { directory_.write("src/w.bin", "tensor"); }

  PlanBuilder plan(plan::TargetFormat format, const std::string &file,
                   std::map<std::string, std::string> sidecars) {
    PlanBuilder builder(format);
    uint32_t source = builder.source(builder.sourceFile("w.bin", 6), 0);
    uint32_t item = builder.item(builder.targetFile(file, 6),
                                 builder.tensor("t", DType::U8, {6}), 0, {0});
    std::vector<plan::OutputT> outputs;
    outputs.push_back(output(DType::U8, {6}, {box(0, 0, 0, {{6, 1, 1}})}));
    addClass(builder, classOf({input(DType::U8, 6)}, std::move(outputs),
                              {source}, {item}));
    for (const auto &[name, bytes] : sidecars)
      builder.sidecar(name, bytes);
    return builder;
  }
  PlanBuilder single() {
    return plan(plan::TargetFormat_Safetensors, "model.safetensors",
                {{"config.json", "{}"}});
  }
  /// The error, or "".
  std::string run(const PlanBuilder &builder, bool force = false) {
    RunOptions options;
    options.force = force;
    Result<RunSummary> summary =
        mbc::run(builder.build(), directory_ / "src", target_, options);
    return summary ? "" : summary.error().message;
  }

  TemporaryDirectory directory_;
  std::string target_ = directory_ / "dst";
};

TEST_F(Publishing, RefusesATargetThatIsNotEmpty) {
  directory_.write("dst/notes.txt", "mine");
  EXPECT_EQ(run(single()),
            target_ + ": not empty (it holds 'notes.txt'): choose another "
                      "directory, or give --force to replace the checkpoint "
                      "there");
  EXPECT_EQ(filesOf(target_), std::set<std::string>{"notes.txt"});
}

TEST_F(Publishing, RefusesTheSourceAndWhatLiesInIt) {
  for (std::string inner : {"src", "src/", "src/deeper/out", "other/../src"}) {
    target_ = directory_ / inner;
    EXPECT_NE(run(single(), true).find("the target is the source"),
              std::string::npos)
        << inner;
  }
  EXPECT_EQ(filesOf(directory_ / "src"), std::set<std::string>{"w.bin"});
  target_ = directory_ / "src2"; // a neighbour with the same beginning
  EXPECT_EQ(run(single()), "");
}

TEST_F(Publishing, AnUnfinishedRunIsNamedAndForceStartsAgain) {
  directory_.write("dst/.mbc-partial/model.safetensors", "half");
  EXPECT_EQ(run(single()), target_ + ": an unfinished run is there: remove " +
                               target_ +
                               "/.mbc-partial, or give --force to "
                               "start again");
  EXPECT_EQ(readText(target_ + "/.mbc-partial/model.safetensors"), "half");
  EXPECT_EQ(run(single(), true), "");
  EXPECT_EQ(filesOf(target_),
            (std::set<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(readText(target_ + "/model.safetensors"), "tensor");
}

TEST_F(Publishing, ASecondRunIsRefusedAndNamesTheFirst) {
  Plan first = single().build();
  Result<Publication> going =
      Publication::begin(*first, directory_ / "src", target_, false, 6);
  ASSERT_TRUE(going) << going.error().message;
  for (bool force : {false, true}) {
    std::string error = run(single(), force);
    EXPECT_NE(error.find(fmt::format("process {} on ", getpid())),
              std::string::npos)
        << error;
  }
  ASSERT_TRUE(going->stage("model.safetensors", "first"));
  ASSERT_TRUE(going->publish(false));
  EXPECT_EQ(readText(target_ + "/model.safetensors"), "first");
}

TEST_F(Publishing, WithoutPublicationNothingStays) {
  Plan plan = single().build();
  {
    Result<Publication> abandoned =
        Publication::begin(*plan, directory_ / "src", target_, false, 6);
    ASSERT_TRUE(abandoned);
    ASSERT_TRUE(abandoned->stage("config.json", "{}"));
    EXPECT_FALSE(fs::exists(target_ + "/config.json"));
  }
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(Publishing, ForceRemovesExactlyWhatTheOldIndexNames) {
  directory_.write("dst/model.safetensors.index.json",
                   R"({"weight_map": {"a": "old-1.safetensors",
                       "b": "old-2.safetensors", "c": "../src/w.bin"}})");
  for (const char *name : {"old-1.safetensors", "old-2.safetensors",
                           "config.json", "notes.txt", "stray.safetensors"})
    directory_.write("dst/" + std::string(name), "old");
  EXPECT_EQ(run(single(), true), "");
  EXPECT_EQ(filesOf(target_),
            (std::set<std::string>{"config.json", "model.safetensors",
                                   "notes.txt", "stray.safetensors"}));
  EXPECT_EQ(readText(directory_ / "src/w.bin"), "tensor");
}

TEST_F(Publishing, ForceReplacesAnOldMegatronIteration) {
  directory_.write("dst/latest_checkpointed_iteration.txt", "release");
  for (const char *name : {"__7_0.distcp", ".metadata", "metadata.json",
                           "mbc/record.json", "notes.txt"})
    directory_.write("dst/release/" + std::string(name), "old");
  directory_.write("dst/iter_0000010/__0_0.distcp", "kept");
  PlanBuilder ranks =
      plan(plan::TargetFormat_Safetensors, "model.safetensors", {});
  EXPECT_EQ(run(ranks, true), "");
  EXPECT_EQ(filesOf(target_),
            (std::set<std::string>{"iter_0000010/__0_0.distcp",
                                   "model.safetensors", "release/notes.txt"}));
}

TEST_F(Publishing, ANewIterationMovesAroundForeignFiles) {
  directory_.write("dst/latest_checkpointed_iteration.txt", "release\n");
  directory_.write("dst/release/notes.txt", "mine");
  directory_.write("dst/release/__0_0.distcp", "old");
  Plan plan =
      this->plan(plan::TargetFormat_TorchDist, "__0_0.distcp", {}).build();
  Result<Publication> going =
      Publication::begin(*plan, directory_ / "src", target_, true, 6);
  ASSERT_TRUE(going) << going.error().message;
  ASSERT_TRUE(going->stage("mbc/hf/config.json", "{}"));
  ASSERT_TRUE(going->stage("__0_0.distcp", "new"));
  EXPECT_EQ(readText(target_ + "/release/__0_0.distcp"), "old");
  ASSERT_TRUE(going->publish(true));
  EXPECT_EQ(filesOf(target_),
            (std::set<std::string>{"latest_checkpointed_iteration.txt",
                                   "release/__0_0.distcp", "release/notes.txt",
                                   "release/mbc/hf/config.json"}));
  EXPECT_EQ(readText(target_ + "/release/__0_0.distcp"), "new");
  EXPECT_EQ(readText(target_ + "/latest_checkpointed_iteration.txt"),
            "release");
}

} // namespace
} // namespace mbc::test
