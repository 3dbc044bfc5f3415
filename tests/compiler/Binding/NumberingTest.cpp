#include "compiler/Binding/Numbering.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

/// A model of one rule with these names, and what is said of it.
std::string findings(std::vector<dsl::RuleInstance> instances,
                     int64_t layers = 2, int64_t experts = 2) {
  dsl::Model model;
  model.name = "tiny";
  model.layers = layers;
  model.experts = experts;
  model.mappings.resize(1);
  model.instances = std::move(instances);
  dsl::Diagnostics diagnostics;
  checkNumbering(model, diagnostics);
  std::string text;
  for (const dsl::Diagnostic &entry : diagnostics.all())
    text += entry.text + "\n";
  return text;
}

dsl::RuleInstance layer(int megatron, int hf) {
  return {0,
          {"decoder.layers." + std::to_string(megatron) + ".mlp.a"},
          {"layers." + std::to_string(hf) + ".a"}};
}

dsl::RuleInstance expert(int megatron, int hf) {
  return {0,
          {"decoder.layers.0.mlp.experts.linear_fc1.weight" +
           std::to_string(megatron)},
          {"layers.0.experts." + std::to_string(hf) + ".up.weight"}};
}

TEST(Numbering, OrderIsKept) {
  EXPECT_EQ(findings({layer(0, 0), layer(1, 1)}), "");
  EXPECT_EQ(findings({layer(0, 0), layer(1, 5)}), ""); // gaps are no matter
  EXPECT_TRUE(findings({layer(0, 1), layer(1, 0)}).contains("turns around"));
  // 10 comes after 9, not after 1.
  EXPECT_EQ(findings({layer(9, 9), layer(10, 10)}, 0, 0).find("turns"),
            std::string::npos);
}

TEST(Numbering, ExpertsKeepTheirOrder) {
  EXPECT_EQ(findings({expert(0, 0), expert(1, 1)}, 1), "");
  EXPECT_TRUE(
      findings({expert(0, 1), expert(1, 0)}, 1).contains("turns around"));
}

TEST(Numbering, ARangeInsideARuleKeepsItsOrder) {
  auto stack = [](const char *first, const char *second) {
    return dsl::RuleInstance{
        0,
        {std::string("decoder.layers.0.mlp.experts.linear_fc1.") + first,
         std::string("decoder.layers.0.mlp.experts.linear_fc1.") + second},
        {"layers.0.experts.up"}};
  };
  EXPECT_EQ(findings({stack("weight0", "weight1")}, 1), "");
  EXPECT_TRUE(findings({stack("weight1", "weight0")}, 1).contains("turns"));
}

TEST(Numbering, LayersAndExpertsAreThoseOfTheModel) {
  std::string text = findings({layer(0, 0), layer(1, 1), layer(2, 2)});
  EXPECT_TRUE(text.contains("decoder.layers.2.mlp.a")) << text;
  EXPECT_TRUE(text.contains("2 decoder layers")) << text;
  text = findings({expert(1, 0), expert(2, 1)}, 1);
  EXPECT_TRUE(text.contains("weight2")) << text;
  EXPECT_TRUE(text.contains("2 experts")) << text;
  text = findings({layer(0, 0)});
  EXPECT_TRUE(text.contains("no rule gives layer 1")) << text;
}

TEST(Numbering, MtpLayersAreCountedFromZero) {
  auto mtp = [](int number) {
    return dsl::RuleInstance{0,
                             {"mtp.layers." + std::to_string(number) + ".a"},
                             {"layers." + std::to_string(number + 7) + ".a"}};
  };
  EXPECT_EQ(findings({mtp(0), mtp(1)}, 0), "");
  EXPECT_TRUE(findings({mtp(1)}, 0).contains("none mtp.layers.0"));
}

} // namespace
} // namespace mbc::compiler
