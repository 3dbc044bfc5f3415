#include "compiler/Binding/FindSpec.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

struct Found {
  std::string spec, findings;
  std::vector<std::string> notes;
};

Found find(std::vector<std::string> architectures, std::string modelType) {
  ConfigFacts config;
  config.architectures = std::move(architectures);
  config.modelType = std::move(modelType);
  dsl::Diagnostics diagnostics;
  Found found;
  found.spec = std::filesystem::path(
                   findSpec(config, MBC_SPECS, found.notes, diagnostics))
                   .stem();
  for (const dsl::Diagnostic &entry : diagnostics.all())
    found.findings += entry.text;
  return found;
}

// Dots and Llama are called otherwise than their specs' files.
TEST(FindSpec, ByArchitecture) {
  EXPECT_EQ(find({"LlamaForCausalLM"}, "something").spec, "llama");
  EXPECT_EQ(find({"Dots1ForCausalLM"}, "dots1").spec, "glm4_moe");
}

TEST(FindSpec, ByModelTypeWithANote) {
  Found found = find({}, "llama");
  EXPECT_EQ(found.spec, "llama");
  EXPECT_EQ(found.notes.size(), 1u);
}

// transformers saves Sarvam's models under GLM's class.
TEST(FindSpec, OneArchitectureOfTwoFamiliesNeedsItsModelType) {
  EXPECT_EQ(find({"Glm4MoeForCausalLM"}, "glm4_moe").spec, "glm4_moe");
  EXPECT_EQ(find({"Glm4MoeForCausalLM"}, "sarvam_moe").spec, "bailing_moe_v2");
  Found found = find({"Glm4MoeForCausalLM"}, "something");
  EXPECT_EQ(found.spec, "");
  EXPECT_TRUE(found.findings.contains("bailing_moe_v2 and glm4_moe"))
      << found.findings;
}

TEST(FindSpec, AFamilysOwnNameComesFirstOfItsMegatronLayouts) {
  ConfigFacts config;
  config.architectures = {"Glm5NextForConditionalGeneration"};
  config.modelType = "glm5_next";
  std::vector<std::string> names;
  for (const std::string &path : findSpecs(config, MBC_SPECS))
    names.push_back(std::filesystem::path(path).stem());
  EXPECT_EQ(names, (std::vector<std::string>{"glm5_next", "glm5_next_bridge",
                                             "glm5_next_gpt"}));
  EXPECT_EQ(find(config.architectures, config.modelType).spec, "glm5_next");
}

TEST(FindSpec, SeveralArchitecturesAreRefused) {
  Found found = find({"LlamaForCausalLM", "Other"}, "llama");
  EXPECT_EQ(found.spec, "");
  EXPECT_TRUE(found.findings.contains("several architectures"));
}

} // namespace
} // namespace mbc::compiler
