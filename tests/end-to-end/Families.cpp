#include "tests/end-to-end/Families.h"

#include "tests/end-to-end/DecoderReference.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace mbc::test {

namespace {

const std::vector<Family> &families() {
  static const std::vector<Family> all = {
      {.modelType = "llama", .reference = decoderReference<>},
      {.modelType = "mistral", .reference = decoderReference<>},
      {.modelType = "internlm3", .reference = decoderReference<>},
      {.modelType = "llada", .reference = lladaReference},
      {.modelType = "nemotron-nas", .reference = nemotronNasReference},
      {.modelType = "mimo", .reference = miMoReference},
      {.modelType = "mimo_v2_flash", .reference = miMoV2Reference},
      {.modelType = "step3p5", .reference = stepReference},
      {.modelType = "bailing_moe_v2", .reference = bailingReference},
      {.modelType = "sarvam_moe", .reference = bailingReference},
      {.modelType = "ernie4_5", .reference = decoderReference<>},
      {.modelType = "glm4", .reference = glm4Reference},
      {.modelType = "qwen2", .reference = decoderReference<>},
      {.modelType = "qwen3", .reference = decoderReference<>},
      {.modelType = "mixtral", .reference = mixtralReference},
      {.modelType = "gpt_oss", .reference = gptOssReference},
      {.modelType = "olmoe", .reference = decoderReference<>},
      {.modelType = "qwen2_moe", .reference = qwen2MoeReference},
      {.modelType = "qwen3_moe", .reference = decoderReference<>},
      {.modelType = "ernie4_5_moe", .reference = ernieMoeReference},
      {.modelType = "minimax_m2", .reference = miniMaxReference},
      {.modelType = "dots1", .reference = decoderReference<>},
      {.modelType = "glm4_moe",
       .reference = decoderReference<>,
       .mtpCopies = true},
      {.modelType = "exaone_moe", .reference = exaoneMoeReference},
      {.modelType = "hy_v3", .reference = hunyuanReference},
      {.modelType = "deepseek_v2", .reference = decoderReference<>},
      {.modelType = "deepseek_v3",
       .reference = decoderReference<>,
       .mtpCopies = true},
      {.modelType = "deepseek_v32",
       .reference = decoderReference<>,
       .mtpCopies = true},
      {.modelType = "kimi_k2", .reference = decoderReference<>},
      {.modelType = "glm4_moe_lite",
       .reference = decoderReference<>,
       .mtpCopies = true},
      {.modelType = "sarvam_mla", .reference = decoderReference<>},
      {.modelType = "glm_moe_dsa", .reference = decoderReference<>},
      {.modelType = "gemma", .reference = decoderReference<>},
      {.modelType = "gemma2", .reference = postNormReference},
      {.modelType = "gemma3_text", .reference = postNormReference},
      {.modelType = "gemma4_text", .reference = gemma4Reference},
      {.modelType = "exaone4", .reference = postNormReference},
      {.modelType = "qwen3_next", .reference = qwenHybridReference},
      {.modelType = "qwen3_5_text", .reference = qwenHybridReference},
      {.modelType = "qwen3_5_moe_text", .reference = qwenHybridReference},
      {.modelType = "nemotron", .reference = nemotronReference},
      {.modelType = "falcon_h1", .reference = falconH1Reference},
      {.modelType = "llama4_text", .reference = llama4Reference},
      {.modelType = "deepseek_v4", .reference = deepseekV4Reference},
      {.modelType = "deepseek_v41",
       .reference = deepseekV41Reference,
       .stageStarts = deepseekV41StageStarts},
      {.modelType = "qwen3_vl", .reference = qwen3VlReference},
      {.modelType = "qwen3_vl_moe", .reference = qwen3VlReference},
      {.modelType = "qwen2_vl", .reference = qwen2VlReference},
      {.modelType = "qwen2_5_vl", .reference = qwen2VlReference},
      {.modelType = "qwen3_5", .reference = qwen35VlReference},
      {.modelType = "qwen3_5_moe", .reference = qwen35VlReference},
      {.modelType = "gemma3", .reference = gemma3VlReference},
      {.modelType = "gemma4", .reference = gemma4VlReference},
      {.modelType = "glm4v", .reference = glm4vReference},
      {.modelType = "glm4v_moe", .reference = glm4vMoeReference},
      {.modelType = "mistral3", .reference = insideReference},
      {.modelType = "kimi_k25", .reference = insideReference},
      {.modelType = "kimi_vl", .reference = kimiVlReference},
      {.modelType = "kimi_k3", .reference = kimiK3Reference},
      {.modelType = "qwen2_audio", .reference = insideReference},
      {.modelType = "llama4", .reference = llama4VlReference},
      {.modelType = "exaone4_5", .reference = exaone45Reference},
      {.modelType = "qwen2_5_omni", .reference = thinkerReference},
      {.modelType = "qwen3_omni_moe", .reference = thinkerReference},
      {.modelType = "qwen3_asr", .reference = thinkerReference},
      {.modelType = "internvl_chat", .reference = internVlReference},
      {.modelType = "ovis2_5", .reference = ovisReference},
      {.modelType = "llava_onevision1_5", .reference = llavaOneVisionReference},
      {.modelType = "step3p7", .reference = step37Reference},
      {.modelType = "minimax_m3_vl", .reference = miniMaxM3Reference},
      {.modelType = "ernie4_5_vl_moe", .reference = ernieVlReference},
      {.modelType = "nemotron_h",
       .reference = nemotronHReference,
       .stageStarts = nemotronHStageStarts},
      {.modelType = "NemotronH_Nano_VL_V2",
       .reference = nemotronVlReference,
       .stageStarts = nemotronHStageStarts},
      {.modelType = "nemotron_h_omni",
       .reference = nemotronOmniReference,
       .stageStarts = nemotronHStageStarts},
      {.modelType = "NemotronH_Nano_Omni_Reasoning_V3",
       .reference = nemotronOmniReference,
       .stageStarts = nemotronHStageStarts},
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

} // namespace mbc::test
