#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"
#include "tests/end-to-end/SmallDisk.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

/// Every file below a folder, by its path from there.
std::map<std::string, std::string> contentsOf(const std::string &directory) {
  std::map<std::string, std::string> contents;
  for (const auto &entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      contents[entry.path().lexically_relative(directory)] =
          readText(entry.path());
  return contents;
}

/// A conversion in either direction of a model whose weights are several files
/// on both sides, and the same one where there is room.
struct Direction {
  std::string name;
  std::vector<std::string> options; ///< of the import
  bool exports = false;
};

class DiskFull : public testing::TestWithParam<Direction> {
protected:
  void SetUp() override {
    fixture("qwen3_moe").write(scratch_ / "hf");
    std::vector<std::string> import{"convert", scratch_ / "hf",
                                    scratch_ / "mg"};
    import.insert(import.end(), GetParam().options.begin(),
                  GetParam().options.end());
    const Outcome imported = mbc(import);
    ASSERT_EQ(imported.status, 0) << imported.err;
    if (GetParam().exports) {
      ASSERT_EQ(mbc({"convert", scratch_ / "mg", scratch_ / "back"}).status, 0);
      files_ = scratch_ / "mg/release";
    } else {
      files_ = scratch_ / "hf";
    }
    undisturbed_ = contentsOf(scratch_ / (GetParam().exports ? "back" : "mg"));
    for (const auto &[path, bytes] : undisturbed_)
      if (path != "latest_checkpointed_iteration.txt")
        needed_ += bytes.size();
  }

  /// The arguments that write the target, unit by unit, in small steps.
  std::vector<std::string> into(const std::string &target) const {
    std::vector<std::string> arguments{
        "convert", scratch_ / (GetParam().exports ? "mg" : "hf"),
        target,    "--threads",
        "1",       "--memory",
        "64KiB"};
    if (!GetParam().exports)
      arguments.insert(arguments.end(), GetParam().options.begin(),
                       GetParam().options.end());
    return arguments;
  }

  Scratch scratch_;
  std::string files_; ///< the folder that holds the source's weights
  std::map<std::string, std::string> undisturbed_;
  uint64_t needed_ = 0; ///< bytes of the target without its tracker
};

/// Nothing of a target that a loader could take for a checkpoint, nor anything
/// that was begun.
void expectNothingAt(const std::string &target) {
  EXPECT_FALSE(fs::exists(target));
}

TEST_P(DiskFull, TooLittleRoomIsRefusedBeforeTheWork) {
  SmallDisk disk(scratch_ / "disk", needed_ / 2);
  if (!disk.mounted())
    GTEST_SKIP() << "only root may mount a file system";
  const uint64_t room = disk.freeBytes();
  ASSERT_LT(room, needed_);
  const Outcome outcome = mbc(into(disk / "out"));
  EXPECT_EQ(outcome.status, 1);
  const std::string numbers = "needs " + std::to_string(needed_) + " bytes, " +
                              std::to_string(room) + " are free";
  EXPECT_TRUE(outcome.err.contains(numbers)) << outcome.err;
  expectNothingAt(disk / "out");
  EXPECT_EQ(disk.freeBytes(), room);
}

TEST_P(DiskFull, RoomThatGoesHalfWayIsAnErrorOfTheFileBeingWritten) {
  SmallDisk disk(scratch_ / "disk", needed_ + (1 << 20));
  if (!disk.mounted())
    GTEST_SKIP() << "only root may mount a file system";
  const std::string target = disk / "out";
  // As soon as mbc, having written a first weight file, reads on.
  std::string before;
  auto look = [&] {
    std::error_code error;
    if (before.empty())
      for (const auto &entry :
           fs::directory_iterator(target + "/.mbc-partial", error))
        if (entry.path().filename() != "lock")
          before = entry.path().filename();
    if (!before.empty())
      disk.fill("filler");
  };
  Outcome outcome;
  {
    HeldReads held(files_, look);
    if (!held.holding())
      GTEST_SKIP() << "the system cannot hold another process's reads";
    outcome = mbc(into(target));
  }
  ASSERT_NE(before, "") << "no read came after a first file was there";
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("No space left on device")) << outcome.err;
  bool named = false;
  for (const auto &[path, bytes] : undisturbed_) {
    const std::string inside = path.substr(path.find('/') + 1);
    named = named || (inside != before &&
                      outcome.err.contains(".mbc-partial/" + inside + ":") &&
                      outcome.err.contains(std::to_string(bytes.size())));
  }
  EXPECT_TRUE(named) << outcome.err;
  expectNothingAt(target);

  fs::remove(disk / "filler");
  outcome = mbc(into(target));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(contentsOf(target), undisturbed_);
}

// The same without root: the system refuses to let any file grow so far.
TEST_P(DiskFull, AFileOverTheUsersLimitIsAnErrorOfThatFile) {
  uint64_t largest = 0;
  for (const auto &[path, bytes] : undisturbed_)
    largest = std::max<uint64_t>(largest, bytes.size());
  const uint64_t limit = largest / fileLimitUnit - 1;
  const Outcome outcome = mbcWithFileLimit(limit, into(scratch_ / "out"));
  EXPECT_EQ(outcome.status, 1);
  bool named = false;
  for (const auto &[path, bytes] : undisturbed_)
    named = named || (bytes.size() > limit * fileLimitUnit &&
                      outcome.err.contains(
                          ".mbc-partial/" + path.substr(path.find('/') + 1) +
                          ": cannot reserve " + std::to_string(bytes.size())));
  EXPECT_TRUE(named) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("File too large")) << outcome.err;
  expectNothingAt(scratch_ / "out");
}

INSTANTIATE_TEST_SUITE_P(
    Directions, DiskFull,
    testing::Values(
        Direction{"ImportTorchDist", {"--pp", "3"}, false},
        Direction{"ImportTorch", {"--pp", "3", "--format", "torch"}, false},
        Direction{"Export", {}, true}),
    [](const auto &info) { return info.param.name; });

} // namespace
} // namespace mbc::test
