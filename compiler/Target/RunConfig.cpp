#include "compiler/Target/RunConfig.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

namespace mbc::compiler {
namespace {

/// A class or function by its name, not called.
Json named(std::string target) {
  return {{"_target_", std::move(target)}, {"_call_", false}};
}

bool isTrue(const Json &args, const char *name) {
  auto found = args.find(name);
  return found != args.end() && found->is_boolean() && found->get<bool>();
}

std::string activation(const Json &args) {
  if (isTrue(args, "swiglu"))
    return "torch.nn.functional.silu";
  if (isTrue(args, "squared_relu"))
    return "megatron.core.activations.squared_relu";
  if (isTrue(args, "quick_geglu")) // the one of two that fusion takes
    return "megatron.core.fusions.fused_bias_geglu.quick_gelu";
  if (args.value("activation_func", Json()).is_string())
    return fmt::format("megatron.core.activations.{}",
                       args["activation_func"].get<std::string>());
  return "torch.nn.functional.gelu";
}

/// A field of the provider under another name than the argument's.
struct Renamed {
  std::string_view argument, field;
};
constexpr std::array renamed = {
    Renamed{"num_experts", "num_moe_experts"},
    Renamed{"norm_epsilon", "layernorm_epsilon"},
    Renamed{"apply_layernorm_1p", "layernorm_zero_centered_gamma"},
    Renamed{"decoder_first_pipeline_num_layers",
            "num_layers_in_first_pipeline_stage"},
    Renamed{"decoder_last_pipeline_num_layers",
            "num_layers_in_last_pipeline_stage"},
    Renamed{"use_rope_scaling", "rope_scaling"},
    Renamed{"rotary_seq_len_interpolation_factor",
            "seq_len_interpolation_factor"},
};

using Names = std::span<const std::string_view>;

/// Fields by the same name, which every provider has where a model needs them.
/// A model with any other argument has parts that its provider does not build.
constexpr std::string_view same[] = {"activation_func_clamp_value",
                                     "add_bias_linear",
                                     "add_qkv_bias",
                                     "attention_dropout",
                                     "attention_output_gate",
                                     "bf16",
                                     "context_parallel_size",
                                     "expert_model_parallel_size",
                                     "expert_tensor_parallel_size",
                                     "ffn_hidden_size",
                                     "fp16",
                                     "glu_linear_offset",
                                     "hidden_dropout",
                                     "hidden_size",
                                     "init_method_std",
                                     "kv_channels",
                                     "layernorm_epsilon",
                                     "layernorm_zero_centered_gamma",
                                     "make_vocab_size_divisible_by",
                                     "moe_apply_probs_on_input",
                                     "moe_aux_loss_coeff",
                                     "moe_ffn_hidden_size",
                                     "moe_grouped_gemm",
                                     "moe_layer_freq",
                                     "moe_router_dtype",
                                     "moe_router_enable_expert_bias",
                                     "moe_router_group_topk",
                                     "moe_router_load_balancing_type",
                                     "moe_router_num_groups",
                                     "moe_router_pre_softmax",
                                     "moe_router_score_function",
                                     "moe_router_topk",
                                     "moe_router_topk_scaling_factor",
                                     "moe_shared_expert_gate",
                                     "moe_shared_expert_intermediate_size",
                                     "mtp_num_layers",
                                     "multi_latent_attention",
                                     "no_rope_freq",
                                     "normalization",
                                     "num_attention_heads",
                                     "num_layers",
                                     "pipeline_model_parallel_size",
                                     "position_embedding_type",
                                     "qk_l2_norm",
                                     "qk_layernorm",
                                     "rope_scaling_factor",
                                     "rotary_base",
                                     "rotary_interleaved",
                                     "rotary_percent",
                                     "rotary_scaling_factor",
                                     "seq_length",
                                     "tensor_model_parallel_size",
                                     "virtual_pipeline_model_parallel_size"};
constexpr std::string_view latentOnly[] = {
    "beta_fast",   "beta_slow",      "kv_lora_rank",
    "mscale",      "mscale_all_dim", "original_max_position_embeddings",
    "q_lora_rank", "qk_head_dim",    "qk_pos_emb_head_dim",
    "v_head_dim"};
constexpr std::string_view sinkOnly[] = {
    "softmax_type",
    "window_attn_skip_freq",
    "window_size",
    "yarn_beta_fast",
    "yarn_beta_slow",
    "yarn_correction_range_round_to_int",
    "yarn_mscale",
    "yarn_mscale_all_dim",
    "yarn_original_max_position_embeddings",
    "yarn_rotary_scaling_factor"};
constexpr std::string_view deltaOnly[] = {
    "experimental_attention_variant", "linear_attention_freq",
    "linear_conv_kernel_dim",         "linear_key_head_dim",
    "linear_num_key_heads",           "linear_num_value_heads",
    "linear_value_head_dim"};
constexpr std::string_view mambaOnly[] = {
    "fp32_residual_connection", "is_hybrid_model",          "mamba_head_dim",
    "mamba_num_groups",         "mamba_num_heads",          "mamba_state_dim",
    "moe_latent_size",          "moe_shared_expert_overlap"};
/// Written in other words, or of no meaning to a model.
constexpr std::string_view spentElsewhere[] = {
    "activation_func",
    "ckpt_format",
    "consumed_train_samples",
    "consumed_valid_samples",
    "data_parallel_size",
    "gated_linear_unit",
    "group_query_attention",
    "iteration",
    "max_position_embeddings",
    "no_save_optim",
    "no_save_rng",
    "num_layers_per_virtual_pipeline_stage",
    "num_query_groups",
    "padded_vocab_size",
    "params_dtype",
    "quick_geglu",
    "skipped_train_samples",
    "squared_relu",
    "swiglu",
    "untie_embeddings_and_output_weights",
    "vocab_size",
    "world_size"};

bool isIn(Names names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// A class of Megatron-Bridge that builds models, the fields that it has beside
/// `same`, and what makes the layers, if that is not its own default.
struct Provider {
  std::string_view target;
  Names fields;
  std::string_view layers;
};
constexpr std::string_view
    gptLayers = "gpt_layer_specs.get_gpt_decoder_block_spec",
    deltaLayers =
        "experimental_attention_variant_module_specs."
        "get_transformer_block_with_experimental_attention_variant_spec";
constexpr Provider gpt{"gpt_provider.GPTModelProvider", {}, gptLayers},
    latent{"mla_provider.MLAModelProvider", latentOnly, gptLayers},
    sink{"gpt_oss.gpt_oss_provider.GPTOSSProvider", sinkOnly, gptLayers},
    delta{"gpt_provider.GPTModelProvider", deltaOnly, deltaLayers},
    mamba{"mamba.mamba_provider.MambaModelProvider", mambaOnly, ""};

const Provider &providerOf(const Json &args) {
  if (isTrue(args, "is_hybrid_model"))
    return mamba;
  if (isTrue(args, "multi_latent_attention"))
    return latent;
  if (args.value("softmax_type", Json()) == "learnable")
    return sink;
  if (args.value("experimental_attention_variant", Json()) == "gated_delta_net")
    return delta;
  return gpt;
}

/// Takes over what keeps its value; false if something has no place.
bool takeFields(const Json &args, const Provider &provider, Json &fields) {
  for (const auto &[name, value] : args.items()) {
    auto other = std::ranges::find(renamed, name, &Renamed::argument);
    if (other != renamed.end())
      fields[std::string(other->field)] = value;
    else if (isIn(same, name) || isIn(provider.fields, name))
      fields[name] = value;
    else if (!value.is_null() && !isIn(spentElsewhere, name))
      return false;
  }
  return args.value("params_dtype", Json()).is_string();
}

/// The layers of a hybrid model, from an argument that also says where stages
/// begin; false if the provider does not build them.
bool takePattern(const Json &args, Json &fields) {
  const Json given = args.value("hybrid_layer_pattern", Json());
  if (!given.is_string())
    return false;
  std::string pattern = given.get<std::string>();
  std::erase(pattern, '|');
  fields["hybrid_override_pattern"] = pattern;
  return pattern.find_first_not_of("M*-E") == std::string::npos;
}

/// What Megatron's training script makes of its arguments; null if no provider
/// builds such a model.
Json modelFields(Json args) {
  const Provider &provider = providerOf(args);
  Json fields{
      {"_target_", fmt::format("megatron.bridge.models.{}", provider.target)}};
  if (&provider == &mamba) {
    if (!takePattern(args, fields))
      return nullptr;
    for (const char *spent :
         {"hybrid_layer_pattern", "mtp_use_repeated_layer", "mamba_chunk_size"})
      args.erase(spent);
  } else if (!args.value("rotary_base", Json()).is_number()) {
    return nullptr;
  }
  if (!takeFields(args, provider, fields))
    return nullptr;
  if (isTrue(args, "moe_shared_expert_overlap")) // of which it is a part
    fields["moe_token_dispatcher_type"] = "alltoall";
  fields["activation_func"] = named(activation(args));
  fields["gated_linear_unit"] = isTrue(args, "swiglu") ||
                                isTrue(args, "quick_geglu") ||
                                isTrue(args, "gated_linear_unit");
  fields["share_embeddings_and_output_weights"] =
      !isTrue(args, "untie_embeddings_and_output_weights");
  fields["num_query_groups"] = isTrue(args, "group_query_attention")
                                   ? args["num_query_groups"]
                                   : Json(nullptr);
  for (const char *dtype : {"params_dtype", "pipeline_dtype"})
    fields[dtype] = named(args["params_dtype"].get<std::string>());
  // The rows that are stored; nobody pads them again.
  fields["vocab_size"] = args["padded_vocab_size"];
  fields["should_pad_vocab"] = false;
  // Layers of several kinds too, which the provider's own default has not.
  if (!provider.layers.empty())
    fields["transformer_layer_spec"] = {
        {"_target_",
         fmt::format("megatron.core.models.gpt.{}", provider.layers)},
        {"_partial_", true}};
  if (provider.layers == gptLayers)
    fields["transformer_layer_spec"]["use_transformer_engine"] = true;
  return fields;
}

/// YAML 1.1 takes 1e-05 for a text: its numbers have a point.
std::string yaml(const Json &value) {
  if (value.is_number_float()) {
    std::string number = value.dump();
    if (size_t at = number.find('e');
        at != std::string::npos && !number.contains('.'))
      number.insert(at, ".0");
    return number;
  }
  if (!value.is_structured())
    return value.dump();
  std::string text;
  for (const auto &[key, item] : value.items()) {
    text += text.empty() ? "" : ", ";
    if (value.is_object())
      text += Json(key).dump() + ": ";
    text += yaml(item);
  }
  return value.is_object() ? fmt::format("{{{}}}", text)
                           : fmt::format("[{}]", text);
}

std::string section(const char *name, const Json &fields) {
  std::string text = fmt::format("{}:\n", name);
  for (const auto &[key, value] : fields.items())
    text += fmt::format("  {}: {}\n", key, yaml(value));
  return text;
}

} // namespace

std::string runConfig(const dsl::Model &model, const Json &args) {
  const bool isPlain = std::ranges::any_of(model.instances, [](const auto &i) {
    return std::ranges::find(i.megatron, "embedding.word_embeddings.weight") !=
           i.megatron.end();
  });
  if (!isPlain)
    return {};
  const Json fields = modelFields(args);
  if (fields.is_null())
    return {};
  const Json checkpoint{
      {"_target_", "megatron.bridge.training.config.CheckpointConfig"},
      {"ckpt_format", "torch_dist"},
      {"save_optim", false},
      {"save_rng", false}};
  return section("model", fields) + section("checkpoint", checkpoint);
}

} // namespace mbc::compiler
