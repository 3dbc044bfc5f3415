#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

const std::string ragged = "mbspec 1\nlet  x=1 # one\n";
const std::string neat = "mbspec 1\nlet x = 1  # one\n";
const std::string broken = "mbspec 1\nlet  x=]\n";

/// `mbc fmt` with a file as its standard input.
Outcome formatInput(const std::string &file, const std::string &options) {
  return run({"/bin/sh", "-c",
              mbcBinary() + " fmt " + options + " < " + file});
}

class FormatCommand : public testing::Test {
protected:
  FormatCommand() {
    writeText(ragged_, ragged);
    writeText(neat_, neat);
    writeText(broken_, broken);
  }

  Scratch scratch_;
  const std::string ragged_ = scratch_ / "ragged.mbspec",
                    neat_ = scratch_ / "neat.mbspec",
                    broken_ = scratch_ / "broken.mbspec";
};

TEST_F(FormatCommand, FormatsFilesInPlaceAndLeavesThoseWithErrors) {
  fs::permissions(ragged_, fs::perms::owner_read | fs::perms::owner_write);
  const fs::file_time_type before = fs::last_write_time(neat_);
  const Outcome outcome = mbc({"fmt", ragged_, broken_, neat_});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, broken_ + ":2:8: error: ']' cannot stand here\n"
                                   "  let  x=]\n"
                                   "         ^\n");
  EXPECT_EQ(readText(ragged_), neat);
  EXPECT_EQ(readText(broken_), broken);
  EXPECT_EQ(fs::last_write_time(neat_), before);
  EXPECT_EQ(fs::status(ragged_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(mbc({"fmt", ragged_, neat_}).status, 0);
}

TEST_F(FormatCommand, ALinkStaysALink) {
  const std::string link = scratch_ / "link.mbspec";
  fs::create_symlink(ragged_, link);
  EXPECT_EQ(mbc({"fmt", link}).status, 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(readText(ragged_), neat);
}

TEST_F(FormatCommand, CheckNamesWhatWouldChangeAndWritesNothing) {
  const Outcome outcome = mbc({"fmt", "--check", neat_, ragged_});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, ragged_ + "\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(readText(ragged_), ragged);
  EXPECT_EQ(mbc({"fmt", "--check", neat_}).status, 0);
}

TEST_F(FormatCommand, AHyphenIsStandardInput) {
  Outcome outcome = formatInput(ragged_, "-");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, neat);
  outcome = formatInput(ragged_, "--check -");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "standard input\n");
  outcome = formatInput(broken_, "-");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("standard input:2:8: error: "))
      << outcome.err;
}

TEST_F(FormatCommand, WhatIsNoTextIsRefusedWithItsPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"let x = \"\xff\"", "byte 10 of the line, 0xFF"},
      {"# \xc3\xa9 \xc3", "byte 6 of the line, 0xC3"},
      {"# \xe0\x80\x80", "byte 3 of the line, 0xE0"},
      {"# \xed\xa0\x80", "byte 3 of the line, 0xED"}};
  for (const auto &[line, place] : cases) {
    writeText(broken_, "mbspec 1\n" + line);
    const Outcome outcome = formatInput(broken_, "-");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, "error: standard input:2: " + place +
                               ", is not UTF-8; a spec is text in UTF-8\n");
  }
  writeText(broken_, "mbspec 1\n# \xc3\xa9 \xf0\x9f\x98\x80\n");
  EXPECT_EQ(formatInput(broken_, "-").status, 0);
}

TEST_F(FormatCommand, WhatIsNoFileIsRefused) {
  fs::create_directories(scratch_ / "folder");
  for (const std::string &path : {scratch_ / "absent", scratch_ / "folder"}) {
    const Outcome outcome = mbc({"fmt", path});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(outcome.err.contains(path)) << outcome.err;
  }
  EXPECT_EQ(mbc({"fmt"}).status, 2);
}

} // namespace
} // namespace mbc::test
