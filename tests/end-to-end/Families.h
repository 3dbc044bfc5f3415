#pragma once

#include "tests/end-to-end/Reference.h"

namespace mbc::test {

/// The physical layers of a hybrid model that may begin a stage, but layer 0.
struct StageStarts {
  std::vector<int64_t> places;
  int64_t layers = 0; ///< physical
};

/// What the tests know of one model_type.
struct Family {
  std::string modelType;
  Reference (*reference)(const HfModel &);
  /// Null where the layers of config.json are dealt out evenly.
  StageStarts (*stageStarts)(const Json &text) = nullptr;
  /// MTP layers carry an embedding and a head of their own, which in the
  /// fixture differ from the main ones on purpose.
  bool mtpCopies = false;
};

/// The family of a config.json; fails the running test if there is none.
const Family &familyOf(const Json &config);

/// The families that differ from `Decoder`.
Reference bailingReference(const HfModel &model);
Reference ernieMoeReference(const HfModel &model);
Reference exaoneMoeReference(const HfModel &model);
Reference glm4Reference(const HfModel &model);
Reference gptOssReference(const HfModel &model);
Reference hunyuanReference(const HfModel &model);
Reference lladaReference(const HfModel &model);
Reference miMoReference(const HfModel &model);
Reference miMoV2Reference(const HfModel &model);
Reference miniMaxReference(const HfModel &model);
Reference mixtralReference(const HfModel &model);
Reference nemotronNasReference(const HfModel &model);
Reference qwen2MoeReference(const HfModel &model);
Reference stepReference(const HfModel &model);
Reference deepseekV41Reference(const HfModel &model);
StageStarts deepseekV41StageStarts(const Json &text);
Reference deepseekV4Reference(const HfModel &model);
Reference gemma4Reference(const HfModel &model);
Reference falconH1Reference(const HfModel &model);
Reference llama4Reference(const HfModel &model);
Reference nemotronReference(const HfModel &model);
Reference nemotronHReference(const HfModel &model);
StageStarts nemotronHStageStarts(const Json &text);
Reference postNormReference(const HfModel &model);
Reference qwenHybridReference(const HfModel &model);
Reference qwen3VlReference(const HfModel &model);
Reference qwen2VlReference(const HfModel &model);
Reference qwen35VlReference(const HfModel &model);
Reference gemma3VlReference(const HfModel &model);
Reference gemma4VlReference(const HfModel &model);
Reference glm4vReference(const HfModel &model);
Reference glm4vMoeReference(const HfModel &model);
Reference insideReference(const HfModel &model);
Reference kimiVlReference(const HfModel &model);
Reference kimiK3Reference(const HfModel &model);
Reference llama4VlReference(const HfModel &model);
Reference exaone45Reference(const HfModel &model);
Reference thinkerReference(const HfModel &model);
Reference internVlReference(const HfModel &model);
Reference nemotronVlReference(const HfModel &model);
Reference nemotronOmniReference(const HfModel &model);
Reference ovisReference(const HfModel &model);
Reference llavaOneVisionReference(const HfModel &model);
Reference step37Reference(const HfModel &model);
Reference miniMaxM3Reference(const HfModel &model);
Reference ernieVlReference(const HfModel &model);
Reference glm5NextReference(const HfModel &model);
StageStarts glm5NextStageStarts(const Json &text);

/// GLM-5.3-Flash as a GPTModel, by the trainer that builds it.
enum class Glm5NextPort : uint8_t { Miles, MilesWhole, Skyrl, Bridge };
Reference glm5NextGptReference(const HfModel &model, Glm5NextPort port,
                               bool fusedNorms);

} // namespace mbc::test
