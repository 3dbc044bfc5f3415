#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>
#include <fmt/format.h>
#include <map>

#include <gtest/gtest.h>

// A Megatron checkpoint alone, and the name of its family: config.json is made
// of Megatron's arguments, and has to be what the model came with.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

class ConfigFromArgs : public testing::Test {
protected:
  /// To Megatron; nothing of Hugging Face's stays there. The spec's name.
  std::string import(const HfModel &model,
                     std::vector<std::string> options = {}) {
    model.write(scratch_ / "hf");
    options.insert(options.begin(),
                   {"convert", scratch_ / "hf", scratch_ / "mg"});
    const Outcome outcome = mbc(options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json record =
        Json::parse(readText(scratch_ / "mg/release/mbc/record.json"));
    fs::remove_all(scratch_ / "mg/release/mbc");
    return record["spec"]["name"];
  }

  Outcome exportBy(const std::string &spec,
                   const std::vector<std::string> &options = {}) {
    std::vector<std::string> call{"convert", scratch_ / "mg",
                                  scratch_ / "back", "--spec", spec};
    call.insert(call.end(), options.begin(), options.end());
    return mbc(call);
  }

  Json made() const {
    return Json::parse(readText(scratch_ / "back/config.json"));
  }

  /// config.json of a fixture with other fields, there and back.
  Json thereAndBack(const std::string &name, const Json &changes,
                    const std::vector<std::string> &options = {}) {
    HfModel model = fixture(name);
    model.config.update(changes);
    const std::string spec = import(model, options);
    const Outcome outcome = exportBy(spec);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? made() : Json();
  }

  Scratch scratch_;
};

// C33: Hugging Face counts the query's own position.
TEST_F(ConfigFromArgs, AWindowComesBackAsItWas) {
  EXPECT_EQ(thereAndBack("mistral", {{"sliding_window", 4}})["sliding_window"],
            4);
  fs::remove_all(scratch_ / "mg");
  fs::remove_all(scratch_ / "back");
  EXPECT_EQ(thereAndBack("gpt_oss", {{"sliding_window", 4}})["sliding_window"],
            4);
}

TEST_F(ConfigFromArgs, NoWindowComesBackAsNone) {
  for (const char *name : {"mistral", "gpt_oss"}) {
    const Json config = thereAndBack(name, {{"sliding_window", nullptr}});
    ASSERT_TRUE(config.contains("sliding_window")) << name;
    EXPECT_TRUE(config["sliding_window"].is_null()) << name;
    fs::remove_all(scratch_ / "mg");
    fs::remove_all(scratch_ / "back");
  }
}

TEST_F(ConfigFromArgs, TheScalingOfLlama3IsWhole) {
  const Json scaling{{"rope_type", "llama3"},
                     {"factor", 32.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  const Json config = thereAndBack("llama", {{"rope_scaling", scaling},
                                             {"rope_theta", 500000.0},
                                             {"rope_parameters", nullptr}});
  EXPECT_EQ(config["rope_scaling"], scaling);
  EXPECT_EQ(config["rope_theta"], 500000.0);
}

TEST_F(ConfigFromArgs, DeepseekHasItsExpertsAndYarn) {
  const Json scaling{{"type", "yarn"},
                     {"factor", 40},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"beta_fast", 32},
                     {"beta_slow", 1},
                     {"original_max_position_embeddings", 4096}};
  const Json config = thereAndBack(
      "deepseek_v3",
      {{"rope_scaling", scaling}, {"n_group", nullptr}, {"topk_group", nullptr}},
      {"--copies", "drop"});
  EXPECT_EQ(config["first_k_dense_replace"], 1);
  EXPECT_EQ(config["n_routed_experts"], 8);
  EXPECT_EQ(config["n_shared_experts"], 1);
  EXPECT_EQ(config["num_nextn_predict_layers"], 1);
  EXPECT_EQ(config["num_key_value_heads"], 4);
  EXPECT_EQ(config["rope_scaling"], scaling);
  // The library has no other word for no groups.
  EXPECT_EQ(config["n_group"], 1);
  EXPECT_EQ(config["topk_group"], 1);
}

TEST_F(ConfigFromArgs, QwenNextHasItsKindsOfLayers) {
  const Json kinds{"linear_attention", "linear_attention", "linear_attention",
                   "full_attention"};
  const Json config = thereAndBack("qwen3_next", {});
  EXPECT_EQ(config["layer_types"], kinds);
  EXPECT_EQ(config["decoder_sparse_step"], 1);
  EXPECT_EQ(config["shared_expert_intermediate_size"], 44);
  EXPECT_EQ(config["linear_num_value_heads"], 8);
}

TEST_F(ConfigFromArgs, Glm4MoeHasDenseLayersAndNorms) {
  const Json config = thereAndBack("glm4_moe", {}, {"--copies", "drop"});
  EXPECT_EQ(config["architectures"], Json({"Glm4MoeForCausalLM"}));
  EXPECT_EQ(config["model_type"], "glm4_moe");
  EXPECT_EQ(config["first_k_dense_replace"], 1);
  EXPECT_EQ(config["use_qk_norm"], true);
  EXPECT_EQ(config["attention_bias"], true);
  EXPECT_EQ(config["partial_rotary_factor"], 0.5);
  EXPECT_EQ(config["n_routed_experts"], 5);
}

// What the arguments give, and what --hf-config says besides.
TEST_F(ConfigFromArgs, FieldsThatAreGivenStay) {
  const std::string spec = import(fixture("mistral"));
  writeText(scratch_ / "given/config.json",
            R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 7})");
  const Outcome outcome =
      exportBy(spec, {"--hf-config", scratch_ / "given"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json config = made();
  EXPECT_EQ(config["architectures"], Json({"MistralForCausalLM"}));
  EXPECT_EQ(config["model_type"], "mistral");
  EXPECT_EQ(config["bos_token_id"], 7);
  EXPECT_EQ(config["sliding_window"], 4096);
  EXPECT_TRUE(outcome.err.contains("tokenizer")) << outcome.err;
}

TEST_F(ConfigFromArgs, AGivenFieldThatContradictsIsNamed) {
  const std::string spec = import(fixture("llama"));
  writeText(scratch_ / "given/config.json", R"({"num_key_value_heads": 4})");
  const Outcome outcome = exportBy(spec, {"--hf-config", scratch_ / "given"});
  EXPECT_EQ(outcome.status, 1);
  for (const char *words : {"num_query_groups 2", "gives 4", "grouped.mbspec"})
    EXPECT_TRUE(outcome.err.contains(words)) << outcome.err;
}

TEST_F(ConfigFromArgs, WithoutASpecTheMessageSaysBothWays) {
  import(fixture("llama"));
  const Outcome outcome = mbc({"convert", scratch_ / "mg", scratch_ / "back"});
  EXPECT_EQ(outcome.status, 1);
  for (const char *words : {"--hf-config", "--spec"})
    EXPECT_TRUE(outcome.err.contains(words)) << outcome.err;
}

} // namespace
} // namespace mbc::test
