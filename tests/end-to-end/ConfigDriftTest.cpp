#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

// config.json as people find it: of another model, of another level, with
// numbers that JSON does not have, and back again as it was.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

class ConfigDrift : public testing::Test {
protected:
  Outcome check(const HfModel &model) {
    write(model);
    return mbc({"check", scratch_ / "hf"});
  }

  void write(const HfModel &model) {
    for (const char *folder : {"hf", "mg", "back"})
      fs::remove_all(scratch_ / folder);
    model.write(scratch_ / "hf");
  }

  /// The text of config.json, there and back.
  std::string thereAndBack(const std::string &text) {
    writeText(scratch_ / "hf/config.json", text);
    const Outcome there = mbc({"convert", scratch_ / "hf", scratch_ / "mg"});
    EXPECT_EQ(there.status, 0) << there.err;
    said_ = there.err;
    const Outcome back = mbc({"convert", scratch_ / "mg", scratch_ / "back"});
    EXPECT_EQ(back.status, 0) << back.err;
    said_ += back.err;
    return readText(scratch_ / "back/config.json");
  }

  static std::string replaced(std::string text, const std::string &old,
                              const std::string &with) {
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return at == std::string::npos ? text : text.replace(at, old.size(), with);
  }

  /// The pickled value behind a name in the arguments of a torch_dist, past
  /// the place where the pickle keeps the name.
  std::string argument(const std::string &name, size_t bytes) const {
    const std::string file = readText(scratch_ / "mg/release/common.pt");
    const size_t at = file.find(name);
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? ""
                                   : file.substr(at + name.size() + 2, bytes);
  }

  Scratch scratch_;
  std::string said_;
};

TEST_F(ConfigDrift, EveryFieldComesBackAsItWasWritten) {
  HfModel model = fixture("glm_moe_dsa");
  model.config["max_position_embeddings"] = 1048576;
  model.config["rope_parameters"]["rope_theta"] = 8000000.5;
  write(model);
  const std::string text =
      replaced(model.config.dump(1), "{\n",
               "{\n \"x_vendor\": {\"a\": [1, 2.50, null]},\n"
               " \"x_large\": 100000000000000001,\n");
  EXPECT_EQ(thereAndBack(text), text);
  EXPECT_TRUE(said_.contains("x_vendor, x_large are read by nothing")) << said_;
  // What does not fit a float keeps its last digit on the way, too.
  EXPECT_EQ(argument("max_position_embeddings", 5),
            std::string("J\x00\x00\x10\x00", 5));
}

TEST_F(ConfigDrift, OnlyTheQuantisationLeavesWithTheScales) {
  const HfModel model = fixture("glm_moe_dsa_fp8");
  write(model);
  Json back = Json::parse(thereAndBack(model.config.dump(1)));
  EXPECT_TRUE(said_.contains("quantization_config is removed")) << said_;
  Json expected = model.config;
  expected.erase("quantization_config");
  EXPECT_EQ(back, expected);
}

// A window of 4 is the query's own position and three before it.
TEST_F(ConfigDrift, AWindowCountsTheQueryItselfInHuggingFaceOnly) {
  for (const char *name : {"mistral", "gpt_oss"}) {
    SCOPED_TRACE(name);
    HfModel model = fixture(name);
    model.config["sliding_window"] = 4;
    write(model);
    EXPECT_EQ(Json::parse(thereAndBack(model.config.dump(1))), model.config);
    // The list (3, 0).
    EXPECT_EQ(argument("window_size", 7), std::string("](K\x03K\x00"
                                                      "e",
                                                      7));
    model.config["sliding_window"] = nullptr;
    write(model);
    EXPECT_EQ(Json::parse(thereAndBack(model.config.dump(1))), model.config);
    EXPECT_EQ(argument("window_size", 1), "N");
  }
}

// Gemma's modules in Megatron-Bridge take one from the number themselves.
TEST_F(ConfigDrift, EveryFamilysWindowIsMegatrons) {
  const std::string list("](K\x03K\x00"
                         "e",
                         7),
      number("K\x04", 2);
  const std::tuple<const char *, const char *, std::string> cases[] = {
      {"gemma2", "/sliding_window", list},
      {"exaone4", "/sliding_window", list},
      {"exaone_moe", "/sliding_window", list},
      {"mixtral", "/sliding_window", list},
      {"mistral3", "/text_config/sliding_window", list},
      {"mimo_v2_flash", "/sliding_window_size", list},
      {"step3p5", "/sliding_window", list},
      {"gemma3", "/sliding_window", number},
      {"gemma4", "/sliding_window", number}};
  for (const auto &[name, field, window] : cases) {
    SCOPED_TRACE(name);
    HfModel model = fixture(name);
    model.config[Json::json_pointer(field)] = 4;
    write(model);
    const Outcome there = mbc({"convert", scratch_ / "hf", scratch_ / "mg"});
    ASSERT_EQ(there.status, 0) << there.err;
    EXPECT_EQ(argument("window_size", window.size()), window);
  }
}

TEST_F(ConfigDrift, ArchitecturesThatAreNoneOfOursLeadToTheModelType) {
  HfModel model = fixture("llama");
  const std::pair<Json, const char *> cases[] = {
      {{"LlamaModel"}, "[LlamaModel]"},
      {Json::array(), "[]"},
      {nullptr, "[]"},
      {{"LlamaForCausalLm"}, "[LlamaForCausalLm]"}};
  for (const auto &[architectures, shown] : cases) {
    model.config["architectures"] = architectures;
    const Outcome outcome = check(model);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.contains(
        std::string("note: architectures is ") + shown +
        "; the spec llama was found by model_type \"llama\""))
        << outcome.err;
  }
  model.config["architectures"] = {"LlamaForCausalLM", "Other"};
  const Outcome outcome = check(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("[LlamaForCausalLM, Other]")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("--spec FILE")) << outcome.err;
}

// Two specs have the type: that of the usual class, and one with a head of
// labels.
TEST_F(ConfigDrift, TheModelTypeLeadsToTheUsualClass) {
  HfModel model = fixture("qwen3_5_vl");
  model.config["architectures"] = {"Qwen3_5Model"};
  const Outcome outcome = check(model);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("the spec qwen3_5_vl was found by"))
      << outcome.err;
}

TEST_F(ConfigDrift, PythonsNumbersStayAndCountForNothingElse) {
  const HfModel model = fixture("llama");
  const std::string text = model.config.dump(1);
  const std::pair<std::string, std::string> fields[] = {
      {"\"initializer_range\": 0.02", "\"initializer_range\": NaN"},
      {"\"rope_theta\": 10000.0", "\"rope_theta\": Infinity"}};
  for (const auto &[field, strange] : fields) {
    write(model);
    const std::string changed = replaced(text, field, strange);
    EXPECT_EQ(thereAndBack(changed), changed);
    EXPECT_TRUE(said_.contains("its args say None")) << said_;
  }
  write(model);
  writeText(scratch_ / "hf/config.json",
            replaced(text, "\"num_key_value_heads\": 2",
                     "\"num_key_value_heads\": NaN"));
  const Outcome outcome = mbc({"check", scratch_ / "hf"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("num_key_value_heads (NaN)")) << outcome.err;
}

// Megatron would build another model than the weights are of.
TEST_F(ConfigDrift, ASizeThatNoTensorHasIsRefused) {
  struct Case {
    const char *fixture, *field;
    int64_t value;
    std::string said, tensor;
  };
  const Case cases[] = {
      {"llama", "/hidden_size", 64, "hidden_size is 64, but ",
       "model.embed_tokens.weight has shape [500, 112]"},
      {"qwen3_moe", "/hidden_size", 79, "hidden_size is 79, but ",
       "model.embed_tokens.weight has shape [500, 80]"},
      {"glm5_next", "/text_config/index_head_dim", 31,
       "dsa_indexer_head_dim is 31, but ", "has shape [32"},
      {"deepseek_v3", "/kv_lora_rank", 47, "kv_lora_rank is 47, but ",
       "kv_b_proj.weight has shape [160, 48]"},
      {"deepseek_v3", "/v_head_dim", 44,
       "num_attention_heads*qk_head_dim + num_attention_heads*v_head_dim is "
       "248, but ",
       "kv_b_proj.weight has shape [160, 48]"},
      {"deepseek_v3", "/q_lora_rank", 57, "q_lora_rank is 57, but ",
       "q_a_proj.weight has shape [56, 96]"},
      {"nemotron_h", "/moe_intermediate_size", 37,
       "gates*moe_ffn_hidden_size is 37, but ",
       "up_proj.weight has shape [36, 88]"},
  };
  for (const Case &sample : cases) {
    SCOPED_TRACE(std::string(sample.fixture) + sample.field);
    HfModel model = fixture(sample.fixture);
    model.config[Json::json_pointer(sample.field)] = sample.value;
    std::string path = std::string(sample.field).substr(1);
    std::ranges::replace(path, '/', '.');
    write(model);
    const Outcome outcome = mbc({"check", scratch_ / "hf", "--copies", "drop"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(outcome.err.contains("error: Megatron's " + sample.said))
        << outcome.err;
    EXPECT_TRUE(outcome.err.contains(sample.tensor)) << outcome.err;
    EXPECT_TRUE(outcome.err.contains(path + " " + std::to_string(sample.value)))
        << outcome.err;
    EXPECT_TRUE(outcome.err.contains("; correct config.json (")) << outcome.err;
  }
}

// Numbers that cannot be computed with name their fields.
TEST_F(ConfigDrift, HeadsThatDoNotFitNameTheirFields) {
  struct Case {
    const char *field;
    Json value;
    std::string said;
  };
  const Case cases[] = {
      {"/num_key_value_heads", 3,
       "8 does not divide by 3: 2 is left over; correct config.json "
       "(num_attention_heads 8, num_key_value_heads 3) or the spec"},
      {"/num_key_value_heads", 0,
       "8 is divided by 0; correct config.json (num_attention_heads 8, "
       "num_key_value_heads 0) or the spec"},
      {"/num_key_value_heads", "2", "num_key_value_heads (\"2\")"},
      {"/num_attention_heads", 0, "num_attention_heads 0"},
      {"/head_dim", 13,
       "q_proj.weight has shape [96, 112], but the spec gives it 104 along "
       "dimension 0; correct config.json ("},
      {"/num_hidden_layers", -1,
       "a count is needed here, not -1; correct config.json "
       "(num_hidden_layers -1) or the spec"},
  };
  for (const Case &sample : cases) {
    SCOPED_TRACE(sample.said);
    HfModel model = fixture("llama");
    model.config[Json::json_pointer(sample.field)] = sample.value;
    const Outcome outcome = check(model);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(outcome.err.contains(sample.said)) << outcome.err;
  }
  HfModel model = fixture("qwen3_moe");
  model.config["num_experts_per_tok"] = 7;
  const Outcome outcome = check(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(
      "Megatron's moe_router_topk 7 is more than there are of num_experts 6; "
      "correct config.json (num_experts_per_tok 7, num_local_experts 6) or the "
      "spec"))
      << outcome.err;
}

// Megatron would read these only when it trains.
TEST_F(ConfigDrift, ANumberOfAnotherKindIsRefused) {
  struct Case {
    const char *field;
    Json value;
    std::string said;
  };
  const Case cases[] = {
      {"/rms_norm_eps", "1e-6", "norm_epsilon would be \"1e-6\""},
      {"/rms_norm_eps", -1e-6, "norm_epsilon would be -1e-06"},
      {"/rms_norm_eps", true, "norm_epsilon would be true"},
      {"/rope_parameters/rope_theta", "10000",
       "rotary_base would be \"10000\""},
  };
  for (const Case &sample : cases) {
    SCOPED_TRACE(sample.said);
    HfModel model = fixture("llama");
    model.config[Json::json_pointer(sample.field)] = sample.value;
    const Outcome outcome = check(model);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(outcome.err.contains("Megatron's " + sample.said +
                                     ", and has to be a number above 0"))
        << outcome.err;
  }
}

TEST_F(ConfigDrift, AByteOrderMarkIsReadAndATrailingCommaIsShown) {
  const HfModel model = fixture("llama");
  write(model);
  const std::string text = model.config.dump(1);
  writeText(scratch_ / "hf/config.json", "\xef\xbb\xbf" + text);
  EXPECT_EQ(mbc({"check", scratch_ / "hf"}).status, 0);
  writeText(scratch_ / "hf/config.json", replaced(text, "\n}", ",\n}"));
  const Outcome outcome = mbc({"check", scratch_ / "hf"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("config.json, line ")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains(", column 1")) << outcome.err;
}

// A range, not a line a tensor, and what it may mean.
TEST_F(ConfigDrift, LayersTooManyOrTooFewAreARange) {
  HfModel model = fixture("qwen2");
  model.config["num_hidden_layers"] = 5;
  const std::string both =
      "config.json and the files may belong to different models";
  Outcome outcome = check(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("all of them are in layers 3 to 4: " + both))
      << outcome.err;
  model.config["num_hidden_layers"] = 1;
  outcome = check(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("all of them are in layers 1 to 2: " + both))
      << outcome.err;
}

// The text's own part gives its geometry, the whole model the tie of its head.
TEST_F(ConfigDrift, NestedPartsAndTheTopThatContradictAreBothSaid) {
  for (const char *name : {"qwen3_vl", "glm4v", "mistral3"}) {
    SCOPED_TRACE(name);
    HfModel model = fixture(name);
    ASSERT_FALSE(model.config.value("tie_word_embeddings", false));
    model.config["tie_word_embeddings"] = false;
    model.config["text_config"]["tie_word_embeddings"] = true;
    model.config["hidden_size"] = 32;
    const std::string width = model.config["text_config"]["hidden_size"].dump();
    const Outcome outcome = check(model);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.contains("hidden_size is 32, text_config.hidden_"
                                     "size is " +
                                     width + "; the second is used"))
        << outcome.err;
    EXPECT_TRUE(outcome.err.contains(
        "tie_word_embeddings is false, text_config.tie_word_embeddings is "
        "true; the first is used"))
        << outcome.err;
    // The head is there and is read.
    const Outcome done = mbc({"convert", scratch_ / "hf", scratch_ / "mg"});
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_TRUE(
        mbc({"ls", scratch_ / "mg"}).out.contains("output_layer.weight"));
  }
}

// The weights are the same; what Megatron computes with them is not.
TEST_F(ConfigDrift, WhatMegatronComputesOtherwiseIsSaid) {
  struct Case {
    const char *fixture, *field;
    Json value;
    std::string note;
  };
  const std::string scores = "but Megatron divides the scores of the chosen "
                             "experts by their sum";
  const std::string silu = "but Megatron's swiglu takes the gate through silu";
  const std::string rope =
      "but Megatron has no such rotary positions, and takes them unscaled";
  const std::string plain =
      "but Megatron's feed-forward without a gate has relu2 or gelu";
  const std::string mixer =
      "but Megatron's Mamba mixer takes its convolution through silu";
  const Case cases[] = {
      {"deepseek_v3", "/norm_topk_prob", false, scores},
      {"kimi_k25", "/text_config/norm_topk_prob", false, scores},
      {"glm4_moe", "/norm_topk_prob", false, scores},
      {"glm5_next", "/text_config/norm_topk_prob", false, scores},
      {"deepseek_v4", "/norm_topk_prob", false, scores},
      {"deepseek_v41", "/text_config/norm_topk_prob", false, scores},
      {"nemotron_h", "/norm_topk_prob", false, scores},
      {"step3p5", "/norm_expert_weight", false, scores},
      {"kimi_k3", "/text_config/moe_renormalize", false, scores},
      {"kimi_k3", "/text_config/hidden_act", "situ", silu},
      {"llama", "/hidden_act", "gelu", silu},
      {"llama", "/rope_parameters/rope_type", "dynamic", rope},
      {"qwen3_moe", "/rope_parameters/rope_type", "longrope", rope},
      {"qwen3_vl", "/text_config/hidden_act", "relu", silu},
      {"llada", "/activation_type", "gelu", silu},
      {"gemma", "/hidden_act", "silu",
       "but Megatron takes the gate through fast_gelu, gelu_pytorch_tanh"},
      {"gemma4", "/hidden_activation", "silu",
       "but Megatron takes the gate through fast_gelu, gelu_pytorch_tanh"},
      {"nemotron", "/hidden_act", "silu", plain},
      {"nemotron_h", "/mlp_hidden_act", "silu", plain},
      {"nemotron_h", "/mamba_hidden_act", "gelu", mixer},
      {"nemotron_vl", "/llm_config/mamba_hidden_act", "gelu", mixer},
  };
  for (const Case &sample : cases) {
    SCOPED_TRACE(std::string(sample.fixture) + sample.field);
    HfModel model = fixture(sample.fixture);
    model.config[Json::json_pointer(sample.field)] = sample.value;
    std::string path = std::string(sample.field).substr(1);
    std::ranges::replace(path, '/', '.');
    const Outcome outcome = check(model);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.contains("note: config.json: " + path + " is " +
                                     sample.value.dump() + ", " + sample.note))
        << outcome.err;
    // Of the weights nothing is wrong.
    EXPECT_FALSE(outcome.err.contains("gate and up here")) << outcome.err;
  }
}

// One expert's score is divided by nothing, and a softmax has its own argument.
TEST_F(ConfigDrift, ScoresThatMegatronLeavesAsTheyAreNeedNoNote) {
  HfModel one = fixture("glm4_moe");
  one.config["norm_topk_prob"] = false;
  one.config["num_experts_per_tok"] = 1;
  HfModel softmax = fixture("qwen3_moe");
  softmax.config["norm_topk_prob"] = false;
  for (const HfModel &model : {one, softmax}) {
    const Outcome outcome = check(model);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_FALSE(outcome.err.contains("norm_topk_prob")) << outcome.err;
  }
}

// Training with another base of the rotary positions, say, leaves weights that
// need it, and an export writes config.json as it was.
TEST_F(ConfigDrift, ArgumentsThatTrainingChangedAreNamed) {
  HfModel model = fixture("mistral");
  model.config["sliding_window"] = 8;
  model.config["rope_parameters"]["rope_theta"] = 1000000.0;
  write(model);
  const std::string trained = model.config.dump(1);
  thereAndBack(trained);
  EXPECT_FALSE(said_.contains("warning")) << said_;
  // A seq_length is that of a run, and no matter.
  model.config["max_position_embeddings"] = 131072;
  model.config["sliding_window"] = 4;
  model.config["rope_parameters"]["rope_theta"] = 10000.0;
  fs::create_directories(scratch_ / "other");
  writeText(scratch_ / "other/config.json", model.config.dump(1));
  const Outcome outcome = mbc({"convert", scratch_ / "mg", scratch_ / "back",
                               "--force", "--hf-config", scratch_ / "other"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char *text :
       {"has rotary_base 1000000.0, and config.json gives 10000.0",
        "has window_size [7,0], and config.json gives [3,0]",
        "has max_position_embeddings 32768, and config.json gives 131072"})
    EXPECT_TRUE(outcome.err.contains(text)) << outcome.err;
  EXPECT_FALSE(outcome.err.contains("seq_length 32768")) << outcome.err;
}

/// A torch_dist without anything of ours: what is left is Megatron's own.
TEST_F(ConfigDrift, APlainCheckpointIsReadWithTheConfigGiven) {
  const HfModel model = fixture("qwen3");
  write(model);
  ASSERT_EQ(mbc({"convert", scratch_ / "hf", scratch_ / "mg"}).status, 0);
  fs::remove_all(scratch_ / "mg/release/mbc");
  Outcome outcome = mbc({"convert", scratch_ / "mg", scratch_ / "back"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("--hf-config DIR")) << outcome.err;
  outcome = mbc({"convert", scratch_ / "mg", scratch_ / "back", "--hf-config",
                 scratch_ / "hf"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

} // namespace
} // namespace mbc::test
