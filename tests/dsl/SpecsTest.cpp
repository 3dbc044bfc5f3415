#include "runtime/Sha256.h"
#include "tests/dsl/SpecFiles.h"
#include "tests/dsl/SpecText.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <span>

namespace mbc::dsl {
namespace {

using nlohmann::json;

struct Case {
  std::string fixture, family;
};
void PrintTo(const Case &entry, std::ostream *out) { *out << entry.fixture; }

class Fixture : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    Diagnostics diagnostics;
    names = namesOf(GetParam().fixture);
    ParseResult spec = parseFile(MBC_SPECS "/" + GetParam().family + ".mbspec",
                                 {}, diagnostics);
    ASSERT_TRUE(spec) << messages(diagnostics);
    NameOracle oracle = oracleOf(names);
    model = evaluate(*spec,
                     textOf(MBC_DATA "/" + GetParam().fixture + "/config.json"),
                     oracle, diagnostics);
    ASSERT_EQ(messages(diagnostics), "");
  }

  std::set<std::string> names;
  Model model;
};

TEST_P(Fixture, ReadsEachHfTensorOnce) {
  std::multiset<std::string> used;
  for (const RuleInstance &instance : model.instances)
    used.insert(instance.hf.begin(), instance.hf.end());
  for (const TiedCopy &tie : model.ties)
    if (tie.side == Side::Hf)
      used.insert(tie.copy);
  for (const std::string &name : names)
    EXPECT_EQ(used.count(name), name.ends_with("_scale_inv") ? 0U : 1U) << name;
  EXPECT_TRUE(
      std::includes(names.begin(), names.end(), used.begin(), used.end()));
}

TEST_P(Fixture, ReadsOrIgnoresEachConfigField) {
  EXPECT_EQ(model.unreadConfigFields, std::vector<std::string>{});
}

/// A fixture with a reference for the Megatron side.
class Reference : public Fixture {};

TEST_P(Reference, DefinesTheMegatronParametersOfTheReference) {
  std::string path = MBC_DATA "/" + GetParam().fixture + "/expected.json";
  json expected = json::parse(textOf(path));
  std::set<std::string> wanted =
      expected.at("init_only").get<std::set<std::string>>();
  std::set<std::string> floats;
  for (const auto &[name, tensor] : expected.at("tensors").items()) {
    wanted.insert(name);
    if (tensor.at("dtype") == "F32")
      floats.insert(name);
  }
  std::set<std::string> defined, pinned, initial;
  size_t count = 0;
  for (const RuleInstance &instance : model.instances)
    for (const std::string &name : instance.megatron) {
      ++count;
      defined.insert(name);
      if (model.mappings[instance.mapping].dtype == "f32" &&
          !instance.hf.empty())
        pinned.insert(name);
      if (instance.hf.empty())
        initial.insert(name);
    }
  EXPECT_EQ(count, defined.size());
  EXPECT_EQ(defined, wanted);
  EXPECT_EQ(pinned, floats);
  EXPECT_EQ(initial, expected.at("init_only").get<std::set<std::string>>());
}

INSTANTIATE_TEST_SUITE_P(
    Specs, Fixture,
    testing::Values(
        Case{"llama", "llama"}, Case{"mistral", "llama"},
        Case{"internlm3", "llama"}, Case{"llada", "llada"},
        Case{"nemotron_nas", "nemotron_nas"}, Case{"mimo", "mimo"},
        Case{"mimo_v2_flash", "mimo_v2_flash"}, Case{"step3p5", "step3p5"},
        Case{"bailing_moe_v2", "bailing_moe_v2"},
        Case{"sarvam_moe", "bailing_moe_v2"}, Case{"ernie4_5", "ernie4_5"},
        Case{"glm4", "glm4"}, Case{"qwen2", "qwen2"}, Case{"qwen3", "qwen3"},
        Case{"qwen3_mtp", "qwen3"}, Case{"mixtral", "mixtral"},
        Case{"gpt_oss", "gpt_oss"}, Case{"olmoe", "olmoe"},
        Case{"qwen2_moe", "qwen2_moe"}, Case{"qwen3_moe", "qwen3_moe"},
        Case{"ernie4_5_moe", "ernie4_5_moe"}, Case{"minimax_m2", "minimax_m2"},
        Case{"dots1", "glm4_moe"}, Case{"glm4_moe", "glm4_moe"},
        Case{"exaone_moe", "exaone_moe"}, Case{"hy_v3", "hy_v3"},
        Case{"deepseek_v2", "deepseek_v2"},
        Case{"deepseek_v2_lite", "deepseek_v2"}, Case{"kimi_k2", "deepseek_v3"},
        Case{"glm4_moe_lite", "glm4_moe_lite"},
        Case{"sarvam_mla", "sarvam_mla"}, Case{"deepseek_v3", "deepseek_v3"},
        Case{"deepseek_v3_fp8", "deepseek_v3"},
        Case{"glm_moe_dsa", "glm_moe_dsa"},
        Case{"glm_moe_dsa_fp8", "glm_moe_dsa"},
        Case{"glm_moe_dsa_fused", "glm_moe_dsa"},
        Case{"glm5_next", "glm5_next"}, Case{"glm5_next_fp8", "glm5_next"},
        Case{"gemma", "gemma"}, Case{"gemma2", "gemma2"},
        Case{"gemma3", "gemma3"}, Case{"exaone4", "exaone4"},
        Case{"qwen3_next", "qwen3_next"}, Case{"qwen3_5", "qwen3_5"},
        Case{"qwen3_5_moe", "qwen3_5_moe"}, Case{"nemotron_h", "nemotron_h"},
        Case{"nemotron_h_mtp", "nemotron_h"}, Case{"nemotron", "nemotron"},
        Case{"falcon_h1", "falcon_h1"}, Case{"llama4", "llama4"},
        Case{"deepseek_v4", "deepseek_v4"}, Case{"gemma4", "gemma4"},
        Case{"gemma4_moe", "gemma4"}, Case{"qwen3_vl", "qwen3_vl"},
        Case{"qwen3_vl_moe", "qwen3_vl_moe"}, Case{"qwen2_vl", "qwen2_vl"},
        Case{"qwen2_5_vl", "qwen2_vl"}, Case{"qwen3_5_vl", "qwen3_5_vl"},
        Case{"qwen3_5_moe_vl", "qwen3_5_moe_vl"},
        Case{"gemma3_vl", "gemma3_vl"}, Case{"gemma4_vl", "gemma4_vl"},
        Case{"glm4v", "glm4v"}, Case{"glm4v_moe", "glm4v_moe"},
        Case{"mistral3", "mistral3"}, Case{"kimi_k25", "kimi_k25"},
        Case{"qwen2_audio", "qwen2_audio"}, Case{"llama4_vl", "llama4_vl"},
        Case{"exaone4_5", "exaone4_5"}, Case{"qwen2_5_omni", "qwen2_5_omni"},
        Case{"qwen3_omni_moe", "qwen3_omni_moe"},
        Case{"qwen3_asr", "qwen3_asr"}, Case{"internvl", "internvl"},
        Case{"step3p7", "step3p7"}, Case{"minimax_m3_vl", "minimax_m3_vl"},
        Case{"ernie4_5_vl_moe", "ernie4_5_vl_moe"}),
    [](const auto &entry) { return entry.param.fixture; });

INSTANTIATE_TEST_SUITE_P(Specs, Reference,
                         testing::Values(Case{"llama", "llama"},
                                         Case{"qwen3_moe", "qwen3_moe"},
                                         Case{"deepseek_v3", "deepseek_v3"},
                                         Case{"glm_moe_dsa", "glm_moe_dsa"},
                                         Case{"glm_moe_dsa_fp8", "glm_moe_dsa"},
                                         Case{"glm5_next", "glm5_next"},
                                         Case{"glm5_next_fp8", "glm5_next"}),
                         [](const auto &entry) { return entry.param.fixture; });

// Four blocks, attention K K K D, feed-forward - E E E, four experts, one MTP
// layer of two, as a torch_dist of Megatron's own HybridModel: 104 objects; the
// hash is that of their sorted names there.
TEST(Specs, ExtraStateOfAHybridModelIsMegatronsOwn) {
  std::string config =
      R"({"text_config": {"num_hidden_layers": 4, "hidden_size": 64,
      "num_attention_heads": 4, "n_routed_experts": 4, "moe_intermediate_size": 40,
      "n_shared_experts": 1, "layer_types": ["linear_attention", "linear_attention",
      "linear_attention", "deepseek_sparse_attention"],
      "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "num_nextn_predict_layers": 1,
      "linear_num_heads": 4, "linear_head_dim": 8, "linear_conv_kernel_dim": 4, "index_kpool": 4,
      "qk_head_dim": 16, "qk_nope_head_dim": 16, "q_lora_rank": 24, "kv_lora_rank": 20,
      "v_head_dim": 12, "intermediate_size": 96, "vocab_size": 1280, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 4096, "num_experts_per_tok": 2, "routed_scaling_factor": 2.5,
      "norm_topk_prob": true, "index_head_dim": 8, "index_n_heads": 2, "index_topk": 8}})";
  Diagnostics diagnostics;
  ParseResult spec = parseFile(MBC_SPECS "/glm5_next.mbspec", {}, diagnostics);
  ASSERT_TRUE(spec) << messages(diagnostics);
  Model model = evaluate(*spec, config, {}, diagnostics);
  ASSERT_EQ(messages(diagnostics), "");

  auto pattern = std::find_if(
      model.config.begin(), model.config.end(),
      [](const auto &field) { return field.name == "hybrid_layer_pattern"; });
  ASSERT_NE(pattern, model.config.end());
  EXPECT_EQ(std::get<std::string>(pattern->value), "K-KEKEDE/DE");
  EXPECT_EQ(model.layers, 8);

  std::set<std::string> keys; // sorted bytewise
  for (const ExtraState &entry : model.extraStates) {
    std::string module =
        entry.module.substr(std::string("language_model.").size());
    if (size_t at = module.find(".experts.linear"); at != std::string::npos)
      module.insert(at, ".experts");
    int64_t count = std::max<int64_t>(entry.experts, 1);
    for (int64_t i = 0; i != count; ++i)
      keys.insert(fmt::format("{}._extra_state/shard_{}_{}", module, i, count));
  }
  EXPECT_EQ(keys.size(), 104U);
  std::string text;
  for (const std::string &key : keys)
    text += key + "\n";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  EXPECT_EQ(hash.hex(),
            "d16b3638a36e9bdf4e21e88d3b8f8113d7c7701173f7ee72e501e253b3429751");
}

} // namespace
} // namespace mbc::dsl
