#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/PublishedForm.h"
#include "tests/end-to-end/Scratch.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <optional>

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
    std::vector<std::string> call{"convert", scratch_ / "mg", scratch_ / "back",
                                  "--spec", spec};
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

/// Where the arguments do not hold all of config.json.
struct Given {
  std::vector<std::string> asked; ///< fields that the message names
  std::vector<std::string> also;  ///< what else has to be said
  bool all = false;               ///< only the whole config.json will do
};

/// Models of several parts: Megatron has arguments for the decoder alone. Kinds
/// of layers that a hybrid pattern or a list says in other words, sizes that
/// only some layers have, switches of a class that lies beside the weights. Of
/// classes that share a spec, the first is taken unless another is given.
const std::map<std::string, Given> &givenFields() {
  static const std::vector<std::string> identity{"architectures", "model_type"},
      vision{"vision_config"},
      omni{"thinker_config.audio_config", "thinker_config.vision_config"};
  static const Given omniNemotron{vision,
                                  {"architectures", "model_type",
                                   "sound_config", "audio_config",
                                   "text_config.model_type"}};
  static const std::map<std::string, Given> all{
      {"deepseek_v41", {{"moe_router_enable_expert_bias"}, {}, true}},
      {"dots1", {{}, identity}},
      {"ernie4_5_vl_moe", {vision, {"text_config.moe_intermediate_size"}}},
      {"exaone4_5", {vision, {}}},
      {"falcon_h1",
       {{"mamba_rms_norm", "mamba_d_ssm", "mamba_d_conv", "mamba_conv_bias"},
        {}}},
      {"gemma3_vl", {vision, {}}},
      {"gemma4_vl", {vision, {}}},
      {"glm4v", {vision, {}}},
      {"glm4v_moe", {vision, {}}},
      {"glm5_next",
       {{"vision_config", "text_config.layer_types",
         "text_config.mlp_layer_types"},
        {}}},
      {"glm5_next_fp8",
       {{"vision_config", "text_config.layer_types",
         "text_config.mlp_layer_types"},
        {}}},
      {"internlm3", {{}, identity}},
      {"internvl", {{"vision_config", "llm_config.model_type"}, {}}},
      {"kimi_k2", {{}, identity}},
      {"kimi_k25", {vision, {}}},
      {"kimi_k25_int4", {vision, {}}},
      {"kimi_k3",
       {{"vision_config", "text_config.linear_attn_config.full_attn_layers"},
        {}}},
      {"llada",
       {{"rope", "block_type", "layer_norm_type", "activation_type"}, {}}},
      {"llama4_vl", {vision, {}}},
      {"llava_onevision1_5", {vision, {}}},
      {"mimo_v2_flash",
       {{"swa_head_dim", "swa_v_head_dim", "swa_num_attention_heads",
         "swa_num_key_value_heads", "swa_rope_theta"},
        {}}},
      {"minimax_m3_vl",
       {{"vision_config", "text_config.layer_types",
         "text_config.mlp_layer_types", "text_config.index_head_dim",
         "text_config.index_n_heads", "text_config.index_block_size",
         "text_config.index_topk_blocks", "text_config.index_local_blocks"},
        {}}},
      {"mistral", {{}, identity}},
      {"mistral3", {vision, {}}},
      {"nemotron_h_omni", omniNemotron},
      {"nemotron_nas", {{"block_configs"}, {}}},
      {"nemotron_omni", omniNemotron},
      {"nemotron_vl", {vision, {}}},
      {"ovis2_5", {{"vit_config"}, {}}},
      {"qwen2_5_omni", {omni, {}}},
      {"qwen2_5_vl", {vision, identity}},
      {"qwen2_audio", {{"audio_config"}, {}}},
      {"qwen2_vl", {vision, {}}},
      {"qwen3_5_moe_vl", {vision, {}}},
      {"qwen3_5_vl", {vision, {}}},
      {"qwen3_5_vl_labels", {vision, {}}},
      {"qwen3_asr", {{"thinker_config.audio_config"}, {}}},
      {"qwen3_omni_moe", {omni, {}}},
      {"qwen3_vl", {vision, {}}},
      {"qwen3_vl_moe", {vision, {}}},
      {"sarvam_moe", {{}, identity}},
      {"step3p5",
       {{"layer_types", "attention_other_setting", "rope_theta",
         "partial_rotary_factors"},
        {}}},
      {"step3p7",
       {{"vision_config", "text_config.layer_types",
         "text_config.attention_other_setting"},
        {}}},
  };
  return all;
}

/// Names with dots inside of objects.
using Leaves = std::map<std::string, Json>;

void addLeaves(const Json &object, const std::string &prefix, Leaves &leaves) {
  for (const auto &[key, value] : object.items())
    if (value.is_object())
      addLeaves(value, fmt::format("{}{}.", prefix, key), leaves);
    else
      leaves[fmt::format("{}{}", prefix, key)] = value;
}

Leaves leavesOf(const Json &config) {
  Leaves leaves;
  addLeaves(config, "", leaves);
  return leaves;
}

/// The fields of a config.json alone, where they are there.
Json part(const Json &config, const std::vector<std::string> &fields) {
  Json given = Json::object();
  for (std::string field : fields) {
    std::ranges::replace(field, '.', '/');
    const Json::json_pointer at("/" + field);
    if (config.contains(at))
      given[at] = config[at];
  }
  return given;
}

/// Other names of a field, in other versions of the Hugging Face library.
std::vector<std::string> otherNames(const std::string &field) {
  const size_t dot = field.rfind('.') + 1; // 0 without a dot
  const std::string prefix = field.substr(0, dot), name = field.substr(dot);
  if (prefix.ends_with("rope_scaling.")) {
    const std::string object = prefix.substr(0, prefix.size() - 13);
    return {fmt::format("{}rope_parameters.{}", object,
                        name == "type" ? "rope_type" : name)};
  }
  if (name == "rope_theta")
    return {fmt::format("{}rope_parameters.rope_theta", prefix),
            fmt::format("{}rope_parameters.full_attention.rope_theta", prefix)};
  if (name == "rope_local_base_freq")
    return {
        fmt::format("{}rope_parameters.sliding_attention.rope_theta", prefix)};
  if (name == "partial_rotary_factor")
    return {fmt::format("{}rope_parameters.partial_rotary_factor", prefix)};
  if (name == "num_experts")
    return {fmt::format("{}num_local_experts", prefix)};
  if (name == "torch_dtype")
    return {"dtype", "text_config.dtype", "llm_config.dtype",
            "llm_config.torch_dtype", "thinker_config.dtype"};
  return {};
}

/// Fields that a source may leave to its class, and what they are then.
bool isDefault(const std::string &name, const Json &value, const Json &text) {
  static const std::map<std::string, std::vector<Json>> defaults{
      {"attention_bias", {false, true}}, // true: always in Qwen 2
      {"attention_dropout", {0.0}},
      {"aux_loss_alpha", {0.0001}}, // training only
      {"decoder_sparse_step", {1}},
      {"hidden_dropout", {0.0}},
      {"index_skip_topk_offset", {0}},
      {"index_topk_freq", {1}},
      {"indexer_rope_interleave", {true}},
      {"initializer_range", {0.02}}, // training only
      {"mhc", {true}},
      {"mtp_num_hidden_layers", {0}},
      {"mtp_use_repeated_layer", {false}},
      {"n_group", {1}},
      {"norm_topk_prob", {true, false}}, // as the family's class
      {"num_experts", {0}},
      {"num_nextn_predict_layers", {0}},
      {"partial_rotary_factor", {1.0, 0.5, 0.25}}, // 0.5: GLM, 0.25: Qwen 3.5
      {"qk_norm", {true}},
      {"rope_theta", {10000.0, 500000.0, 1000000.0}},
      {"routed_scaling_factor", {nullptr}},
      {"router_aux_loss_coef", {0.001, 0.0001}}, // training only
      {"score_function", {"sigmoid"}},
      {"scoring_func", {"sigmoid", "softmax"}},
      {"sliding_window", {nullptr}},
      {"tie_word_embeddings", {false}},
      {"topk_group", {1}},
      {"torch_dtype", {"bfloat16"}},
      {"truncate", {true}},
      {"use_qk_norm", {true}},
      {"zero_centered", {true}},
  };
  if (name == "head_dim")
    return value == text["hidden_size"].get<int64_t>() /
                        text["num_attention_heads"].get<int64_t>();
  // Where all layers have experts, Megatron has their width for others, too.
  if (name == "intermediate_size")
    return value == text.value("moe_intermediate_size", Json());
  auto found = defaults.find(name);
  return found != defaults.end() &&
         std::ranges::find(found->second, value) != found->second.end();
}

/// Two words for one thing: null where the class has a number for none, and
/// layers as symbols or as words.
bool saysTheSame(const std::string &name, const Json &source,
                 const Json &made) {
  if (source.is_null())
    return ((name == "n_group" || name == "topk_group") && made == 1) ||
           (name == "n_shared_experts" && made == 0);
  // Kimi-K3 with one group.
  return name == "use_grouped_topk" && source == true && made == false;
}

/// The symbols of words such as "mamba".
std::string symbols(const Json &words) {
  static const std::map<std::string, std::string> of{
      {"linear_attention", "M"}, {"mamba", "M"}, {"full_attention", "*"},
      {"attention", "*"},        {"moe", "E"},   {"mlp", "-"}};
  std::string text;
  for (const Json &word : words) {
    auto found = of.find(word.get<std::string>());
    text += found == of.end() ? word.get<std::string>() : found->second;
  }
  return text;
}

/// What a field is in the source, if it has it in some form.
std::optional<Json> inSource(const std::string &field, const Leaves &source) {
  if (auto found = source.find(field); found != source.end())
    return found->second;
  for (const std::string &name : otherNames(field))
    if (auto found = source.find(name); found != source.end())
      return found->second;
  const size_t at = field.find("hybrid_override_pattern");
  if (at == std::string::npos)
    return std::nullopt;
  auto words =
      source.find(fmt::format("{}layers_block_type", field.substr(0, at)));
  return words == source.end() ? std::nullopt
                               : std::optional<Json>(symbols(words->second));
}

void expectFieldsOf(const Json &source, const Json &made) {
  const Leaves there = leavesOf(source);
  for (const auto &[field, value] : leavesOf(made)) {
    const std::string name = field.substr(field.rfind('.') + 1);
    const std::optional<Json> expected = inSource(field, there);
    if (expected)
      EXPECT_TRUE(*expected == value || saysTheSame(name, *expected, value))
          << field << " is " << value << ", was " << *expected;
    else
      EXPECT_TRUE(isDefault(name, value, textConfig(made)))
          << field << " is " << value << ", and was not there";
  }
}

class OfFixture : public ConfigFromArgs,
                  public testing::WithParamInterface<std::string> {};

TEST_P(OfFixture, TensorsAndFieldsAreThoseOfTheSource) {
  const HfModel model = fixture(GetParam());
  const std::string spec = import(model, importOptions(GetParam()));
  auto entry = givenFields().find(GetParam());
  const Given given = entry == givenFields().end() ? Given() : entry->second;
  std::vector<std::string> options = publishedForm(GetParam());
  if (!given.asked.empty()) {
    const Outcome refused = exportBy(spec, options);
    EXPECT_EQ(refused.status, 1);
    for (const std::string &field : given.asked)
      EXPECT_TRUE(refused.err.contains(field)) << field << '\n' << refused.err;
  }
  if (given.all)
    return;
  std::vector<std::string> fields = given.asked;
  fields.insert(fields.end(), given.also.begin(), given.also.end());
  if (!fields.empty()) {
    writeText(scratch_ / "given/config.json",
              part(model.config, fields).dump());
    options.insert(options.end(), {"--hf-config", scratch_ / "given"});
  }
  const Outcome outcome = exportBy(spec, options);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(
      difference(withOneForm(GetParam(), exportOf(model)),
                 withOneForm(GetParam(), readSafetensors(scratch_ / "back"))),
      "");
  expectFieldsOf(model.config, made());
}

INSTANTIATE_TEST_SUITE_P(Fixtures, OfFixture, testing::ValuesIn(allFixtures()),
                         [](const auto &info) { return info.param; });

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
  const Json config = thereAndBack("deepseek_v3",
                                   {{"rope_scaling", scaling},
                                    {"n_group", nullptr},
                                    {"topk_group", nullptr}},
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
  const Json config = thereAndBack("qwen3_next", Json::object());
  EXPECT_EQ(config["layer_types"], kinds);
  EXPECT_EQ(config["decoder_sparse_step"], 1);
  EXPECT_EQ(config["shared_expert_intermediate_size"], 44);
  EXPECT_EQ(config["linear_num_value_heads"], 8);
}

TEST_F(ConfigFromArgs, Glm4MoeHasDenseLayersAndNorms) {
  const Json config =
      thereAndBack("glm4_moe", Json::object(), {"--copies", "drop"});
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
  const Outcome outcome = exportBy(spec, {"--hf-config", scratch_ / "given"});
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

// As written by a program that has no such argument.
TEST_F(ConfigFromArgs, AnArgumentThatIsNotThereIsNoted) {
  const std::string spec = import(fixture("llama"));
  const std::string path = scratch_ / "mg/release/common.pt";
  std::string text = readText(path);
  for (size_t at; (at = text.find("rotary_base")) != text.npos;)
    text.replace(at, 11, "rotary_city");
  writeText(path, text);
  const Outcome outcome = exportBy(spec);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("has no argument for these, and config.json "
                                   "is made as if it had: rotary_base 10000\n"))
      << outcome.err;
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
