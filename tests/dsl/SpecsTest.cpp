#include "runtime/Sha256.h"
#include "tests/dsl/SpecFiles.h"
#include "tests/dsl/SpecText.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
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
    EXPECT_EQ(used.count(name), 1U) << name;
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

/// Specs by architecture and model_type; of several Megatron layouts, that
/// which is called after the model_type.
std::map<std::pair<std::string, std::string>, std::string> families() {
  std::map<std::pair<std::string, std::string>, std::string> result;
  for (const std::string &path : specFiles()) {
    Diagnostics diagnostics;
    ParseResult spec = parseFile(path, {MBC_SPECS}, diagnostics);
    if (!spec || !spec->model)
      continue; // lib/, or an error that another test reports
    SpecHeader head = header(*spec);
    for (const std::string &architecture : head.architectures)
      for (const std::string &type : head.modelTypes) {
        const std::string name = std::filesystem::path(path).stem().string();
        if (auto [entry, isNew] =
                result.try_emplace({architecture, type}, name);
            !isNew && name == type)
          entry->second = name;
      }
  }
  return result;
}

/// The folders of tests/data with such a file, each with its spec.
std::vector<Case> casesWith(const char *file) {
  const auto known = families();
  std::vector<Case> cases;
  for (const auto &entry : std::filesystem::directory_iterator(MBC_DATA)) {
    const std::filesystem::path folder = entry.path();
    // What a spec ignores is left over here: the end-to-end tests have it.
    if (!std::filesystem::exists(folder / file) ||
        folder.filename() == "llama_inv_freq")
      continue;
    json config = json::parse(textOf(folder / "config.json"));
    auto family =
        known.find({config.at("architectures").at(0), config.at("model_type")});
    cases.push_back({folder.filename().string(),
                     family == known.end() ? "none" : family->second});
  }
  std::ranges::sort(cases, {}, &Case::fixture);
  return cases;
}

constexpr auto fixtureName = [](const auto &entry) {
  return entry.param.fixture;
};
INSTANTIATE_TEST_SUITE_P(Specs, Fixture,
                         testing::ValuesIn(casesWith("manifest.json")),
                         fixtureName);
INSTANTIATE_TEST_SUITE_P(Specs, Reference,
                         testing::ValuesIn(casesWith("expected.json")),
                         fixtureName);

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
