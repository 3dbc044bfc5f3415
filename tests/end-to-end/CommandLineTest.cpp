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

TEST_F(CommandLine, SaysItsVersion) {
  const Outcome outcome = mbc({"--version"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("mbc 0.")) << outcome.out;
}

TEST_F(CommandLine, ADirectoryIsNoPlan) {
  fixture("qwen3").write(scratch_ / "hf");
  const Outcome outcome = mbc({"run", scratch_ / "hf", scratch_ / "mg"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(
      outcome.err.contains(scratch_ / "hf" + ": is a directory, not a plan"))
      << outcome.err;
}

// Kimi-K3 has a note, the zero-centred norm of Qwen3-Next a warning.
TEST_F(CommandLine, QuietLeavesErrorsOnly) {
  for (const char *name : {"kimi_k3", "qwen3_next"}) {
    SCOPED_TRACE(name);
    fixture(name).write(scratch_ / "hf");
    EXPECT_NE(mbc({"check", scratch_ / "hf"}).err, "");
    const std::vector<std::string> calls[] = {
        {"check", scratch_ / "hf", "-q"},
        {"convert", scratch_ / "hf", scratch_ / "mg", "-q", "--dry-run"},
        {"convert", scratch_ / "hf", scratch_ / "mg", "-q"},
        {"compile", scratch_ / "hf", "-o", scratch_ / "plan", "-q"},
        {"run", scratch_ / "plan", "--from", scratch_ / "hf", scratch_ / "run",
         "-q"}};
    for (const std::vector<std::string> &call : calls) {
      const Outcome outcome = mbc(call);
      EXPECT_EQ(outcome.status, 0) << spell(call);
      EXPECT_EQ(outcome.out + outcome.err, "") << spell(call);
    }
    const Outcome refused = mbc({"check", scratch_ / "hf", "-q", "--tp", "5"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_TRUE(refused.err.contains("error: ")) << refused.err;
    EXPECT_FALSE(refused.err.contains("warning: ")) << refused.err;
    for (const char *made : {"hf", "mg", "plan", "run"})
      fs::remove_all(scratch_ / made);
  }
}

// One document on standard output, whether it went well or not.
TEST_F(CommandLine, JsonSaysWhatWentWrong) {
  fixture("qwen3").write(scratch_ / "hf");
  writeText(scratch_ / "file", "x");
  const std::string hf = scratch_ / "hf", mg = scratch_ / "mg";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"check", hf, "--tp", "7"}, "7"},
      {{"check", hf, "--tp", "7", "--proof"}, "7"},
      {{"check", scratch_ / "absent"}, "absent"},
      {{"convert", hf, mg, "--tp", "7"}, "7"},
      {{"convert", hf, scratch_ / "file"}, "file"},
      {{"convert", scratch_ / "absent", mg}, "absent"},
      {{"compile", hf, "-o", scratch_ / "plan", "--tp", "7"}, "7"},
      {{"run", scratch_ / "absent", mg}, "absent"},
      {{"run", scratch_ / "file", mg}, "file"}};
  for (auto [call, word] : cases) {
    call.push_back("--json");
    const Outcome outcome = mbc(call);
    EXPECT_EQ(outcome.status, 1) << spell(call);
    EXPECT_EQ(outcome.err, "") << spell(call);
    const Json json = Json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << spell(call) << "\n" << outcome.out;
    EXPECT_EQ(json["ok"], false);
    ASSERT_FALSE(json["findings"].empty()) << spell(call);
    EXPECT_EQ(json["findings"][0]["severity"], "error");
    EXPECT_TRUE(json["findings"][0]["text"].get<std::string>().contains(word))
        << outcome.out;
  }
  const Outcome done = mbc({"convert", hf, mg, "--json"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out, nullptr, false)["ok"], true) << done.out;
}

// Of the layouts of experts a model without any has none, and one whose experts
// are always in one tensor has no other.
TEST_F(CommandLine, ALayoutOfExpertsThatIsNotThereIsNotPassedOver) {
  for (const char *name : {"llama", "gpt_oss"}) {
    for (const char *made : {"hf", "mg"})
      fs::remove_all(scratch_ / made);
    fixture(name).write(scratch_ / "hf");
    ASSERT_EQ(mbc({"convert", scratch_ / "hf", scratch_ / "mg"}).status, 0);
    const bool dense = std::string(name) == "llama";
    const Outcome outcome =
        mbc({"check", scratch_ / "mg", "--hf-experts", "fused"});
    EXPECT_EQ(outcome.status, dense ? 1 : 0) << outcome.err;
    EXPECT_TRUE(outcome.err.contains(
        dense ? "error: --hf-experts fused: llama in "
              : "note: --hf-experts fused changes nothing: gpt_oss has"))
        << outcome.err;
  }
  fixture("llama").write(scratch_ / "dense");
  const Outcome outcome =
      mbc({"check", scratch_ / "dense", "--experts", "sequential"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("has no experts")) << outcome.err;
}

TEST_F(CommandLine, TheProofNamesTensors) {
  fixture("qwen3_vl_moe").write(scratch_ / "hf");
  const Outcome proof = mbc({"check", scratch_ / "hf", "--proof"});
  ASSERT_EQ(proof.status, 0) << proof.err;
  for (const char *name :
       {" language_model.decoder.final_layernorm.weight ",
        " language_model.decoder.layers.{0..3}.mlp.experts.linear_fc1."
        "weight{0..3} "})
    EXPECT_TRUE(proof.out.contains(name)) << name << "\n" << proof.out;
  EXPECT_FALSE(proof.out.contains("(...)")) << proof.out;
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
