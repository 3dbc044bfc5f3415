#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

/// What `mbc` writes against answers made by other software (expected.json).
class ExpectedTest : public testing::TestWithParam<const char *> {
protected:
  ExpectedTest() { fixture(GetParam()).write(scratch_ / "hf"); }

  std::vector<Row> convert(const std::string &name,
                           std::vector<std::string> options,
                           const std::vector<std::string> &listOptions = {}) {
    const std::string target = scratch_ / name;
    std::vector<std::string> arguments{"convert", scratch_ / "hf", target};
    for (const auto &more : {options, importOptions(GetParam())})
      arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = mbc(arguments);
    EXPECT_EQ(outcome.status, 0) << spell(arguments) << "\n" << outcome.err;
    return outcome.status == 0 ? list(target, listOptions) : std::vector<Row>();
  }

  static void expectRow(const Row &row, const std::string &dtype,
                        const Json &shape, const std::string &hash) {
    EXPECT_EQ(row.dtype, dtype) << row.rank << " " << row.name;
    EXPECT_EQ(Json(row.shape), shape) << row.rank << " " << row.name;
    EXPECT_EQ(row.sha256, hash) << row.rank << " " << row.name;
  }

  void expectTensors(const std::vector<Row> &rows, const Json &answers) const {
    std::map<std::string, const Row *> byName;
    for (const Row &row : rows)
      EXPECT_TRUE(byName.emplace(row.name, &row).second) << row.name;
    for (const auto &[name, answer] : answers.items()) {
      ASSERT_TRUE(byName.contains(name)) << name;
      const Row &row = *byName[name];
      // A spec may keep the source's dtype where Megatron would widen it.
      const Json &is = answer.contains("before_cast") &&
                               row.dtype == answer["before_cast"][0]
                           ? answer["before_cast"]
                           : Json{answer["dtype"], answer["sha256"]};
      expectRow(row, is[0], answer["shape"], is[1]);
    }
  }

  /// Every rank of expected.json, told apart by its place in the stage.
  void expectLayout(const std::vector<Row> &rows, const std::string &key,
                    const Json &answer) const {
    const Layout layout{answer["tp"], answer["pp"], answer["ep"],
                        answer["etp"]};
    std::map<std::pair<std::string, std::string>, const Row *> found;
    for (const Row &row : rows)
      found[{row.rank, row.name}] = &row;
    for (const auto &[number, tensors] : answer["ranks"].items()) {
      const int64_t rank = std::stoll(number),
                    s = rank % layout.ranksPerStage();
      std::string text = "tp" + std::to_string(s % layout.tp) + ".pp" +
                         std::to_string(rank / layout.ranksPerStage()) + ".ep" +
                         std::to_string(s / layout.etp % layout.ep);
      if (layout.etp != layout.tp)
        text += ".etp" + std::to_string(s % layout.etp);
      std::set<std::string> absent;
      if (answer.contains("absent") && answer["absent"].contains(number))
        absent = answer["absent"][number].get<std::set<std::string>>();
      for (const auto &[name, is] : tensors.items()) {
        const auto row = found.find({text, name});
        ASSERT_NE(row, found.end()) << key << " " << text << " " << name;
        expectRow(*row->second, is[0], is[1], is[2]);
      }
      expectUnchanged(key, text, tensors, absent, found);
    }
  }

  /// A name that a rank does not list is held as in `tensors`, unless it is
  /// absent there.
  void expectUnchanged(const std::string &key, const std::string &rank,
                       const Json &changed, const std::set<std::string> &absent,
                       const std::map<std::pair<std::string, std::string>,
                                      const Row *> &found) const {
    const bool sequential = key.ends_with("_sequential");
    const bool laterStage = !rank.contains(".pp0.");
    for (const auto &[name, answer] : answers_["tensors"].items()) {
      const std::string spelt = sequential ? sequentialName(name) : name;
      const auto row = found.find({rank, spelt});
      if (absent.contains(name)) {
        // The last stage's copy of the embedding is no parameter of its own.
        if (!(laterStage && name.ends_with("word_embeddings.weight"))) {
          EXPECT_EQ(row, found.end()) << key << " " << rank << " " << name;
        }
      } else if (!changed.contains(spelt)) {
        ASSERT_NE(row, found.end()) << key << " " << rank << " " << spelt;
        expectRow(*row->second, answer["dtype"], answer["shape"],
                  answer["sha256"]);
      }
    }
  }

  const Json answers_ = expected(GetParam());
  Scratch scratch_;
};

TEST_P(ExpectedTest, WholeTensors) {
  expectTensors(convert("plain", {"--make-vocab-size-divisible-by", "1"}),
                answers_["tensors"]);
}

TEST_P(ExpectedTest, PaddedVocabulary) {
  expectTensors(convert("padded", {"--make-vocab-size-divisible-by", "128"}),
                answers_["vocab_padded_to_128"]);
}

TEST_P(ExpectedTest, EveryRankOfEveryLayout) {
  for (const auto &[key, answer] : answers_["layouts"].items()) {
    SCOPED_TRACE(key);
    const Layout layout{answer["tp"], answer["pp"], answer["ep"],
                        answer["etp"]};
    std::vector<std::string> options = layout.options();
    options.insert(options.end(), {"--make-vocab-size-divisible-by",
                                   answer.contains("vocab_multiple")
                                       ? answer["vocab_multiple"].dump()
                                       : "1"});
    if (key.ends_with("_sequential"))
      options.insert(options.end(), {"--experts", "sequential"});
    // A torch_dist is the same for both spellings, and listed as grouped.
    if (!key.ends_with("_sequential"))
      expectLayout(
          convert(key + "_dist", options, {"--shards", shardsOption(layout)}),
          key, answer);
    options.insert(options.end(), {"--format", "torch"});
    expectLayout(convert(key + "_ranks", options), key, answer);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ExpectedTest,
                         testing::Values("llama", "qwen3_moe", "deepseek_v3",
                                         "glm_moe_dsa", "glm_moe_dsa_fp8",
                                         "glm5_next", "glm5_next_fp8"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace mbc::test
