#include "tests/end-to-end/RankConversion.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

// Experts over the ranks of per-rank files: which expert a name means, which
// folders there are, what a second folder is.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

class ExpertRanks : public RankConversion {
protected:
  /// A qwen3_moe with this many experts.
  void withExperts(int64_t count) {
    model_ = fixture("qwen3_moe");
    model_.config["num_local_experts"] = count;
    const auto files = model_.files;
    for (auto &file : model_.files)
      std::erase_if(file.tensors, [](const auto &tensor) {
        return tensor.name.contains(".experts.");
      });
    for (const auto &file : files)
      for (const auto &tensor : file.tensors)
        if (tensor.name.ends_with("mlp.gate.weight"))
          model_.at(tensor.name).shape[0] = count;
        else if (tensor.name.contains(".experts.0."))
          for (int64_t e = 0; e != count; ++e)
            model_.add(ofExpert(tensor.name, e), tensor.dtype, tensor.shape);
  }

  static std::string ofExpert(std::string name, int64_t e) {
    const std::string zero = ".experts.0.";
    return name.replace(name.find(zero), zero.size(),
                        fmt::format(".experts.{}.", e));
  }

  /// The names of the rank folders.
  std::set<std::string> folders() const {
    std::set<std::string> found;
    for (const auto &entry : fs::directory_iterator(scratch_ / "mg/release"))
      if (const std::string name = entry.path().filename();
          name.starts_with("mp_rank"))
        found.insert(name);
    return found;
  }

  /// A routed expert's weight on a rank, by its number in the model.
  std::string weightOf(const std::string &rank, int64_t layer, int64_t expert,
                       const std::string &linear) const {
    return parameter(rank,
                     fmt::format("decoder.layers.{}.mlp.experts.{}.weight{}",
                                 layer, linear, expert));
  }

  std::string hf(int64_t layer, int64_t e, const std::string &part) const {
    return fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.weight", layer,
                       e, part);
  }

  static std::string textOf(const Tensor &tensor) {
    return {reinterpret_cast<const char *>(tensor.bytes.data()),
            tensor.bytes.size()};
  }
};

// A number behind "weight" is an expert; no name of it reaches Hugging Face.
TEST_F(ExpertRanks, BothSpellingsOfMegatronGiveTheSameNamesBack) {
  withExperts(4);
  for (const char *experts : {"grouped", "sequential"}) {
    const Outcome done = import({"--ep", "2", "--experts", experts});
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(folders(),
              (std::set<std::string>{"mp_rank_00_000", "mp_rank_00_001"}));
    const std::string second =
        readText(scratch_ / "mg/release/mp_rank_00_001/model_optim_rng.pt");
    const bool isGrouped = std::string(experts) == "grouped";
    EXPECT_EQ(second.contains("mlp.experts.linear_fc1.weight1"), isGrouped);
    EXPECT_EQ(second.contains("mlp.experts.local_experts.1.linear_fc1.weight"),
              !isGrouped);
    // Each rank counts from 0.
    EXPECT_FALSE(second.contains("linear_fc1.weight2"));
    EXPECT_FALSE(second.contains("local_experts.2."));
    expectSourceBack();
  }
}

TEST_F(ExpertRanks, WithoutExpertTensorParallelismHoldWholeExperts) {
  withExperts(4);
  const Outcome done = import({"--tp", "2", "--ep", "2", "--etp", "1"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(folders(),
            (std::set<std::string>{"mp_rank_00_000", "mp_rank_01_001"}));
  const Tensors source = model_.tensors();
  EXPECT_EQ(weightOf("tp1.pp0.ep1.etp0", 0, 2, "linear_fc1"),
            textOf(joinRows(
                {source.at(hf(0, 2, "gate")), source.at(hf(0, 2, "up"))})));
  expectSourceBack();
}

TEST_F(ExpertRanks, WithExpertTensorParallelismHoldHalvesOfAll) {
  withExperts(4);
  const Outcome done = import({"--tp", "2", "--ep", "1", "--etp", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(folders(), (std::set<std::string>{"mp_rank_00", "mp_rank_01"}));
  const Tensors source = model_.tensors();
  const Tensor &gate = source.at(hf(0, 3, "gate")),
               &up = source.at(hf(0, 3, "up")),
               &down = source.at(hf(0, 3, "down"));
  const int64_t width = gate.shape[0];
  EXPECT_EQ(weightOf("tp1.pp0.ep0", 0, 3, "linear_fc1"),
            textOf(joinRows(
                {rows(gate, width / 2, width), rows(up, width / 2, width)})));
  EXPECT_EQ(weightOf("tp1.pp0.ep0", 0, 3, "linear_fc2"),
            textOf(columns(down, width / 2, width)));
  expectSourceBack();
}

// TP times EP is 16, the ranks are 8: expert and tensor ranks are the same
// machines.
TEST_F(ExpertRanks, OfEightExpertsAndTwoTensorRanksAreEight) {
  withExperts(8);
  const Outcome done =
      import({"--tp", "2", "--pp", "1", "--ep", "8", "--etp", "1"});
  ASSERT_EQ(done.status, 0) << done.err;
  std::set<std::string> expected;
  for (int rank = 0; rank != 8; ++rank)
    expected.insert(fmt::format("mp_rank_{:02}_{:03}", rank % 2, rank));
  EXPECT_EQ(folders(), expected);
  const Tensors source = model_.tensors();
  const std::string dense =
      "decoder.layers.1.self_attention.linear_proj.weight";
  for (int rank = 0; rank != 8; ++rank) {
    const std::string name = fmt::format("tp{}.pp0.ep{}.etp0", rank % 2, rank);
    EXPECT_EQ(weightOf(name, 1, rank, "linear_fc2"),
              textOf(source.at(hf(1, rank, "down"))))
        << name;
    EXPECT_EQ(
        parameter(name, dense),
        parameter(fmt::format("tp{}.pp0.ep{}.etp0", rank % 2, rank % 2), dense))
        << name;
  }
  expectSourceBack();
}

// The same two folder names are two expert ranks or two stages; only the saved
// arguments tell.
TEST_F(ExpertRanks, AndStagesAreToldApartByTheSavedArguments) {
  withExperts(4);
  const Tensors source = model_.tensors();
  ASSERT_EQ(import({"--ep", "2"}).status, 0);
  const std::set<std::string> two{"mp_rank_00_000", "mp_rank_00_001"};
  EXPECT_EQ(folders(), two);
  EXPECT_EQ(weightOf("tp0.pp0.ep1", 2, 3, "linear_fc2"),
            textOf(source.at(hf(2, 3, "down"))));
  expectSourceBack();

  ASSERT_EQ(import({"--pp", "2", "--last-stage-layers", "1"}).status, 0);
  EXPECT_EQ(folders(), two);
  EXPECT_EQ(weightOf("tp0.pp1.ep0", 2, 3, "linear_fc2"),
            textOf(source.at(hf(2, 3, "down"))));
  expectSourceBack();

  // Without them nothing does, and the sizes are asked for.
  for (const std::string &folder : two) {
    const std::string path =
        scratch_ / ("mg/release/" + folder + "/model_optim_rng.pt");
    std::string file = readText(path);
    const std::string name("X\x04\0\0\0args", 9);
    const size_t at = file.find(name);
    ASSERT_NE(at, file.npos);
    overwrite(path, at, std::string("X\x04\0\0\0arg_", 9));
  }
  const Outcome outcome = exportBack();
  EXPECT_EQ(outcome.status, 1);
  for (const char *text :
       {"mp_rank_00_000/model_optim_rng.pt", "can be read in two ways",
        "pipeline_model_parallel_size", "expert_model_parallel_size"})
    EXPECT_TRUE(outcome.err.contains(text)) << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "back"));
}

} // namespace
} // namespace mbc::test
