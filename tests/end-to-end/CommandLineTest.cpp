#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

class CommandLine : public testing::Test {
protected:
  /// The arguments `-o path` and what is expected of them: a refusal that
  /// leaves the path what it is and nothing beside it.
  void expectRefused(std::vector<std::string> arguments,
                     const std::string &path) {
    const fs::file_type type = fs::symlink_status(path).type();
    arguments.insert(arguments.end(), {"-o", path});
    const Outcome outcome = mbc(arguments);
    EXPECT_EQ(outcome.status, 1) << spell(arguments);
    EXPECT_TRUE(outcome.err.contains(path + ": is not a regular file"))
        << outcome.err;
    EXPECT_EQ(fs::symlink_status(path).type(), type);
    EXPECT_FALSE(fs::exists(path + ".partial"));
  }

  Scratch scratch_;
};

TEST_F(CommandLine, AnUnknownCommandIsWrongUsageWithHelpToo) {
  for (const std::vector<std::string> &arguments :
       {std::vector<std::string>{"frobnicate"},
        {"frobnicate", "--help"},
        {"--help", "frobnicate"}}) {
    const Outcome outcome = mbc(arguments);
    EXPECT_EQ(outcome.status, 2) << spell(arguments);
    EXPECT_TRUE(outcome.err.contains("unknown command 'frobnicate'"))
        << outcome.err;
  }
  for (const std::vector<std::string> &arguments :
       {std::vector<std::string>{"--help"}, {"ls", "--help"}}) {
    const Outcome outcome = mbc(arguments);
    EXPECT_EQ(outcome.status, 0) << spell(arguments);
    EXPECT_TRUE(outcome.out.contains("Example:")) << outcome.out;
  }
}

TEST_F(CommandLine, OnlyARegularFileIsReplaced) {
  fixture("qwen3").write(scratch_ / "hf");
  const std::string pipe = scratch_ / "pipe", folder = scratch_ / "folder",
                    link = scratch_ / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  fs::create_directories(folder);
  fs::create_symlink("/dev/full", link);
  for (const std::string command : {"compile", "graph"})
    for (const std::string &path : {pipe, folder, link})
      expectRefused({command, scratch_ / "hf"}, path);

  const std::string plan = scratch_ / "plan.mbc";
  writeText(plan, "old");
  ASSERT_EQ(mbc({"compile", scratch_ / "hf", "-o", plan}).status, 0);
  EXPECT_GT(fs::file_size(plan), 3u);
  EXPECT_FALSE(fs::exists(plan + ".partial"));
}

// A file that a plan cannot be written to whole keeps what it held.
TEST_F(CommandLine, APlanThatDoesNotFitChangesNothing) {
  fixture("qwen3").write(scratch_ / "hf");
  const std::string plan = scratch_ / "plan.mbc";
  writeText(plan, "old");
  const Outcome outcome =
      mbcWithFileLimit(1, {"compile", scratch_ / "hf", "-o", plan});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(plan)) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("File too large")) << outcome.err;
  EXPECT_EQ(readText(plan), "old");
  EXPECT_FALSE(fs::exists(plan + ".partial"));
}

// U+009B alone starts a control sequence; an e-acute is next to such characters
// and is none. The fixture puts names into JSON as they are.
TEST_F(CommandLine, NamesReachATerminalWithoutControlCharacters) {
  HfModel model = fixture("qwen3");
  model.add("a\\u001b[2J\\nb\x7f\xc2\x9b\xc3\xa9", "BF16", {2});
  model.write(scratch_ / "hf");
  const Outcome outcome = mbc({"ls", scratch_ / "hf"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(
      outcome.out.contains("a\\u001b[2J\\u000ab\\u007f\\u009b\xc3\xa9 "))
      << outcome.out;
  EXPECT_FALSE(outcome.out.contains('\x1b'));
  EXPECT_FALSE(outcome.out.contains('\x7f'));
  EXPECT_FALSE(outcome.out.contains("\xc2\x9b"));
}

} // namespace
} // namespace mbc::test
