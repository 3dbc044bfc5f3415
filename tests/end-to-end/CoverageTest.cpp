#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

/// Sources whose tensors and config do not fit together.
class Coverage : public testing::Test {
protected:
  std::string check(const HfModel &model,
                    const std::vector<std::string> &options = {}) {
    fs::remove_all(source_);
    model.write(source_);
    std::vector<std::string> arguments{"check", source_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = mbc(arguments);
    EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
    return outcome.out + outcome.err;
  }

  void expectFindings(const HfModel &model,
                      const std::vector<std::string> &words,
                      const std::vector<std::string> &options = {}) {
    const std::string text = check(model, options);
    for (const std::string &word : words)
      EXPECT_TRUE(text.contains(word)) << "not said: " << word << "\n" << text;
  }

  Outcome convert(const HfModel &model, std::vector<std::string> options) {
    fs::remove_all(source_);
    fs::remove_all(target_);
    model.write(source_);
    options.insert(options.begin(), {"convert", source_, target_});
    return mbc(options);
  }

  Scratch scratch_;
  const std::string source_ = scratch_ / "hf", target_ = scratch_ / "mg";
};

// Two shards, and the index lacks a tensor that the second one holds: it is
// used, with a warning, or refused; both name tensor and file.
TEST_F(Coverage, TheIndexLacksATensorThatAShardHolds) {
  HfModel model = fixture("qwen3_moe");
  const std::string name = "model.layers.1.self_attn.k_norm.weight";
  std::string file;
  for (const auto &part : model.files)
    for (const auto &tensor : part.tensors)
      if (tensor.name == name)
        file = part.name;
  model.write(source_);
  const std::string index = source_ + "/model.safetensors.index.json";
  Json json = Json::parse(readText(index));
  ASSERT_EQ(json["weight_map"].erase(name), 1u);
  writeText(index, json.dump());

  const Outcome outcome = mbc({"convert", source_, target_});
  EXPECT_TRUE(outcome.err.contains(name)) << outcome.err;
  EXPECT_TRUE(outcome.err.contains(file)) << outcome.err;
  if (outcome.status == 0) {
    ASSERT_EQ(mbc({"convert", target_, scratch_ / "back"}).status, 0);
    EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
              "");
  } else {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_FALSE(fs::exists(target_ + "/release"));
  }
}

TEST_F(Coverage, TheIndexNamesWhatIsNotThere) {
  const HfModel model = fixture("qwen3_moe");
  const std::string name = "model.norm.weight";
  for (const std::string place :
       {"absent.safetensors", "../outside.safetensors",
        "/tmp/mbc-outside.safetensors",
        "sub/../model-00001-of-00002.safetensors", "sub"}) {
    SCOPED_TRACE(place);
    fs::remove_all(source_);
    model.write(source_);
    fs::create_directories(source_ + "/sub");
    fs::copy_file(source_ + "/model-00002-of-00002.safetensors",
                  scratch_ / "outside.safetensors",
                  fs::copy_options::overwrite_existing);
    const std::string index = source_ + "/model.safetensors.index.json";
    Json json = Json::parse(readText(index));
    json["weight_map"][name] = place;
    writeText(index, json.dump());
    const Outcome outcome = mbc({"convert", source_, target_});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(outcome.err.contains(place)) << outcome.err;
    EXPECT_TRUE(outcome.err.contains(name)) << outcome.err;
    EXPECT_FALSE(fs::exists(target_ + "/release"));
  }
}

// Four files, and an index that was changed in two places.
TEST_F(Coverage, AnIndexThatLiesIsContradictedByTheHeaders) {
  HfModel model = fixture("llama");
  const std::string other = "model.layers.9.mlp.up_proj.weight",
                    gone = "model.layers.1.mlp.down_proj.weight";
  auto tensors = std::move(model.files.at(0).tensors);
  model.files.clear();
  for (size_t part = 0; part != 4; ++part) {
    model.files.push_back({});
    model.files.back().name =
        fmt::format("model-0000{}-of-00004.safetensors", part + 1);
  }
  for (size_t i = 0; i != tensors.size(); ++i)
    model.files[tensors[i].name == gone ? 2 : i % 4].tensors.push_back(
        tensors[i]);
  model.write(source_);
  const std::string file = model.files[2].name,
                    index = source_ + "/model.safetensors.index.json";
  ASSERT_EQ(mbc({"check", source_}).status, 0);

  Json json = Json::parse(readText(index));
  ASSERT_EQ(json["weight_map"][gone], file);
  json["weight_map"][other] = file;
  model.erase(gone);
  model.write(source_);
  writeText(index, json.dump());
  const Outcome outcome = mbc({"check", source_});
  EXPECT_EQ(outcome.status, 1);
  for (const std::string &name : {gone, other})
    EXPECT_TRUE(outcome.err.contains(
        fmt::format("{} (listed in {}, in no file)", name, file)))
        << outcome.err;
}

TEST_F(Coverage, TwoFilesHoldTheSameTensorWithDifferentBytes) {
  HfModel model = fixture("qwen3_moe");
  ASSERT_EQ(model.files.size(), 2u);
  model.files[0].tensors.push_back(model.at("model.norm.weight"));
  model.write(source_);
  // The copy is the last tensor of the first file.
  const std::string file = source_ + "/" + model.files[0].name;
  overwrite(file, fs::file_size(file) - 2, std::string("\x11\x11", 2));
  const Outcome outcome = mbc({"convert", source_, target_});
  EXPECT_EQ(outcome.status, 1);
  for (const std::string &word : {std::string("model.norm.weight"),
                                  model.files[0].name, model.files[1].name})
    EXPECT_TRUE(outcome.err.contains(word)) << outcome.err;
}

TEST_F(Coverage, ATensorThatNoRuleReads) {
  HfModel model = fixture("llama");
  model.add("model.layers.1.self_attn.sinks", "BF16", {8});
  expectFindings(model, {"model.layers.1.self_attn.sinks"});
}

// Each tensor in turn: a loss of any of them is found and named.
TEST_F(Coverage, AnyTensorThatIsMissingIsNamed) {
  for (const char *name : {"llama", "qwen3_moe", "glm_moe_dsa"}) {
    const HfModel model = fixture(name);
    std::vector<std::string> names;
    for (const auto &file : model.files)
      for (const auto &tensor : file.tensors)
        names.push_back(tensor.name);
    ASSERT_GT(names.size(), 5u);
    for (size_t i = 0; i < names.size(); i += names.size() / 6) {
      SCOPED_TRACE(names[i]);
      HfModel changed = model;
      changed.erase(names[i]);
      expectFindings(changed, {names[i]});
    }
  }
}

TEST_F(Coverage, AShapeThatContradictsTheConfig) {
  HfModel model = fixture("llama");
  model.at("model.layers.2.mlp.up_proj.weight").shape = {207, 112};
  expectFindings(model, {"model.layers.2.mlp.up_proj.weight", "207", "208"});
}

// The config of another model: whatever is wrong with it, findings and notes
// fit on a screen, and -v has them all.
TEST_F(Coverage, AWholeFamilyGoneWrongTakesThirtyLines) {
  for (const std::string &name : allFixtures()) {
    HfModel model = fixture(name);
    Json &text = model.config.contains("text_config")
                     ? model.config["text_config"]
                     : model.config;
    if (!text.contains("num_hidden_layers"))
      continue; // these have names of their own for all of it
    for (const char *field :
         {"hidden_size", "intermediate_size", "moe_intermediate_size",
          "num_hidden_layers", "vocab_size", "num_attention_heads"})
      if (text.contains(field) && text[field].is_number_integer())
        text[field] = 2 * text[field].get<int64_t>();
    const std::string findings = check(model);
    EXPECT_LE(std::count(findings.begin(), findings.end(), '\n'), 30)
        << name << "\n"
        << findings;
    EXPECT_GE(check(model, {"-v"}).size(), findings.size());
  }
}

TEST_F(Coverage, AnUntiedModelWithoutAHead) {
  HfModel model = fixture("qwen3_moe");
  model.erase("lm_head.weight");
  expectFindings(model, {"output_layer.weight", "lm_head.weight"});
}

TEST_F(Coverage, MoreLayersInTheConfigThanInTheFiles) {
  for (const int files : {2, 1}) {
    HfModel model = fixture("qwen2");
    for (auto &file : model.files)
      std::erase_if(file.tensors, [&](const auto &tensor) {
        return tensor.name.starts_with("model.layers.") &&
               tensor.name[13] - '0' >= files;
      });
    const std::string text = check(model);
    // As a range, not a line for each of twelve tensors a layer.
    EXPECT_LT(std::ranges::count(text, '\n'), 40) << text;
    EXPECT_TRUE(text.contains("2")) << text;
    EXPECT_TRUE(text.contains("config")) << text;
  }
}

TEST_F(Coverage, FewerLayersInTheConfigThanInTheFiles) {
  HfModel model = fixture("qwen2");
  model.config["num_hidden_layers"] = 1;
  const std::string text = check(model);
  EXPECT_LT(std::ranges::count(text, '\n'), 40) << text;
  EXPECT_TRUE(text.contains("config")) << text;
}

TEST_F(Coverage, AScaleIsMissingOrOfTheWrongShape) {
  const std::string scale =
      "model.layers.1.mlp.experts.3.up_proj.weight_scale_inv";
  HfModel model = fixture("deepseek_v3_fp8");
  model.erase(scale);
  expectFindings(model, {scale, "[2, 2]"}, {"--copies", "drop"});

  model = fixture("deepseek_v3_fp8");
  model.at(scale).shape = {1, 1};
  expectFindings(model, {scale, "[2, 2]", "[1, 1]"}, {"--copies", "drop"});
}

TEST_F(Coverage, HeadsThatDoNotDivideNameTheLegalSizes) {
  HfModel model = fixture("qwen2");
  model.config["num_attention_heads"] = 14;
  model.config["num_key_value_heads"] = 2;
  model.config["hidden_size"] = 28;
  for (auto &file : model.files)
    for (auto &tensor : file.tensors) {
      for (int64_t &extent : tensor.shape)
        if (extent == 96)
          extent = 28;
      if (tensor.name.contains("k_proj") || tensor.name.contains("v_proj"))
        tensor.shape[0] = 4;
    }
  expectFindings(model, {"14", "4", "1 and 2"}, {"--tp", "4"});
  expectFindings(model, {"7", "2", "1 and 2"}, {"--tp", "7"});
  EXPECT_EQ(convert(model, {"--tp", "2"}).status, 0);
}

TEST_F(Coverage, ExpertsThatDoNotDivideNameTheLegalSizes) {
  HfModel model = fixture("qwen3_moe");
  model.config["num_local_experts"] = 40;
  std::erase_if(model.files[0].tensors,
                [](const auto &t) { return t.name.contains(".experts."); });
  std::erase_if(model.files[1].tensors,
                [](const auto &t) { return t.name.contains(".experts."); });
  for (int layer = 0; layer != 3; ++layer) {
    const std::string mlp = fmt::format("model.layers.{}.mlp.", layer);
    model.at(mlp + "gate.weight").shape = {40, 80};
    for (int e = 0; e != 40; ++e) {
      const std::string expert = fmt::format("{}experts.{}.", mlp, e);
      model.add(expert + "gate_proj.weight", "BF16", {44, 80});
      model.add(expert + "up_proj.weight", "BF16", {44, 80});
      model.add(expert + "down_proj.weight", "BF16", {80, 44});
    }
  }
  expectFindings(model, {"40", "16", "1, 2, 4, 5, 8, 10, 20 and 40"},
                 {"--ep", "16"});
  EXPECT_EQ(convert(model, {"--ep", "8"}).status, 0);
}

// The warnings of a slip in a spec are worth something only if a sound one has
// none. What is said of arithmetic and of copies is true of these.
TEST_F(Coverage, NoShippedSpecIsWarnedOf) {
  for (const std::string &name : allFixtures()) {
    SCOPED_TRACE(name);
    fs::remove_all(source_);
    fixture(name).write(source_);
    const Outcome outcome = mbc({"check", source_, "--json"});
    EXPECT_EQ(outcome.status, 0);
    const Json report = Json::parse(outcome.out);
    for (const Json &finding : report["findings"]) {
      const std::string text = finding["text"];
      EXPECT_TRUE(text.contains("do not come back") ||
                  text.contains("repeat makes copies"))
          << text;
    }
  }
}

} // namespace
} // namespace mbc::test
