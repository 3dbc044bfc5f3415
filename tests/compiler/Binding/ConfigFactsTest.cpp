#include "compiler/Binding/ConfigFacts.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

TEST(ConfigFacts, TheElementTypeIsTheFirstKnownOne) {
  auto dtypeOf = [](std::string_view text) {
    return readConfigFacts(text, "config.json").value().dtype;
  };
  EXPECT_EQ(dtypeOf(R"({"torch_dtype": "float16"})"), DType::F16);
  EXPECT_EQ(dtypeOf(R"({"torch_dtype": "float16", "dtype": "float32"})"),
            DType::F32);
  EXPECT_EQ(dtypeOf(R"({"dtype": "torch.float16"})"), DType::F16);
  EXPECT_EQ(dtypeOf(R"({"dtype": null, "text_config": {"dtype": "float32"}})"),
            DType::F32);
  EXPECT_EQ(dtypeOf(R"({"dtype": "auto"})"), DType::BF16);
}

TEST(ConfigFacts, NamesAndBlockSizeAreRead) {
  ConfigFacts facts =
      readConfigFacts(
          R"({"architectures": ["A", "B"], "model_type": "m", "r": NaN,
              "quantization_config": {"quant_method": "fp8",
                                      "weight_block_size": [64, 32]}})",
          "config.json")
          .value();
  EXPECT_EQ(facts.architectures, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(facts.modelType, "m");
  ASSERT_TRUE(facts.quantization);
  EXPECT_EQ(facts.quantization->method, "fp8");
  EXPECT_EQ(facts.quantization->block, (std::array<int64_t, 2>{64, 32}));
}

TEST(ConfigFacts, TheGroupSizeIsThatOfAllGroups) {
  auto groupOf = [](const std::string &groups) {
    return readConfigFacts(R"({"text_config": {"quantization_config": {)"
                           R"("quant_method": "compressed-tensors",)"
                           R"("config_groups": {)" +
                               groups + "}}}}",
                           "config.json")
        .value()
        .quantization.value()
        .group;
  };
  const std::string a = R"("group_0": {"weights": {"group_size": 32}})",
                    b = R"("group_1": {"weights": {"group_size": 16}})",
                    none = R"("group_2": {"weights": null})";
  EXPECT_EQ(groupOf(a), 32);
  EXPECT_EQ(groupOf(a + "," + b), std::nullopt);
  EXPECT_EQ(groupOf(none), std::nullopt);
}

TEST(ConfigFacts, WhatAllGroupsSayOfWeights) {
  Quantization found = readConfigFacts(
                           R"({"quantization_config": {"config_groups": {
              "a": {"weights": {"num_bits": 4, "type": "int",
                    "symmetric": true, "strategy": "group",
                    "actorder": "weight", "block_structure": "8x8"}},
              "b": {"weights": {"num_bits": 8, "type": "int",
                    "symmetric": true, "strategy": "group",
                    "actorder": null}}}}})",
                           "config.json")
                           .value()
                           .quantization.value();
  EXPECT_EQ(found.bits, std::nullopt);
  EXPECT_EQ(found.type, "int");
  EXPECT_EQ(found.strategy, "group");
  EXPECT_EQ(found.actorder, "");
  EXPECT_EQ(found.symmetric, true);
  EXPECT_EQ(found.block, std::nullopt);
}

TEST(ConfigFacts, TheBlockOfAStrategy) {
  for (const char *block : {"[128, 64]", "\"128x64\""}) {
    std::string text =
        fmt::format("{{\"quantization_config\": {{\"config_groups\": {{\"a\": "
                    "{{\"weights\": {{\"strategy\": \"block\", "
                    "\"block_structure\": {}}}}}}}}}}}",
                    block);
    EXPECT_EQ(readConfigFacts(text, "c").value().quantization.value().block,
              (std::array<int64_t, 2>{128, 64}));
  }
}

TEST(ConfigFacts, ErrorsNameTheFile) {
  auto errorOf = [](std::string_view text) {
    return readConfigFacts(text, "hf/config.json").error().message;
  };
  EXPECT_EQ(errorOf("{\"a\": 1,\n]"),
            "hf/config.json, line 2, column 1: a field name in quotes was "
            "expected");
  EXPECT_EQ(errorOf("[1]"), "hf/config.json does not hold an object");
  EXPECT_EQ(
      errorOf(R"({"quantization_config": {"weight_block_size": [0, 1.5]}})"),
      "hf/config.json: quantization_config.weight_block_size is [0, 1.5]; two "
      "positive integers are expected");
}

} // namespace
} // namespace mbc::compiler
