#include "compiler/Binding/MegatronFacts.h"
#include "dsl/Expression.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

/// What config.json has in a field may be of any kind, and Megatron would read
/// the argument only when it trains: here each has the kind that Megatron's own
/// declarations give it.
namespace mbc::compiler {
namespace {

enum class Kind : uint8_t { Flag, Word, Count, Size, Above, AtLeast, Number };

struct Group {
  Kind kind;
  std::string_view description;
  std::vector<std::string_view> names;
};

const std::vector<Group> &groups() {
  static const std::vector<Group> all = {
      {Kind::Flag,
       "true or false",
       {"add_bias_linear",
        "add_qkv_bias",
        "apply_layernorm_1p",
        "attention_k_eq_v",
        "attention_output_gate",
        "dsa_indexer_kpool_always_select_tail",
        "dsa_indexer_rope_interleaved",
        "enable_hyper_connections",
        "enable_mhc_connections",
        "fp32_residual_connection",
        "gated_linear_unit",
        "group_query_attention",
        "heterogeneous_block_specs",
        "is_hybrid_model",
        "kda_safe_gate",
        "kda_two_stage_gates",
        "layernorm_zero_centered_gamma",
        "moe_apply_probs_on_input",
        "moe_grouped_gemm",
        "moe_router_enable_expert_bias",
        "moe_router_pre_softmax",
        "moe_shared_expert_gate",
        "moe_shared_expert_overlap",
        "mtp_use_repeated_layer",
        "multi_latent_attention",
        "qk_l2_norm",
        "qk_layernorm",
        "quick_geglu",
        "rotary_interleaved",
        "squared_relu",
        "swiglu",
        "untie_embeddings_and_output_weights",
        "use_double_wide_mlp",
        "use_rope_scaling",
        "yarn_correction_range_round_to_int"}},
      {Kind::Word,
       "a word",
       {"layer_types", "activation_func", "experimental_attention_variant",
        "hybrid_layer_pattern", "moe_router_dtype",
        "moe_router_load_balancing_type", "moe_router_score_function",
        "mtp_hybrid_override_pattern", "normalization",
        "position_embedding_type", "softmax_type"}},
      {Kind::Count,
       "a whole number above 0",
       {"actual_vocab_size",
        "attention_chunk_size",
        "csa_window_size",
        "dsa_indexer_head_dim",
        "dsa_indexer_kpool",
        "dsa_indexer_n_heads",
        "dsa_indexer_topk",
        "dsa_indexer_topk_freq",
        "ffn_hidden_size",
        "global_head_dim",
        "hidden_size",
        "kimi_linear_conv_kernel_size",
        "kimi_linear_head_dim",
        "kimi_linear_num_heads",
        "kv_channels",
        "kv_lora_rank",
        "linear_conv_kernel_dim",
        "linear_key_head_dim",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_value_head_dim",
        "mamba_chunk_size",
        "mamba_head_dim",
        "mamba_num_groups",
        "mamba_num_heads",
        "mamba_state_dim",
        "max_position_embeddings",
        "mhc_num_residual_streams",
        "mhc_sinkhorn_iterations",
        "moe_ffn_hidden_size",
        "moe_latent_size",
        "moe_router_group_topk",
        "moe_router_num_groups",
        "moe_router_topk",
        "num_attention_heads",
        "num_experts",
        "num_global_key_value_heads",
        "num_layers",
        "num_query_groups",
        "num_residual_streams",
        "o_groups",
        "o_lora_rank",
        "original_max_position_embeddings",
        "q_lora_rank",
        "qk_head_dim",
        "seq_length",
        "v_head_dim",
        "yarn_original_max_position_embeddings"}},
      {Kind::Size,
       "a whole number, 0 or more",
       {"dsa_indexer_skip_topk_offset", "hidden_size_per_layer_input",
        "kimi_attn_res_block_size", "moe_n_hash_layers",
        "moe_shared_expert_intermediate_size", "mtp_num_layers",
        "num_kv_shared_layers", "qk_pos_emb_head_dim", "window_size",
        "csa_compress_ratios", "interleaved_attn_pattern", "kimi_kda_layers",
        "linear_attention_freq", "moe_layer_freq", "mrope_section",
        "no_rope_freq", "window_attn_skip_freq"}},
      {Kind::Above,
       "a number above 0",
       {"activation_func_clamp_value", "attn_logit_softcapping", "beta_fast",
        "beta_slow", "csa_compress_rotary_base", "final_logit_softcapping",
        "layernorm_epsilon", "moe_router_topk_scaling_factor", "norm_epsilon",
        "query_pre_attn_scalar", "rope_scaling_factor", "rotary_base",
        "rotary_percent", "rotary_scaling_factor",
        "rotary_seq_len_interpolation_factor", "yarn_beta_fast",
        "yarn_beta_slow", "yarn_rotary_scaling_factor"}},
      {Kind::AtLeast,
       "a number, 0 or more",
       {"init_method_std", "moe_aux_loss_coeff",
        "moe_router_bias_update_rate"}},
      {Kind::Number,
       "a number",
       {"attention_dropout", "attention_in_multiplier",
        "attention_out_multiplier", "attention_value_scale",
        "embedding_multiplier", "glu_linear_offset", "hidden_dropout",
        "kda_lower_bound", "key_multiplier", "kimi_kda_gate_lower_bound",
        "lm_head_multiplier", "mscale", "mscale_all_dim", "mlp_multipliers",
        "ssm_multipliers", "ssm_in_multiplier", "ssm_out_multiplier"}},
  };
  return all;
}

/// Lists, or a number where all layers have the same.
constexpr std::string_view lists[] = {"csa_compress_ratios",
                                      "interleaved_attn_pattern",
                                      "kimi_kda_layers",
                                      "layer_types",
                                      "linear_attention_freq",
                                      "mlp_multipliers",
                                      "moe_layer_freq",
                                      "mrope_section",
                                      "no_rope_freq",
                                      "rotary_base",
                                      "ssm_multipliers",
                                      "window_attn_skip_freq",
                                      "window_size"};

/// No model is built without these; null stands for Megatron's default in all
/// others.
constexpr std::string_view ofEveryModel[] = {
    "hidden_size", "num_attention_heads", "max_position_embeddings",
    "seq_length",  "norm_epsilon",        "layernorm_epsilon",
    "num_layers"};
constexpr std::string_view ofExperts[] = {"num_experts", "moe_ffn_hidden_size",
                                          "moe_router_topk"};
constexpr std::string_view ofLatentAttention[] = {
    "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"};

bool isOfKind(const dsl::Value &value, Kind kind, bool isList) {
  if (const auto *list =
          std::get_if<std::shared_ptr<const dsl::ValueList>>(&value))
    return isList && std::ranges::all_of(**list, [&](const dsl::Value &item) {
             return isOfKind(item, kind, false);
           });
  if (std::holds_alternative<bool>(value))
    return kind == Kind::Flag;
  if (std::holds_alternative<std::string>(value))
    return kind == Kind::Word;
  if (const auto *integer = std::get_if<int64_t>(&value))
    return kind == Kind::Count || kind == Kind::Above    ? *integer > 0
           : kind == Kind::Size || kind == Kind::AtLeast ? *integer >= 0
                                                         : kind == Kind::Number;
  const auto *number = std::get_if<double>(&value);
  if (!number)
    return true; // null
  // NaN and Infinity become None, with a note.
  return kind == Kind::Above     ? !(*number <= 0)
         : kind == Kind::AtLeast ? !(*number < 0)
                                 : kind == Kind::Number;
}

class Kinds {
public:
  Kinds(const dsl::Model &model, dsl::Diagnostics &diagnostics)
      : model(model), diagnostics(diagnostics), arguments(model) {}

  void check() {
    for (const Group &group : groups())
      for (std::string_view name : group.names)
        if (const dsl::ConfigField *field = find(name))
          if (!isOfKind(field->value, group.kind, isIn(lists, name)))
            report(*field, group.description);
    need(ofEveryModel);
    if (model.experts != 0)
      need(ofExperts);
    if (arguments.isTrue("multi_latent_attention"))
      need(ofLatentAttention);
    checkChoice();
    checkGroups();
  }

private:
  static bool isIn(std::span<const std::string_view> names,
                   std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  }

  const dsl::ConfigField *find(std::string_view name) const {
    auto found = std::ranges::find(model.config, name, &dsl::ConfigField::name);
    return found == model.config.end() ? nullptr : &*found;
  }

  void report(const dsl::ConfigField &field, std::string_view kind) {
    diagnostics.error(field.where,
                      fmt::format("Megatron's {} would be {}, and has to be "
                                  "{}{}",
                                  field.name, dsl::describe({field.value}),
                                  kind, dsl::correction(field.configFields)));
  }

  void need(std::span<const std::string_view> names) {
    for (std::string_view name : names)
      if (const dsl::ConfigField *field = find(name))
        if (std::holds_alternative<std::monostate>(field->value))
          diagnostics.error(
              field->where,
              fmt::format("Megatron's {} would be null; config.json has to say "
                          "its number",
                          name));
  }

  /// `small` of `large` that there are.
  void checkShare(std::string_view small, std::string_view large) {
    const auto some = arguments.integer(small), all = arguments.integer(large);
    if (some && all && *some > *all)
      reportPair(small, large, "is more than there are of", *some, *all);
  }

  void checkDivides(std::string_view whole, std::string_view parts) {
    const auto all = arguments.integer(whole), count = arguments.integer(parts);
    if (all && count && *count > 0 && *all % *count != 0)
      reportPair(whole, parts, "does not divide by", *all, *count);
  }

  void reportPair(std::string_view one, std::string_view other,
                  std::string_view what, int64_t first, int64_t second) {
    const dsl::ConfigField *field = find(one);
    std::string said = field->configFields;
    if (const std::string &more = find(other)->configFields;
        !more.empty() && more != said)
      said += (said.empty() ? "" : ", ") + more;
    diagnostics.error(field->where,
                      fmt::format("Megatron's {} {} {} {} {}{}", one, first,
                                  what, other, second, dsl::correction(said)));
  }

  void checkChoice() {
    checkShare("moe_router_topk", "num_experts");
    checkShare("moe_router_group_topk", "moe_router_num_groups");
    checkDivides("num_experts", "moe_router_num_groups");
  }

  void checkGroups() {
    checkDivides("num_attention_heads", "num_query_groups");
  }

  const dsl::Model &model;
  dsl::Diagnostics &diagnostics;
  MegatronArguments arguments;
};

} // namespace

void checkArgumentKinds(const dsl::Model &model,
                        dsl::Diagnostics &diagnostics) {
  Kinds(model, diagnostics).check();
}

} // namespace mbc::compiler
