#include "compiler/Binding/MegatronFacts.h"
#include "runtime/MegatronNames.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace mbc::compiler {

MegatronArguments::MegatronArguments(const dsl::Model &model) {
  for (const dsl::ConfigField &field : model.config)
    if (!std::holds_alternative<std::monostate>(field.value))
      values.emplace(field.name, &field.value);
}

const dsl::Value *MegatronArguments::find(std::string_view name) const {
  auto found = values.find(name);
  return found == values.end() ? nullptr : found->second;
}

std::optional<int64_t> MegatronArguments::integer(std::string_view name) const {
  const dsl::Value *value = find(name);
  if (const int64_t *number = value ? std::get_if<int64_t>(value) : nullptr)
    return *number;
  if (const bool *truth = value ? std::get_if<bool>(value) : nullptr)
    return *truth;
  return std::nullopt;
}

bool MegatronArguments::isTrue(std::string_view name) const {
  return integer(name).value_or(0) != 0;
}

int64_t MegatronArguments::gates() const {
  return isTrue("swiglu") || isTrue("gated_linear_unit") ||
                 isTrue("quick_geglu")
             ? 2
             : 1;
}

namespace {

/// An argument that is true if, and only if, a rule gives one of the
/// parameters whose names end so.
struct Switch {
  std::string_view argument;
  std::vector<std::string_view> tails;
};

const std::vector<Switch> &switches() {
  static const std::vector<Switch> all = {
      {"untie_embeddings_and_output_weights", {"output_layer.weight"}},
      {"multi_latent_attention",
       {"linear_kv_down_proj.weight", "linear_kv_proj.weight",
        "kv_a_proj_with_mqa.weight"}},
      {"moe_router_enable_expert_bias", {"router.expert_bias"}},
      {"moe_shared_expert_gate", {"shared_experts.gate_weight"}},
      {"add_bias_linear", {"linear_proj.bias", "linear_fc2.bias"}},
      {"qk_layernorm",
       {"q_layernorm.weight", "linear_q_up_proj.layer_norm_weight",
        "linear_kv_up_proj.layer_norm_weight", "kv_layernorm.weight",
        "kv_a_layernorm.weight"}},
  };
  return all;
}

constexpr std::string_view ofEveryDecoder[] = {
    "num_layers",          "hidden_size",
    "num_attention_heads", "max_position_embeddings",
    "seq_length",          "position_embedding_type",
    "normalization",       "norm_epsilon",
    "layernorm_epsilon",   "init_method_std",
    "attention_dropout",   "hidden_dropout",
    "add_bias_linear",     "untie_embeddings_and_output_weights",
    "add_qkv_bias",        "kv_channels"};
constexpr std::string_view ofExperts[] = {"num_experts",
                                          "moe_ffn_hidden_size",
                                          "moe_router_topk",
                                          "moe_router_score_function",
                                          "moe_router_load_balancing_type",
                                          "moe_aux_loss_coeff",
                                          "moe_grouped_gemm"};

class Arguments {
public:
  Arguments(const dsl::Model &model, dsl::Diagnostics &diagnostics)
      : model(model), diagnostics(diagnostics), arguments(model),
        given(switches().size()) {
    for (const dsl::RuleInstance &instance : model.instances)
      for (const std::string &name : instance.megatron)
        note(name);
  }

  void check() {
    if (model.config.empty())
      return;
    for (size_t i = 0; i != given.size(); ++i)
      expect(switches()[i].argument, given[i] ? 1 : 0,
             fmt::format("the rules give {}{}", given[i] ? "" : "no ",
                         fmt::join(switches()[i].tails, " or ")));
    // Latent attention has no such bias, whatever the argument.
    if (!arguments.isTrue("multi_latent_attention"))
      expect("add_qkv_bias", hasQkvBias, "see linear_qkv.bias in the rules");
    if (auto groups = arguments.integer("num_query_groups");
        groups && !arguments.isTrue("multi_latent_attention"))
      expect("group_query_attention",
             groups != arguments.integer("num_attention_heads"),
             "by num_query_groups and num_attention_heads");
    expect("num_layers", model.layers, "the model declares as many layers");
    expect("is_hybrid_model", model.megatron == "HybridModel",
           "by the model's Megatron class");
    expect("mtp_num_layers", static_cast<int64_t>(mtpLayers.size()),
           "by the MTP layers in the rules");
    checkSparseLayers();
    checkPattern();
    checkVocabulary();
    checkRotation();
    checkNumbers();
    reportMissing();
  }

private:
  void note(const std::string &name) {
    MegatronName parsed = parseMegatronName(name);
    if (isTowerName(name) || parsed.draft)
      return; // the arguments are the language model's
    for (size_t i = 0; i != given.size(); ++i)
      for (std::string_view tail : switches()[i].tails)
        given[i] = given[i] || name.ends_with(tail);
    hasQkvBias |= name.ends_with("linear_qkv.bias");
    if (parsed.mtp)
      mtpLayers.insert(*parsed.mtp);
    if (!parsed.layer)
      return;
    if (name.ends_with(".router.weight"))
      sparseLayers.insert(*parsed.layer);
    char symbol = name.find("mlp.router.") != name.npos        ? 'E'
                  : name.find(".mlp.linear_fc1.") != name.npos ? '-'
                  : name.find(".mixer.") != name.npos          ? 'M'
                  : name.find(".self_attention.") != name.npos ? attention
                                                               : 0;
    if (symbol)
      symbolOf[*parsed.layer] = symbol;
  }

  void expect(std::string_view argument, int64_t value, std::string why) {
    if (arguments.integer(argument).value_or(0) != value)
      diagnostics.warning(placeOf(argument),
                          fmt::format("Megatron's {} is {} here, and should be "
                                      "{}: {}",
                                      argument,
                                      arguments.integer(argument).value_or(0),
                                      value, why));
  }

  dsl::SourceRange placeOf(std::string_view argument) const {
    for (const dsl::ConfigField &field : model.config)
      if (field.name == argument)
        return field.where;
    return {};
  }

  /// moe_layer_freq is 1 where every layer has experts, else a list.
  void checkSparseLayers() {
    const dsl::Value *frequency = arguments.find("moe_layer_freq");
    // The pattern of a hybrid model says it.
    if (model.experts == 0 || (!frequency && model.megatron == "HybridModel"))
      return;
    auto wants = [&](int64_t layer) -> bool {
      if (!frequency)
        return true;
      if (auto *list =
              std::get_if<std::shared_ptr<const dsl::ValueList>>(frequency)) {
        if (layer >= static_cast<int64_t>((*list)->size()))
          return false;
        const auto *entry =
            std::get_if<int64_t>(&(**list)[static_cast<size_t>(layer)]);
        return entry && *entry == 1;
      }
      const auto *step = std::get_if<int64_t>(frequency);
      return step && *step > 0 && layer % *step == 0;
    };
    for (int64_t layer = 0; layer != model.layers; ++layer)
      if (wants(layer) != sparseLayers.contains(layer)) {
        diagnostics.warning(
            placeOf("moe_layer_freq"),
            fmt::format(
                "Megatron's moe_layer_freq gives layer {} {}, the rules "
                "give it {}",
                layer, wants(layer) ? "experts" : "no experts",
                wants(layer) ? "none" : "some"));
        return;
      }
  }

  /// A symbol of the pattern a layer: E with experts, - with a feed-forward, M
  /// with a Mamba mixer; attention has several.
  void checkPattern() {
    if (model.patternField.empty())
      return;
    const dsl::Value *value = arguments.find(model.patternField);
    const auto *text = value ? std::get_if<std::string>(value) : nullptr;
    std::string symbols;
    if (text)
      for (char symbol : text->substr(0, text->find('/')))
        if (symbol != '|')
          symbols += symbol;
    bool agree = static_cast<int64_t>(symbols.size()) == model.layers;
    for (const auto &[layer, symbol] : symbolOf)
      agree = agree && layer < model.layers &&
              symbol == (std::string_view("E-M").contains(
                             symbols[static_cast<size_t>(layer)])
                             ? symbols[static_cast<size_t>(layer)]
                             : attention);
    if (!agree)
      diagnostics.warning(
          placeOf(model.patternField),
          fmt::format("Megatron's {} is {}; the rules give {} layers of other "
                      "kinds",
                      model.patternField,
                      text ? fmt::format("\"{}\"", *text) : "not set",
                      model.layers));
  }

  /// Rows of embedding and head are a multiple of this times TP.
  void checkVocabulary() {
    constexpr int64_t block = 128; // Megatron's make_vocab_size_divisible_by
    if (model.vocabMultiple % block != 0)
      diagnostics.warning(
          {}, fmt::format("the vocabulary of {} is padded to multiples of {}; "
                          "Megatron's are multiples of {}",
                          model.name, model.vocabMultiple, block));
  }

  std::string_view word(std::string_view argument) const {
    const dsl::Value *value = arguments.find(argument);
    const auto *text = value ? std::get_if<std::string>(value) : nullptr;
    return text ? std::string_view(*text) : std::string_view();
  }

  std::optional<double> number(std::string_view argument) const {
    const dsl::Value *value = arguments.find(argument);
    if (const auto *real = value ? std::get_if<double>(value) : nullptr)
      return *real;
    if (auto integer = arguments.integer(argument))
      return static_cast<double>(*integer);
    return std::nullopt;
  }

  /// `argument` is null unless `isAsked`, which `by` says, and else is not.
  void expectGiven(std::string_view argument, bool isAsked,
                   std::string_view by) {
    if ((arguments.find(argument) != nullptr) != isAsked)
      diagnostics.warning(
          placeOf(argument),
          fmt::format("Megatron's {} is {} here, and should {}be: see {}",
                      argument, isAsked ? "null" : "not null",
                      isAsked ? "not " : "", by));
  }

  /// Each way to scale rotary positions has arguments of its own.
  void checkRotation() {
    const std::string_view kind = word("position_embedding_type");
    for (const dsl::ConfigField &field : model.config)
      if (field.name.starts_with("yarn_"))
        expectGiven(field.name, kind == "yarn", "position_embedding_type");
    if (arguments.isTrue("use_rope_scaling"))
      expectGiven("rope_scaling_factor", true, "use_rope_scaling");
    if (kind == "mrope")
      expectGiven("mrope_section", true, "position_embedding_type");
    if (kind == "rope")
      expectGiven("mrope_section", false, "position_embedding_type");
    if (number("rotary_seq_len_interpolation_factor") == 1)
      diagnostics.warning(placeOf("rotary_seq_len_interpolation_factor"),
                          "Megatron's rotary_seq_len_interpolation_factor is "
                          "1, which interpolates nothing: null says that");
  }

  /// What two arguments say alike, and numbers that no model has.
  void checkNumbers() {
    for (auto [one, other] :
         {std::pair("norm_epsilon", "layernorm_epsilon"),
          std::pair("seq_length", "max_position_embeddings")})
      if (number(one) != number(other))
        diagnostics.warning(placeOf(one),
                            fmt::format("Megatron's {} and {} differ here; "
                                        "config.json has one number for both",
                                        one, other));
    const auto share = number("rotary_percent"), head = number("kv_channels");
    if (share && head && !arguments.isTrue("multi_latent_attention"))
      if (*share * *head < 2 || *share > 1)
        diagnostics.warning(placeOf("rotary_percent"),
                            fmt::format("Megatron's rotary_percent is {}, of "
                                        "kv_channels {}: less than one pair, "
                                        "or more than there are",
                                        *share, *head));
    for (std::string_view dropout : {"attention_dropout", "hidden_dropout"})
      if (auto rate = number(dropout); rate && (*rate < 0 || *rate >= 1))
        diagnostics.warning(placeOf(dropout),
                            fmt::format("Megatron's {} is {}; nothing would be "
                                        "left",
                                        dropout, *rate));
  }

  void reportMissing() {
    std::vector<std::string_view> missing;
    auto look = [&](std::string_view name) {
      bool isSet = std::any_of(
          model.config.begin(), model.config.end(),
          [&](const dsl::ConfigField &field) { return field.name == name; });
      if (!isSet)
        missing.push_back(name);
    };
    for (std::string_view name : ofEveryDecoder)
      look(name);
    if (model.experts != 0)
      for (std::string_view name : ofExperts)
        look(name);
    if (!missing.empty())
      diagnostics.warning(
          {}, fmt::format("config of {} does not set {}: Megatron would take "
                          "its own default",
                          model.name, fmt::join(missing, ", ")));
  }

  const dsl::Model &model;
  dsl::Diagnostics &diagnostics;
  MegatronArguments arguments;
  std::vector<bool> given; ///< by switch
  bool hasQkvBias = false;
  std::set<int64_t> mtpLayers, sparseLayers;
  static constexpr char attention = '*';
  std::map<int64_t, char> symbolOf; ///< by layer, of what is told apart
};

} // namespace

void checkArguments(const dsl::Model &model, dsl::Diagnostics &diagnostics) {
  Arguments(model, diagnostics).check();
}

} // namespace mbc::compiler
