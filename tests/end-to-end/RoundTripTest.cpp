#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <set>
#include <thread>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

void inParallel(size_t count, const std::function<void(size_t)> &work) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i != std::max(2u, std::thread::hardware_concurrency());
       ++i)
    threads.emplace_back([&] {
      for (size_t at = next++; at < count; at = next++)
        work(at);
    });
}

/// Combinations of TP, PP, EP and ETP in {1, 2, 4}: those that divide go to
/// Megatron, rank by rank as the reference says, and come back byte for byte;
/// the others are refused with a number that does not divide. Families that
/// between them use every kind of shard go through all 81, and so do the others
/// with MBC_ALL_LAYOUTS=1; else a pairwise nine of them.
class RoundTripTest : public testing::TestWithParam<std::string> {
protected:
  RoundTripTest() : answers_(GetParam()) {
    answers_.model.write(scratch_ / "hf");
    expected_ = exportOf(answers_.model);
  }

  std::vector<std::string> importCommand(const Layout &layout,
                                         const std::string &format,
                                         const std::string &target) const {
    std::vector<std::string> arguments{
        "convert", scratch_ / "hf", target, "--make-vocab-size-divisible-by",
        "128",     "--format",      format, "--threads",
        "1"};
    for (const auto &more : {layout.options(), importOptions(GetParam())})
      arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  /// "" or what went wrong.
  std::string roundTrip(const Layout &layout, const std::string &format) const {
    const std::string name = format + "-" + shardsOption(layout);
    const std::string megatron = scratch_ / name,
                      back = scratch_ / (name + "-hf");
    const auto command = importCommand(layout, format, megatron);
    Outcome outcome = mbc(command);
    std::string wrong;
    if (outcome.status != 0)
      return spell(command) + "\n" + outcome.err;
    if (format == "torch")
      wrong = answers_.compareRanks(list(megatron), layout, 128 * layout.tp,
                                    false, true);
    else
      wrong = answers_.compareWhole(list(megatron), 128 * layout.tp);
    if (!wrong.empty())
      return spell(command) + "\n" + wrong;
    outcome = mbc({"convert", megatron, back, "--threads", "1"});
    if (outcome.status != 0)
      return spell(command) + ", then back:\n" + outcome.err;
    wrong = difference(expected_, readSafetensors(back));
    fs::remove_all(megatron);
    fs::remove_all(back);
    return wrong.empty() ? "" : spell(command) + ", then back:\n" + wrong;
  }

  std::string refused(const Layout &layout, const std::string &format,
                      const std::vector<Obstacle> &obstacles) const {
    const std::string target =
        scratch_ / ("no-" + format + "-" + shardsOption(layout));
    const auto command = importCommand(layout, format, target);
    const Outcome outcome = mbc(command);
    if (outcome.status != 1)
      return fmt::format("{}: status {}, expected 1", spell(command),
                         outcome.status);
    if (fs::exists(fs::path(target) / "latest_checkpointed_iteration.txt") ||
        fs::exists(fs::path(target) / "release"))
      return spell(command) + ": a refused layout left a checkpoint";
    for (const Obstacle &obstacle : obstacles)
      if (names(outcome.err, obstacle.count) &&
          names(outcome.err, obstacle.size))
        return {};
    return fmt::format("{}: names neither {} {} nor {}:\n{}", spell(command),
                       obstacles.front().count, obstacles.front().what,
                       obstacles.front().size, outcome.err);
  }

  /// Whether a message holds the number as a word; "no" is zero.
  static bool names(const std::string &message, int64_t number) {
    if (number == 0 && message.contains("no "))
      return true;
    const std::string digits = std::to_string(number);
    auto isDigit = [&](size_t at) {
      return at < message.size() && message[at] >= '0' && message[at] <= '9';
    };
    for (size_t at = message.find(digits); at != std::string::npos;
         at = message.find(digits, at + 1))
      if ((at == 0 || !isDigit(at - 1)) && !isDigit(at + digits.size()))
        return true;
    return false;
  }

  std::string tryLayout(const Layout &layout, const std::string &format,
                        std::atomic<int> &accepted) const {
    std::vector<Obstacle> found = answers_.obstacles(layout);
    if (format == "torch" && !perRankCanName(layout))
      found.push_back({layout.tp, layout.etp, "tensor parallel ranks"});
    if (!found.empty())
      return refused(layout, format, found);
    ++accepted;
    return roundTrip(layout, format);
  }

  static bool usesAll(const std::string &fixture) {
    static const std::set<std::string> all{
        "llama",       "qwen2",           "qwen3",
        "qwen3_moe",   "deepseek_v3",     "deepseek_v3_fp8",
        "glm_moe_dsa", "glm_moe_dsa_fp8", "glm_moe_dsa_fused",
        "glm5_next",   "glm5_next_fp8",   "qwen3_next"};
    return all.contains(fixture) || std::getenv("MBC_ALL_LAYOUTS");
  }

  void everyLayout(const std::string &format) {
    const std::vector<Layout> layouts =
        usesAll(GetParam()) ? allLayouts() : pairwiseLayouts();
    std::vector<std::string> wrong(layouts.size());
    std::atomic<int> accepted = 0;
    inParallel(layouts.size(), [&](size_t i) {
      wrong[i] = tryLayout(layouts[i], format, accepted);
    });
    std::erase(wrong, "");
    EXPECT_TRUE(wrong.empty())
        << wrong.size() << " of " << layouts.size() << " layouts, the first:\n"
        << wrong.front();
    EXPECT_GT(accepted, 0);
    RecordProperty("accepted", accepted.load());
  }

  Scratch scratch_;
  Answers answers_;
  Tensors expected_;
};

TEST_P(RoundTripTest, EveryLayoutOfTorchDist) { everyLayout("torch_dist"); }

TEST_P(RoundTripTest, EveryLayoutOfPerRankFiles) { everyLayout("torch"); }

TEST_P(RoundTripTest, TheSecondRoundTripChangesNothing) {
  const Layout layout{2, 1, 1, 2};
  ASSERT_EQ(mbc(importCommand(layout, "torch_dist", scratch_ / "mg")).status,
            0);
  ASSERT_EQ(mbc({"convert", scratch_ / "mg", scratch_ / "once"}).status, 0);
  const Outcome outcome =
      mbc({"convert", scratch_ / "once", scratch_ / "mg2", "--tp", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_EQ(mbc({"convert", scratch_ / "mg2", scratch_ / "twice"}).status, 0);
  EXPECT_EQ(difference(readSafetensors(scratch_ / "once"),
                       readSafetensors(scratch_ / "twice")),
            "");
  EXPECT_EQ(readText(scratch_ / "once/config.json"),
            readText(scratch_ / "twice/config.json"));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, RoundTripTest,
                         testing::ValuesIn(allFixtures()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace mbc::test
