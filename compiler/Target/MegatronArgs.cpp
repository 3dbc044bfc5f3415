#include "compiler/Target/MegatronArgs.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace mbc::compiler {

static Json toJson(const dsl::Value &value) {
  if (auto *flag = std::get_if<bool>(&value))
    return *flag;
  if (auto *integer = std::get_if<int64_t>(&value))
    return *integer;
  if (auto *number = std::get_if<double>(&value))
    return *number;
  if (auto *text = std::get_if<std::string>(&value))
    return *text;
  if (auto *list = std::get_if<std::shared_ptr<const dsl::ValueList>>(&value)) {
    Json array = Json::array();
    for (const dsl::Value &element : **list)
      array.push_back(toJson(element));
    return array;
  }
  return nullptr;
}

/// Numbers, words and lists of them: what every reader of a checkpoint can
/// take. Objects of Megatron's classes are of no use without it.
static bool isPlain(const Json &value) {
  return !value.is_object() &&
         (!value.is_array() || std::ranges::all_of(value, isPlain));
}

/// What the layout, and what was written in it, makes of the arguments.
static void setLayout(Json &args, const dsl::Model &model,
                      const ParallelLayout &layout, const Options &options) {
  if (!layout.pattern.empty())
    args[model.patternField] = layout.pattern;
  args["tensor_model_parallel_size"] = layout.tp;
  args["pipeline_model_parallel_size"] = layout.pp;
  args["virtual_pipeline_model_parallel_size"] =
      layout.vpp != 1 ? Json(layout.vpp) : Json(nullptr);
  // Megatron's other way to ask for virtual stages; both together it refuses.
  args["num_layers_per_virtual_pipeline_stage"] = nullptr;
  args["expert_model_parallel_size"] = layout.ep;
  args["expert_tensor_parallel_size"] = layout.etp;
  args["context_parallel_size"] = 1;
  args["world_size"] = layout.pp * stageRanks(layout);
  args["data_parallel_size"] = stageRanks(layout) / layout.tp;
  args["decoder_first_pipeline_num_layers"] =
      options.firstStageLayers != 0 ? Json(options.firstStageLayers)
                                    : Json(nullptr);
  args["decoder_last_pipeline_num_layers"] = options.lastStageLayers != 0
                                                 ? Json(options.lastStageLayers)
                                                 : Json(nullptr);
  if (layout.pattern.empty() && !options.pipelineLayout.empty())
    args["pipeline_model_parallel_layout"] = options.pipelineLayout;
  args["ckpt_format"] = options.format == "torch" ? "torch" : "torch_dist";
}

/// The layout of a source says nothing of the target's.
static void takeSource(Json &args, const Json &source) {
  static constexpr std::array layoutOnly = {
      "pipeline_model_parallel_layout",
      "account_for_embedding_in_pipeline_split",
      "account_for_loss_in_pipeline_split",
      "num_virtual_stages_per_pipeline_rank",
      "rank",
      "local_rank"};
  for (const auto &[name, value] : source.items())
    if (isPlain(value) &&
        std::ranges::find(layoutOnly, name) == layoutOnly.end())
      args[name] = value;
}

Json megatronArgs(const dsl::Model &model, const ParallelLayout &layout,
                  const Options &options, DType dtype, int64_t paddedVocab,
                  const Json &sourceArgs) {
  Json args = Json::object();
  for (const dsl::ConfigField &field : model.config)
    args[field.name] = toJson(field.value);
  const bool hasDType =
      sourceArgs.contains("params_dtype") && options.dtype.empty();
  if (sourceArgs.is_object())
    takeSource(args, sourceArgs);
  setLayout(args, model, layout, options);
  args["padded_vocab_size"] = paddedVocab;
  args["vocab_size"] = model.vocabSize;
  args["make_vocab_size_divisible_by"] =
      options.vocabDivisor != 0 ? options.vocabDivisor : model.vocabMultiple;
  if (!hasDType) {
    args["bf16"] = dtype == DType::BF16;
    args["fp16"] = dtype == DType::F16;
    args["params_dtype"] = "torch." + std::string(torchName(dtype));
  }
  // The checkpoint holds weights only.
  args["no_save_optim"] = true;
  args["no_save_rng"] = true;
  args["consumed_train_samples"] = 0;
  args["consumed_valid_samples"] = 0;
  args["skipped_train_samples"] = 0;
  return args;
}

} // namespace mbc::compiler
