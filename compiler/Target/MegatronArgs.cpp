#include "compiler/Target/MegatronArgs.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mbc::compiler {

Json argumentJson(const dsl::Value &value) {
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
      array.push_back(argumentJson(element));
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

/// Of numbers, true and false are 1 and 0; what is of two kinds, such as a list
/// and an expression for it, cannot be compared.
static bool differ(const Json &a, const Json &b) {
  auto isNumber = [](const Json &value) {
    return value.is_number() || value.is_boolean();
  };
  auto number = [](const Json &value) {
    return value.is_boolean() ? double(value.get<bool>()) : value.get<double>();
  };
  if (isNumber(a) && isNumber(b))
    return number(a) != number(b);
  if (a.is_array() && b.is_array())
    return !std::ranges::equal(a, b, [](const Json &one, const Json &other) {
      return !differ(one, other);
    });
  return a.is_string() && b.is_string() && a != b;
}

bool saysNothingOfTheModel(std::string_view name, const Json &args) {
  static constexpr std::array training = {
      std::string_view("seq_length"),
      std::string_view("init_method_std"),
      std::string_view("attention_dropout"),
      std::string_view("hidden_dropout"),
      std::string_view("moe_aux_loss_coeff"),
      std::string_view("moe_router_load_balancing_type"),
      std::string_view("moe_router_dtype"),
      std::string_view("moe_grouped_gemm"),
      std::string_view("mtp_loss_scaling_factor")};
  static constexpr std::array ofPlainAttention = {
      std::string_view("kv_channels"), std::string_view("num_query_groups"),
      std::string_view("group_query_attention")};
  return std::ranges::find(training, name) != training.end() ||
         (args.value("multi_latent_attention", Json()) == Json(true) &&
          std::ranges::find(ofPlainAttention, name) != ofPlainAttention.end());
}

void checkSourceArgs(const dsl::Model &model, const Json &sourceArgs,
                     const std::string &source, dsl::Diagnostics &diagnostics) {
  if (!sourceArgs.is_object())
    return;
  for (const dsl::ConfigField &field : model.config) {
    auto there = sourceArgs.find(field.name);
    // The layout's marks stand in a pattern.
    if (there == sourceArgs.end() || field.name == model.patternField ||
        saysNothingOfTheModel(field.name, sourceArgs))
      continue;
    const Json given = argumentJson(field.value);
    if (differ(given, *there))
      diagnostics.warning(
          field.where,
          fmt::format("{} has {} {}, and config.json gives {}; config.json is "
                      "written as it is: correct it if the model was trained "
                      "so",
                      source, field.name, there->dump(), given.dump()));
  }
}

Result<void> requireWholeHalves(const Json &sourceArgs,
                                const std::string &source) {
  if (!sourceArgs.is_object())
    return {};
  for (const char *name : {"moe_mlp_glu_interleave_size",
                           "moe_shared_expert_glu_interleave_size"}) {
    auto rows = sourceArgs.find(name);
    if (rows != sourceArgs.end() && !rows->is_null() && *rows != 0)
      return fail("{} has {} {}: gate and up of its experts stand in alternate "
                  "blocks of {} rows, and are read one after the other; load "
                  "it in Megatron and save it without that argument",
                  source, name, rows->dump(), rows->dump());
  }
  return {};
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
  // Modules of the other layout would not find their parameters.
  if (model.takes(options.experts))
    args["moe_grouped_gemm"] = options.experts == "grouped";
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
    args[field.name] = argumentJson(field.value);
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
