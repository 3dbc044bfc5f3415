#include "compiler/Binding/MegatronFacts.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

/// A model with one parameter a rule, with shapes, and Megatron's arguments.
class Facts : public testing::Test {
protected:
  Facts() {
    model.name = "tiny";
    model.megatron = "GPTModel";
    model.layers = 1;
    set("num_layers", int64_t{1});
    set("hidden_size", int64_t{8});
    set("num_attention_heads", int64_t{4});
    set("kv_channels", int64_t{3});
    set("ffn_hidden_size", int64_t{20});
    set("swiglu", true);
    // What the checks of other arguments need.
    set("position_embedding_type", "rope");
    set("normalization", "RMSNorm");
    for (const char *name :
         {"init_method_std", "attention_dropout", "hidden_dropout"})
      set(name, 0.0);
    for (const char *name : {"add_bias_linear", "add_qkv_bias",
                             "untie_embeddings_and_output_weights"})
      set(name, false);
    for (const char *name : {"max_position_embeddings", "seq_length",
                             "norm_epsilon", "layernorm_epsilon"})
      set(name, int64_t{1});
  }

  void set(const std::string &name, dsl::Value value) {
    std::erase_if(model.config,
                  [&](const auto &field) { return field.name == name; });
    model.config.push_back({name, std::move(value), {}, {}});
  }

  void add(const std::string &name, Shape shape, dsl::ShardKind kind,
           const std::string &hf = "source.weight") {
    dsl::Mapping mapping;
    mapping.shard.kind = kind;
    rules.push_back({name, hf, shape, mapping});
  }

  /// The warnings, one a line; `withState`: extra_state names all modules.
  std::string findings(bool withState = true) {
    const dsl::Diagnostics diagnostics = check(withState);
    EXPECT_FALSE(diagnostics.hasErrors());
    return textOf(diagnostics, dsl::Severity::Warning);
  }

  std::string errors() { return textOf(check(true), dsl::Severity::Error); }

  static std::string textOf(const dsl::Diagnostics &diagnostics,
                            dsl::Severity severity) {
    std::string text;
    for (const dsl::Diagnostic &entry : diagnostics.all())
      if (entry.severity == severity)
        text += entry.text + "\n";
    return text;
  }

  dsl::Diagnostics check(bool withState) {
    Binding binding;
    model.mappings.clear();
    model.instances.clear();
    for (const Rule &rule : rules)
      model.mappings.push_back(rule.mapping);
    for (uint32_t i = 0; i != rules.size(); ++i) {
      model.instances.push_back({i, {rules[i].name}, {rules[i].hf}});
      BoundClass bound;
      bound.type.mapping = &model.mappings[i];
      OperandType operand;
      operand.shape = rules[i].shape;
      bound.type.megatron.push_back(operand);
      bound.type.hf.push_back(operand);
      bound.instances.push_back(i);
      binding.classes.push_back(bound);
      if (withState)
        model.extraStates.push_back(
            {rules[i].name.substr(0, rules[i].name.rfind('.')), 0});
    }
    dsl::Diagnostics diagnostics;
    checkMegatronFacts(model, binding, diagnostics);
    return diagnostics;
  }

  struct Rule {
    std::string name, hf;
    Shape shape;
    dsl::Mapping mapping;
  };
  std::vector<Rule> rules;
  dsl::Model model;
};

const std::string proj = "decoder.layers.0.self_attention.linear_proj.weight";
const std::string fc1 = "decoder.layers.0.mlp.linear_fc1.weight";

TEST_F(Facts, WhatAgreesIsNotMentioned) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);  // 4 heads of 3
  add(fc1, Shape{40, 8}, dsl::ShardKind::Gated); // gate and up, 20 each
  EXPECT_EQ(findings(), "");
}

TEST_F(Facts, ANumberThatIsNone) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);
  const auto listOf = [](std::initializer_list<dsl::Value> values) {
    return std::make_shared<const dsl::ValueList>(values);
  };
  const dsl::Value bad[] = {"10000", int64_t{0}, -1.0, true,
                            listOf({int64_t{10000}, "10000"})};
  for (const dsl::Value &value : bad) {
    set("rotary_base", value);
    EXPECT_TRUE(errors().contains("rotary_base would be")) << errors();
  }
  set("rotary_base", listOf({int64_t{10000}, 1e6}));
  EXPECT_EQ(findings(), "");
}

TEST_F(Facts, ANumberOfAnotherKind) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);
  struct Case {
    const char *name;
    dsl::Value bad, good;
    const char *said;
  };
  const Case cases[] = {
      {"hidden_size", 8.0, int64_t{8}, "a whole number above 0"},
      {"num_attention_heads", int64_t{0}, int64_t{4}, "a whole number above 0"},
      {"moe_shared_expert_intermediate_size", int64_t{-1}, int64_t{0},
       "a whole number, 0 or more"},
      {"norm_epsilon", "1e-6", int64_t{1}, "a number above 0"},
      {"init_method_std", -0.1, 0.0, "a number, 0 or more"},
      {"hidden_dropout", true, 0.0, "a number"},
      {"qk_l2_norm", int64_t{1}, false, "true or false"},
      {"normalization", false, "RMSNorm", "a word"}};
  for (const Case &sample : cases) {
    SCOPED_TRACE(sample.name);
    set(sample.name, sample.bad);
    model.config.back().configFields = "field 7";
    const std::string text = errors();
    EXPECT_TRUE(text.contains(sample.name)) << text;
    EXPECT_TRUE(text.contains(std::string(", and has to be ") + sample.said +
                              "; correct config.json (field 7) or the spec\n"))
        << text;
    set(sample.name, sample.good);
    EXPECT_EQ(errors(), "");
  }
  set("hidden_size", std::monostate());
  EXPECT_TRUE(errors().contains("hidden_size would be null")) << errors();
}

TEST_F(Facts, MoreThanThereIs) {
  const auto expect = [&](const char *one, int64_t first, const char *other,
                          int64_t second, const std::string &said) {
    set(one, first);
    set(other, second);
    EXPECT_EQ(errors(), said);
    set(one, second);
    EXPECT_EQ(errors(), "");
  };
  expect("moe_router_topk", 7, "num_experts", 6,
         "Megatron's moe_router_topk 7 is more than there are of num_experts "
         "6\n");
  expect("moe_router_group_topk", 3, "moe_router_num_groups", 2,
         "Megatron's moe_router_group_topk 3 is more than there are of "
         "moe_router_num_groups 2\n");
  set("num_query_groups", int64_t{3});
  EXPECT_EQ(errors(), "Megatron's num_attention_heads 4 does not divide by "
                      "num_query_groups 3\n");
}

TEST_F(Facts, ANumberThatNoTensorHas) {
  add("decoder.final_layernorm.weight", Shape{12}, dsl::ShardKind::Replicated,
      "model.norm.weight");
  EXPECT_EQ(errors(), "Megatron's hidden_size is 8, but decoder."
                      "final_layernorm.weight has 12 along dimension 0, as "
                      "model.norm.weight has shape [12]\n");
  // One that has it is enough: layers may differ.
  add(fc1, Shape{40, 8}, dsl::ShardKind::Gated);
  EXPECT_EQ(errors(), "");
}

TEST_F(Facts, NamesThatContradictOneAnother) {
  const std::string mtp = "mtp.layers.0.", block = "vision.layers.0.";
  add(mtp + "hnorm.weight", Shape{8}, dsl::ShardKind::Replicated,
      "model.layers.1.shared_head.norm.weight");
  add(mtp + "enorm.weight", Shape{8}, dsl::ShardKind::Replicated,
      "model.layers.1.enorm.weight");
  add(block + "self_attention.linear_qkv.layer_norm_weight", Shape{8},
      dsl::ShardKind::Replicated, "blocks.0.norm2.weight");
  add(proj, Shape{8, 12}, dsl::ShardKind::Row, "o_proj.bias");
  set("mtp_num_layers", int64_t{1});
  const std::string text = findings();
  EXPECT_TRUE(text.contains("hnorm.weight is read from model.layers.1.shared_"
                            "head.norm.weight: two norms have changed places"))
      << text;
  EXPECT_FALSE(text.contains("enorm.weight is read")) << text;
  EXPECT_TRUE(text.contains("blocks.0.norm2.weight: two norms")) << text;
  EXPECT_TRUE(text.contains(proj + " is read from o_proj.bias: a weight from a "
                                   "bias"))
      << text;
}

TEST_F(Facts, AShardThatMegatronDoesNotHave) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Column);
  EXPECT_EQ(findings(),
            proj +
                " is cut by rows here, and cut by columns by the name of its "
                "module in Megatron (runtime/MegatronShards.cpp)\n");
}

TEST_F(Facts, AGatedFeedForwardIsGated) {
  add(fc1, Shape{40, 8}, dsl::ShardKind::Column);
  EXPECT_TRUE(findings().contains("cut as gate and up"));
}

TEST_F(Facts, AShapeThatTheArgumentsDoNotGive) {
  add(proj, Shape{12, 8}, dsl::ShardKind::Row);
  add(fc1, Shape{40, 8}, dsl::ShardKind::Gated);
  std::string text = findings();
  EXPECT_TRUE(text.contains("has shape [12, 8]")) << text;
  EXPECT_TRUE(text.contains("hidden_size = 8")) << text;
  EXPECT_TRUE(text.contains("num_attention_heads*kv_channels = 12")) << text;
}

TEST_F(Facts, APlaceThatMegatronDoesNotHave) {
  add("decoder.layers.0.linear_proj.weight", Shape{8, 12}, dsl::ShardKind::Row);
  add("decoder.layers.0.self_attention.linear_fc1.weight", Shape{40, 8},
      dsl::ShardKind::Gated);
  EXPECT_TRUE(findings().contains("Megatron has no linear_fc1.weight at this "
                                  "place"));
}

TEST_F(Facts, AStageThatMegatronDoesNotHave) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);
  rules.back().mapping.stage = dsl::Stage::First;
  add("decoder.final_layernorm.weight", Shape{8}, dsl::ShardKind::Replicated);
  std::string text = findings();
  EXPECT_TRUE(text.contains(proj + " is on the first stage here; Megatron "
                                   "holds it on its layer's stage"))
      << text;
  EXPECT_TRUE(text.contains("on the last stage")) << text;
}

TEST_F(Facts, AModuleWithoutItsByteObject) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);
  EXPECT_TRUE(findings(false).contains(
      "a byte object of decoder.layers.0.self_attention.linear_proj"));
}

TEST_F(Facts, ArgumentsThatContradictTheParameters) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);
  set("untie_embeddings_and_output_weights", true); // and no output_layer
  set("num_layers", int64_t{2});
  std::string text = findings();
  EXPECT_TRUE(text.contains("untie_embeddings_and_output_weights is 1 here"))
      << text;
  EXPECT_TRUE(text.contains("num_layers is 2 here, and should be 1")) << text;
}

TEST_F(Facts, ArgumentsThatNobodySets) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);
  std::erase_if(model.config, [](const auto &field) {
    return field.name == "normalization";
  });
  EXPECT_TRUE(findings().contains("does not set normalization"));
}

TEST_F(Facts, AVocabularyThatMegatronPadsOtherwise) {
  add(proj, Shape{8, 12}, dsl::ShardKind::Row);
  model.vocabMultiple = 129;
  EXPECT_TRUE(findings().contains("129"));
}

TEST_F(Facts, NormsThatHaveChangedPlaces) {
  add("decoder.layers.0.pre_mlp_layernorm.weight", Shape{8},
      dsl::ShardKind::Replicated, "layers.0.input_layernorm.weight");
  EXPECT_TRUE(findings().contains("have changed places"));
}

} // namespace
} // namespace mbc::compiler
