#include "tests/end-to-end/RankConversion.h"

#include <gtest/gtest.h>

// Megatron checkpoints that lack something, or hold it under another name: the
// way back stops before any tensor is read.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

std::string replaced(std::string text, const std::string &old,
                     const std::string &with) {
  size_t count = 0;
  for (size_t at = text.find(old); at != std::string::npos;
       at = text.find(old, at + with.size()), ++count)
    text.replace(at, old.size(), with);
  EXPECT_GT(count, 0u) << old;
  return text;
}

class DamagedMegatron : public RankConversion {
protected:
  /// A copy of the shipped specs with a change in one of their files.
  std::string specsWith(const std::string &file, const std::string &old,
                        const std::string &with) const {
    const std::string folder = scratch_ / "specs";
    fs::remove_all(folder);
    fs::copy(MBC_SPECS, folder, fs::copy_options::recursive);
    writeText(folder + "/" + file,
              replaced(readText(folder + "/" + file), old, with));
    return folder;
  }

  void expectRefused(const std::vector<std::string> &words,
                     const std::vector<std::string> &options = {}) const {
    const Outcome outcome = exportBack(options);
    EXPECT_EQ(outcome.status, 1);
    for (const std::string &word : words)
      EXPECT_TRUE(outcome.err.contains(word)) << "not said: " << word << "\n"
                                              << outcome.err;
    EXPECT_FALSE(fs::exists(scratch_ / "back"));
  }
};

// Written by a spec that says so; then read by the right one.
TEST_F(DamagedMegatron, ANormUnderAMatrixsNameIsNoSmallerMatrix) {
  model_ = fixture("llama");
  const std::string wrong =
      specsWith("lib/dense_decoder.mbspec", "{ dense_layer }",
                "{ if i != 1 { dense_layer } else {\n"
                "attention(H, G, d, bias, qk_norm)\n"
                "mlp.linear_fc1.weight <- post_attention_layernorm.weight\n"
                "mlp.linear_fc2.weight <- mlp.down_proj.weight  shard=row\n"
                "extra_state mlp.linear_fc1, mlp.linear_fc2\n"
                "ignore mlp.gate_proj.weight, mlp.up_proj.weight\n"
                "} }");
  const Outcome done = import({"--spec-path", wrong});
  ASSERT_EQ(done.status, 0) << done.err;
  expectRefused(
      {"decoder.layers.1.mlp.linear_fc1.weight in "
       "mp_rank_00/model_optim_rng.pt has shape [112]",
       "gates*ffn_hidden_size = 416, hidden_size = 112", "lib/mlp.mbspec:5:",
       "decoder.layers.1.mlp.linear_fc1.layer_norm_weight is not in"});
}

/// Names in the index of a torch_dist.
class DamagedIndex : public DamagedMegatron {
protected:
  void SetUp() override {
    model_ = fixture("qwen3");
    model_.write(scratch_ / "hf");
    ASSERT_EQ(mbc({"convert", scratch_ / "hf", scratch_ / "mg"}).status, 0);
  }
  void rename(const std::string &key, const std::string &other) const {
    ASSERT_EQ(key.size(), other.size());
    const std::string path = scratch_ / "mg/release/.metadata";
    writeText(path, replaced(readText(path), key, other));
  }
};

TEST_F(DamagedIndex, TheLastNormIsGone) {
  rename("decoder.final_layernorm.weight", "decoder.final_layernorn.weight");
  expectRefused({"decoder.final_layernorm.weight is not in",
                 "model.norm.weight has no source",
                 "did you mean decoder.final_layernorn.weight?"});
}

TEST_F(DamagedIndex, AMatrixOfAllLayersIsGone) {
  rename("decoder.layers.mlp.linear_fc2.weight",
         "decoder.layers.mlp.linear_fc9.weight");
  expectRefused(
      {"decoder.layers.{0..2}.mlp.linear_fc2.weight (3 tensors) is not in",
       "model.layers.{0..2}.mlp.down_proj.weight (3 tensors) have no source"});
}

/// Cuts `text` from each place of `from` to the next of `to`: two of them.
std::string cutTwice(std::string text, const std::string &from,
                     const std::string &to) {
  size_t at = 0;
  for (int i = 0; i != 2; ++i, ++at) {
    at = text.find(from, at);
    const size_t end = text.find(to, at);
    EXPECT_NE(end, text.npos) << "not in the index";
    if (end != text.npos)
      text.erase(at, end - at);
  }
  EXPECT_EQ(text.find(from), text.npos);
  return text;
}

/// (1, expert, row, 0) as the index has it.
std::string place(char expert, char row) {
  return {'(', 'K', 1, 'K', expert, 'K', row, 'K', 0, 't'};
}

// qwen3_moe with two layers, four experts of width 12 and a hidden size of 8.
// Of one expert the index loses the rows of its up projection, with their
// place.
TEST_F(DamagedMegatron, AHoleNamesTheTensorThatItIsIn) {
  model_ = fixture("qwen3_moe");
  model_.config["num_hidden_layers"] = 2;
  model_.config["num_local_experts"] = 4;
  model_.config["moe_intermediate_size"] = 12;
  model_.config["hidden_size"] = 8;
  for (auto &file : model_.files) {
    std::erase_if(file.tensors, [](const auto &tensor) {
      return tensor.name.contains("layers.2.") ||
             tensor.name.contains("experts.4.") ||
             tensor.name.contains("experts.5.");
    });
    for (auto &tensor : file.tensors)
      for (auto &extent : tensor.shape)
        extent = extent == 80   ? 8
                 : extent == 44 ? 12
                 : extent == 6  ? 4
                                : extent;
  }
  model_.write(scratch_ / "hf");
  const Outcome done = mbc({"convert", scratch_ / "hf", scratch_ / "mg"});
  ASSERT_EQ(done.status, 0) << done.err;
  const std::string path = scratch_ / "mg/release/.metadata";
  writeText(path, cutTwice(readText(path), place(2, 12), place(3, 0)));

  const std::string hole =
      ".metadata: tensor decoder.layers.1.mlp.experts.linear_fc1.weight2: "
      "layer "
      "1, expert 2 (key decoder.layers.mlp.experts.experts.linear_fc1.weight): "
      "rows 12 to 23 are covered by no chunk";
  expectRefused({hole + ", and model.layers.1.mlp.experts.2.up_proj.weight "
                        "cannot be written without them\n"});
  // Nor the tensor of all experts, and none of the others is written alone.
  expectRefused({hole + ", and model.layers.1.mlp.experts.gate_up_proj cannot "
                        "be written without them\n"},
                {"--hf-experts", "fused"});
  for (const std::vector<std::string> &call :
       {std::vector<std::string>{"ls", scratch_ / "mg"},
        {"convert", scratch_ / "mg", scratch_ / "mg2", "--to", "megatron"}}) {
    const Outcome outcome = mbc(call);
    EXPECT_EQ(outcome.status, 1) << spell(call);
    EXPECT_TRUE(outcome.err.contains(hole + "\n")) << outcome.err;
  }
}

// Written by a spec that says so, as newer Megatrons do on request: each rank
// has blocks of gate and up in turn.
TEST_F(DamagedMegatron, GateAndUpInBlocksAreRefused) {
  model_ = fixture("qwen3_moe");
  for (const std::string name : {"moe_mlp_glu_interleave_size",
                                 "moe_shared_expert_glu_interleave_size"}) {
    SCOPED_TRACE(name);
    for (const char *folder : {"hf", "mg"})
      fs::remove_all(scratch_ / folder);
    const std::string let = "let text = hf\n";
    const Outcome done = import(
        {"--spec-path", specsWith("qwen3_moe.mbspec", let,
                                  let + "config { " + name + " = 32 }\n")});
    ASSERT_EQ(done.status, 0) << done.err;
    const std::string refusal =
        " has " + name +
        " 32: gate and up of its experts stand in alternate blocks of 32 rows";
    expectRefused({refusal, "load it in Megatron and save it without"});
    const Outcome other = mbc({"convert", scratch_ / "mg", scratch_ / "mg2",
                               "--to", "megatron", "--tp", "2"});
    EXPECT_EQ(other.status, 1);
    EXPECT_TRUE(other.err.contains(refusal)) << other.err;
  }
}

// A spec that lost the router's bias: both ways are refused, by both names.
TEST_F(DamagedMegatron, ABufferThatTheSpecForgot) {
  for (const char *name : {"deepseek_v3", "glm4_moe", "glm5_next"}) {
    SCOPED_TRACE(name);
    for (const char *folder : {"hf", "mg"})
      fs::remove_all(scratch_ / folder);
    model_ = fixture(name);
    const Outcome done = import({"--copies", "drop"});
    ASSERT_EQ(done.status, 0) << done.err;
    const std::string without = specsWith(
        "lib/moe.mbspec",
        "      router.expert_bias <- gate.e_score_correction_bias  dtype=f32\n",
        "");
    const Outcome check = mbc(
        {"check", scratch_ / "hf", "--copies", "drop", "--spec-path", without});
    EXPECT_EQ(check.status, 1);
    EXPECT_TRUE(check.err.contains("gate.e_score_correction_bias"))
        << check.err;
    EXPECT_TRUE(check.err.contains("is read by no rule of")) << check.err;
    expectRefused({"router.expert_bias", "is read by no rule of",
                   "gate.e_score_correction_bias"},
                  {"--spec-path", without});
  }
}

} // namespace
} // namespace mbc::test
