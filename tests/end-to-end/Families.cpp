#include "tests/end-to-end/Families.h"

#include "tests/end-to-end/DecoderReference.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace mbc::test {

namespace {

const std::vector<Family> &families() {
  static const std::vector<Family> all = {
      {.modelType = "llama", .reference = decoderReference},
      {.modelType = "qwen2", .reference = decoderReference},
      {.modelType = "qwen3", .reference = decoderReference},
      {.modelType = "qwen3_moe", .reference = decoderReference},
      {.modelType = "deepseek_v3",
       .reference = decoderReference,
       .mtpCopies = true},
      {.modelType = "glm_moe_dsa", .reference = decoderReference},
      {.modelType = "glm5_next",
       .reference = glm5NextReference,
       .stageStarts = glm5NextStageStarts},
  };
  return all;
}

} // namespace

const Family &familyOf(const Json &config) {
  const auto found = std::ranges::find(
      families(), config["model_type"].get<std::string>(), &Family::modelType);
  if (found != families().end())
    return *found;
  ADD_FAILURE() << "Families.cpp has no " << config["model_type"];
  return families().front();
}

Reference reference(const HfModel &model) {
  return familyOf(model.config).reference(model);
}

/// The folders of tests/data, all of which this build's specs must convert.
std::vector<std::string> allFixtures() {
  return {
      "llama",       "qwen2",           "qwen3",
      "qwen3_moe",   "deepseek_v3",     "deepseek_v3_fp8",
      "glm_moe_dsa", "glm_moe_dsa_fp8", "glm_moe_dsa_fused",
      "glm5_next",   "glm5_next_fp8",
  };
}

} // namespace mbc::test
