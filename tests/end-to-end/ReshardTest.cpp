#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

// From Megatron to Megatron, `--to megatron`.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

/// A fixture that goes through Megatron checkpoints of several layouts and
/// formats, each of which the reference knows.
class ReshardTest : public testing::TestWithParam<std::string> {
protected:
  ReshardTest() : answers_(GetParam()) {
    answers_.model.write(scratch_ / "hf");
  }

  /// Those that the model fits, and that per-rank files have names for.
  std::vector<Layout> legalLayouts() const {
    std::vector<Layout> legal = pairwiseLayouts();
    std::erase_if(legal, [&](const Layout &layout) {
      return !answers_.obstacles(layout).empty() || !perRankCanName(layout);
    });
    return legal;
  }

  void convert(const std::string &from, const std::string &to,
               const Layout &layout, const std::string &format,
               std::vector<std::string> more) const {
    std::vector<std::string> command{
        "convert",  scratch_ / from, scratch_ / to,
        "--format", format,          "--make-vocab-size-divisible-by",
        "128"};
    for (const auto &options : {layout.options(), more})
      command.insert(command.end(), options.begin(), options.end());
    const Outcome done = mbc(command);
    ASSERT_EQ(done.status, 0) << spell(command) << '\n' << done.err;
    const std::string wrong =
        format == "torch"
            ? answers_.compareRanks(list(scratch_ / to), layout,
                                    128 * layout.tp, false, true)
            : answers_.compareWhole(list(scratch_ / to), 128 * layout.tp);
    EXPECT_EQ(wrong, "") << spell(command);
  }

  Scratch scratch_;
  Answers answers_;
};

TEST_P(ReshardTest, GoesFromAnyFormatAndLayoutToAnother) {
  const std::vector<Layout> legal = legalLayouts();
  ASSERT_FALSE(legal.empty());
  const std::vector<std::string> again{"--to", "megatron"};
  auto layout = [&](size_t step) { return legal[step * 5 % legal.size()]; };
  convert("hf", "0", layout(3), "torch_dist", importOptions(GetParam()));
  convert("0", "1", layout(1), "torch", again);
  convert("1", "2", layout(2), "torch", again);
  convert("2", "3", layout(0), "torch_dist", again);
  convert("3", "4", layout(1), "torch_dist", again);
  const Outcome back = mbc({"convert", scratch_ / "4", scratch_ / "back"});
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(
      difference(exportOf(answers_.model), readSafetensors(scratch_ / "back")),
      "");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ReshardTest,
                         testing::ValuesIn(allFixtures()),
                         [](const auto &info) { return info.param; });

class Reshard : public testing::Test {
protected:
  void run(const std::vector<std::string> &command) const {
    const Outcome done = mbc(command);
    ASSERT_EQ(done.status, 0) << spell(command) << '\n' << done.err;
  }

  /// A fixture as a torch_dist in `mg`.
  void import(const std::string &name,
              const std::vector<std::string> &options = {}) const {
    fixture(name).write(scratch_ / "hf");
    std::vector<std::string> command{"convert", scratch_ / "hf",
                                     scratch_ / "mg"};
    command.insert(command.end(), options.begin(), options.end());
    run(command);
  }

  std::string refusal(const std::vector<std::string> &options) const {
    std::vector<std::string> command{"convert", scratch_ / "mg",
                                     scratch_ / "no"};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = mbc(command);
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_FALSE(fs::exists(fs::path(scratch_ / "no") / "release"));
    return outcome.err;
  }

  Scratch scratch_;
};

TEST_F(Reshard, QuantisedOriginalsAndTheRecordGoAlong) {
  import("glm_moe_dsa_fp8", {"--quant", "keep"});
  run({"convert", scratch_ / "mg", scratch_ / "mg2", "--to", "megatron", "--tp",
       "2", "--ep", "3"});
  for (const char *file : {"mbc/record.json", "mbc/hf/config.json",
                           "mbc/quantized/model.safetensors.index.json"})
    EXPECT_EQ(readText(fs::path(scratch_ / "mg/release") / file),
              readText(fs::path(scratch_ / "mg2/release") / file))
        << file;
  run({"convert", scratch_ / "mg2", scratch_ / "back", "--quant", "keep"});
  EXPECT_EQ(difference(readSafetensors(scratch_ / "hf"),
                       readSafetensors(scratch_ / "back")),
            "");
}

TEST_F(Reshard, TakesTheFormatAndTheLayoutOfTheTargetAlone) {
  import("qwen3");
  const std::string hf = refusal({"--format", "torch"});
  EXPECT_TRUE(hf.contains("with --to megatron")) << hf;
  const std::string layers = refusal({"--to", "megatron", "--pp", "64"});
  EXPECT_TRUE(layers.contains("64")) << layers;
  const std::string heads = refusal({"--to", "megatron", "--tp", "7"});
  EXPECT_TRUE(heads.contains("7")) << heads;
  const std::string size =
      refusal({"--to", "megatron", "--max-shard-size", "1GB"});
  EXPECT_TRUE(size.contains("--max-shard-size")) << size;
}

// Each form of experts is what an import writes in it, as the reference has it.
TEST_F(Reshard, ExpertsGetTheNamesOfTheOtherLayout) {
  const Layout layout{2, 1, 2, 1};
  for (const std::string name : {"qwen3_moe", "gpt_oss", "glm5_next"}) {
    const Answers answers(name);
    for (const char *folder : {"hf", "mg", "mg2", "mg3", "mg4", "back"})
      fs::remove_all(scratch_ / folder);
    import(name, {"--format", "torch"});
    auto to = [&](const std::string &from, const std::string &target,
                  const std::string &experts, const std::string &format) {
      std::vector<std::string> command{"convert",
                                       scratch_ / from,
                                       scratch_ / target,
                                       "--to",
                                       "megatron",
                                       "--format",
                                       format,
                                       "--experts",
                                       experts,
                                       "--make-vocab-size-divisible-by",
                                       "128"};
      const std::vector<std::string> sizes = layout.options();
      command.insert(command.end(), sizes.begin(), sizes.end());
      run(command);
      if (format == "torch") {
        EXPECT_EQ(answers.compareRanks(list(scratch_ / target), layout,
                                       128 * layout.tp, experts == "sequential",
                                       true),
                  "")
            << name << ' ' << target;
      }
    };
    to("mg", "mg2", "sequential", "torch");
    to("mg2", "mg3", "sequential", "torch_dist");
    to("mg3", "mg4", "sequential", "torch");
    fs::remove_all(scratch_ / "mg2");
    to("mg4", "mg2", "grouped", "torch");
    // Both are one in a torch_dist but for what Megatron builds.
    EXPECT_EQ(answers.compareWhole(list(scratch_ / "mg3"), 128 * layout.tp), "")
        << name;
    run({"convert", scratch_ / "mg2", scratch_ / "back"});
    EXPECT_EQ(
        difference(exportOf(answers.model), readSafetensors(scratch_ / "back")),
        "")
        << name;
  }
}

TEST_F(Reshard, ADenseModelHasNoLayoutOfExperts) {
  import("qwen3");
  const std::string dense =
      refusal({"--to", "megatron", "--experts", "sequential"});
  EXPECT_TRUE(dense.contains("has no experts")) << dense;
}

TEST_F(Reshard, AnIncompleteSourceIsRefusedByName) {
  import("qwen3", {"--format", "torch", "--tp", "2"});
  fs::remove_all(fs::path(scratch_ / "mg/release/mp_rank_01"));
  const std::string missing = refusal({"--to", "megatron"});
  EXPECT_TRUE(missing.contains("mp_rank_01")) << missing;
}

TEST_F(Reshard, APlanRunsLaterAndSaysWhatItIs) {
  import("qwen3");
  const std::string plan = scratch_ / "reshard.mbc";
  run({"compile", scratch_ / "mg", "-o", plan, "--to", "megatron", "--tp",
       "2"});
  const Outcome done =
      mbc({"run", plan, "--from", scratch_ / "mg", scratch_ / "mg2", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out).at("direction"), "reshard");
  run({"graph", plan, "--stage", "fused"});
}

TEST_F(Reshard, AnIterationHasBothTrackers) {
  import("qwen3", {"--iteration", "42"});
  const fs::path root = fs::path(scratch_ / "mg");
  EXPECT_EQ(readText(root / "latest_checkpointed_iteration.txt"), "42");
  EXPECT_EQ(readText(root / "latest_train_state.pt"),
            readText(root / "iter_0000042/train_state.pt"));
  EXPECT_FALSE(fs::exists(root / "release"));
  run({"convert", scratch_ / "mg", scratch_ / "mg2", "--to", "megatron",
       "--iteration", "12345678"});
  EXPECT_TRUE(fs::exists(scratch_ / "mg2/iter_12345678/.metadata"));
  run({"convert", scratch_ / "mg2", scratch_ / "back"});
  EXPECT_EQ(difference(readSafetensors(scratch_ / "hf"),
                       readSafetensors(scratch_ / "back")),
            "");
  // What --force replaces is the iteration, whole.
  run({"convert", scratch_ / "hf", scratch_ / "mg", "--force"});
  EXPECT_FALSE(fs::exists(root / "iter_0000042"));
  EXPECT_FALSE(fs::exists(root / "latest_train_state.pt"));
  const std::string ranks =
      refusal({"--to", "megatron", "--format", "torch", "--iteration", "42"});
  EXPECT_TRUE(ranks.contains("--iteration")) << ranks;
}

} // namespace
} // namespace mbc::test
