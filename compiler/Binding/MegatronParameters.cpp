#include "compiler/Binding/MegatronFacts.h"
#include "dsl/Expression.h"
#include "runtime/MegatronNames.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <ranges>
#include <set>

namespace mbc::compiler {
namespace {

/// The end of a parameter's name, without the expert's number, and its extents
/// as sums of products of arguments. A parameter may have several lines: one of
/// them has to fit. `*` fits everything, `gates` is 2 with a gated activation.
struct Parameter {
  std::string_view tail;
  std::vector<std::string_view> extents;
  bool hasState = true; ///< its module has a byte object
};

constexpr std::string_view h = "hidden_size";
constexpr std::string_view qRows =
    "num_attention_heads*qk_head_dim + num_attention_heads*qk_pos_emb_head_dim";
constexpr std::string_view headRows = "num_attention_heads*kv_channels";
constexpr std::string_view mambaChannels =
    "mamba_num_heads*mamba_head_dim + 2*mamba_num_groups*mamba_state_dim";
constexpr std::string_view mambaRows =
    "2*mamba_num_heads*mamba_head_dim + 2*mamba_num_groups*mamba_state_dim + "
    "mamba_num_heads";
constexpr std::string_view streamRows =
    "mhc_num_residual_streams*mhc_num_residual_streams + "
    "2*mhc_num_residual_streams";
constexpr std::string_view kimiRows =
    "kimi_linear_num_heads*kimi_linear_head_dim";
constexpr std::string_view qkvRows =
    "num_attention_heads*kv_channels + 2*num_query_groups*kv_channels";

const std::vector<Parameter> &parameters() {
  static const std::vector<Parameter> all = {
      {"embedding.word_embeddings.weight", {"*", h}, false},
      {"output_layer.weight", {"*", h}},
      {"decoder.final_layernorm.weight", {h}},
      {"decoder.final_norm.weight", {h}},
      {"input_layernorm.weight", {h}},
      {"pre_mlp_layernorm.weight", {h}},

      {"self_attention.linear_qkv.weight", {qkvRows, h}},
      {"self_attention.linear_qkv.weight",
       {"num_attention_heads*kv_channels + 2*num_query_groups*kv_channels + "
        "num_attention_heads",
        h}},
      // Values of another width; above, a gate for each head; below, for each
      // element.
      {"self_attention.linear_qkv.weight",
       {"num_attention_heads*kv_channels + num_query_groups*kv_channels + "
        "num_query_groups*v_head_dim",
        h}},
      {"self_attention.linear_qkv.weight",
       {"2*num_attention_heads*kv_channels + 2*num_query_groups*kv_channels",
        h}},
      {"self_attention.linear_qkv.bias", {qkvRows}},
      {"self_attention.linear_qkv.layer_norm_weight", {h}},
      {"self_attention.linear_proj.weight", {h, headRows}},
      {"self_attention.linear_proj.weight",
       {h, "num_attention_heads*v_head_dim"}},
      {"self_attention.linear_proj.weight", {h, "o_groups*o_lora_rank"}},
      {"self_attention.linear_proj.bias", {h}},
      {"self_attention.q_layernorm.weight", {"kv_channels"}},
      {"self_attention.q_layernorm.weight", {headRows}},
      {"self_attention.q_layernorm.weight", {"q_lora_rank"}},
      {"self_attention.k_layernorm.weight", {"kv_channels"}},
      {"self_attention.k_layernorm.weight", {"num_query_groups*kv_channels"}},

      {"self_attention.linear_q_proj.weight", {qRows, h}},
      {"self_attention.linear_q_down_proj.weight", {"q_lora_rank", h}},
      {"self_attention.linear_q_up_proj.weight", {qRows, "q_lora_rank"}},
      {"self_attention.linear_q_up_proj.weight", {headRows, "q_lora_rank"}},
      {"self_attention.linear_q_up_proj.layer_norm_weight", {"q_lora_rank"}},
      {"self_attention.linear_kv_down_proj.weight",
       {"kv_lora_rank + qk_pos_emb_head_dim", h}},
      {"self_attention.linear_kv_up_proj.weight",
       {"num_attention_heads*qk_head_dim + num_attention_heads*v_head_dim",
        "kv_lora_rank"}},
      {"self_attention.linear_kv_up_proj.layer_norm_weight", {"kv_lora_rank"}},
      {"self_attention.kv_layernorm.weight", {"kv_lora_rank"}},
      {"self_attention.kv_layernorm.weight", {"kv_channels"}},
      {"indexer.linear_wq_b.weight",
       {"dsa_indexer_n_heads*dsa_indexer_head_dim", "q_lora_rank"}},
      {"indexer.linear_wk.weight", {"dsa_indexer_head_dim", h}},
      {"indexer.k_norm.weight", {"dsa_indexer_head_dim"}},
      {"indexer.k_norm.bias", {"dsa_indexer_head_dim"}},
      {"indexer.linear_weights_proj.weight", {"dsa_indexer_n_heads", h}},

      {"mlp.linear_fc1.weight", {"gates*ffn_hidden_size", h}},
      {"mlp.linear_fc1.layer_norm_weight", {h}},
      {"mlp.linear_fc2.weight", {h, "ffn_hidden_size"}},
      {"mlp.router.weight", {"num_experts", h}, false},
      {"mlp.router.bias", {"num_experts"}, false},
      {"mlp.router.expert_bias", {"num_experts"}, false},
      {"mlp.experts.linear_fc1.weight", {"gates*moe_ffn_hidden_size", h}},
      {"mlp.experts.linear_fc2.weight", {h, "moe_ffn_hidden_size"}},
      {"mlp.experts.linear_fc1.weight",
       {"gates*moe_ffn_hidden_size", "moe_latent_size"}},
      {"mlp.experts.linear_fc2.weight",
       {"moe_latent_size", "moe_ffn_hidden_size"}},
      {"mlp.shared_experts.linear_fc1.weight",
       {"gates*moe_shared_expert_intermediate_size", h}},
      {"mlp.shared_experts.linear_fc2.weight",
       {h, "moe_shared_expert_intermediate_size"}},

      {"enorm.weight", {h}},
      {"hnorm.weight", {h}},
      {"eh_proj.weight", {h, "2*hidden_size"}},
      {"e_proj.weight", {h, h}},
      {"h_proj.weight", {h, h}},
      {"final_layernorm.weight", {h}},

      // Linear attention: KDA, then gated delta networks.
      {"self_attention.in_proj.weight",
       {"2*linear_num_key_heads*linear_key_head_dim + "
        "linear_num_value_heads*linear_value_head_dim",
        h}},
      {"self_attention.in_proj.weight",
       {"2*linear_num_key_heads*linear_key_head_dim + "
        "2*linear_num_value_heads*linear_value_head_dim + "
        "2*linear_num_value_heads",
        h}},
      {"self_attention.conv1d.weight",
       {"2*linear_num_key_heads*linear_key_head_dim + "
        "linear_num_value_heads*linear_value_head_dim",
        "1", "linear_conv_kernel_dim"},
       false},
      {"self_attention.beta_proj.weight", {"linear_num_value_heads", h}},
      {"self_attention.f_a_proj.weight", {"linear_value_head_dim", h}},
      {"self_attention.g_a_proj.weight", {"linear_value_head_dim", h}},
      {"self_attention.f_b_proj.weight",
       {"linear_num_value_heads*linear_value_head_dim",
        "linear_value_head_dim"}},
      {"self_attention.g_b_proj.weight",
       {"linear_num_value_heads*linear_value_head_dim",
        "linear_value_head_dim"}},
      {"self_attention.A_log", {"linear_num_value_heads"}, false},
      {"self_attention.dt_bias", {"linear_num_value_heads"}, false},
      {"self_attention.dt_bias",
       {"linear_num_value_heads*linear_value_head_dim"},
       false},
      {"self_attention.out_norm.weight", {"linear_value_head_dim"}},
      {"self_attention.out_proj.weight",
       {h, "linear_num_value_heads*linear_value_head_dim"}},

      // Where the indexer's parts stand in the attention itself.
      {"self_attention.wq_b.weight",
       {"dsa_indexer_n_heads*dsa_indexer_head_dim", "q_lora_rank"}},
      {"self_attention.wk.weight", {"dsa_indexer_head_dim", h}},
      {"self_attention.k_norm.weight", {"dsa_indexer_head_dim"}},
      {"self_attention.k_norm.bias", {"dsa_indexer_head_dim"}},
      {"self_attention.weights_proj.weight", {"dsa_indexer_n_heads", h}},

      // Linear and latent attention under Hugging Face's names.
      {"self_attention.q_proj.weight", {kimiRows, h}},
      {"self_attention.q_proj.weight",
       {"linear_num_key_heads*linear_key_head_dim", h}},
      {"self_attention.q_conv1d.weight", {"*", "1", "*"}, false},
      {"self_attention.k_proj.weight", {kimiRows, h}},
      {"self_attention.k_proj.weight",
       {"linear_num_key_heads*linear_key_head_dim", h}},
      {"self_attention.k_conv1d.weight", {"*", "1", "*"}, false},
      {"self_attention.v_proj.weight", {kimiRows, h}},
      {"self_attention.v_proj.weight",
       {"linear_num_key_heads*linear_key_head_dim", h}},
      {"self_attention.v_conv1d.weight", {"*", "1", "*"}, false},
      {"self_attention.b_proj.weight", {"kimi_linear_num_heads", h}},
      {"self_attention.b_proj.weight", {"linear_num_value_heads", h}},
      {"self_attention.f_a_proj.weight", {"kimi_linear_head_dim", h}},
      {"self_attention.f_b_proj.weight", {kimiRows, "kimi_linear_head_dim"}},
      {"self_attention.g_proj.weight", {kimiRows, h}},
      {"self_attention.g_proj.weight", {"num_attention_heads*v_head_dim", h}},
      {"self_attention.o_proj.weight", {h, kimiRows}},
      {"self_attention.o_proj.weight", {h, "num_attention_heads*v_head_dim"}},
      {"self_attention.o_proj.weight",
       {h, "linear_num_value_heads*linear_value_head_dim"}},
      {"self_attention.q_a_proj.weight", {"q_lora_rank", h}},
      {"self_attention.q_b_proj.weight", {qRows, "q_lora_rank"}},
      {"self_attention.kv_a_proj_with_mqa.weight",
       {"kv_lora_rank + qk_pos_emb_head_dim", h}},
      {"self_attention.kv_b_proj.weight",
       {"num_attention_heads*qk_head_dim + num_attention_heads*v_head_dim",
        "kv_lora_rank"}},
      {"self_attention.A_log", {"kimi_linear_num_heads"}, false},
      {"self_attention.dt_bias", {kimiRows}, false},
      {"self_attention.o_norm.weight", {"kimi_linear_head_dim"}, false},
      {"self_attention.o_norm.weight", {"linear_value_head_dim"}, false},
      {"self_attention.q_a_layernorm.weight", {"q_lora_rank"}, false},
      {"self_attention.kv_a_layernorm.weight", {"kv_lora_rank"}, false},

      {"mixer.in_proj.weight", {mambaRows, h}},
      {"mixer.conv1d.weight", {mambaChannels, "1", "*"}, false},
      {"mixer.conv1d.bias", {mambaChannels}, false},
      {"mixer.out_proj.weight", {h, "mamba_num_heads*mamba_head_dim"}},
      {"mamba_mixer.in_proj.weight", {mambaRows, h}},
      {"mamba_mixer.conv1d.weight", {mambaChannels, "1", "*"}, false},
      {"mamba_mixer.conv1d.bias", {mambaChannels}, false},
      {"mamba_mixer.out_proj.weight", {h, "mamba_num_heads*mamba_head_dim"}},

      {"hyper_connection.mapping_proj.weight",
       {streamRows, "mhc_num_residual_streams*hidden_size"},
       false},
      {"hyper_connection.bias", {streamRows}, false},
      {"self_attention_hyper_connection.mapping_proj.weight",
       {"*", "*"},
       false},
      {"mlp_hyper_connection.mapping_proj.weight", {"*", "*"}, false},
  };
  return all;
}

/// Norms whose names in Hugging Face tell where they stand.
constexpr std::pair<std::string_view, std::string_view> contradictions[] = {
    {"linear_qkv.layer_norm_weight", "post_attention_layernorm.weight"},
    {"input_layernorm.weight", "post_attention_layernorm.weight"},
    {"linear_fc1.layer_norm_weight", "input_layernorm.weight"},
    {"pre_mlp_layernorm.weight", "input_layernorm.weight"},
    {"enorm.weight", "pre_fc_norm_hidden.weight"},
    {"hnorm.weight", "pre_fc_norm_embedding.weight"},
    {"enorm.weight", "hnorm.weight"},
    {"hnorm.weight", "enorm.weight"},
    {"enorm.weight", "shared_head.norm.weight"},
    {"hnorm.weight", "shared_head.norm.weight"},
    {"final_layernorm.weight", "enorm.weight"},
    {"final_layernorm.weight", "hnorm.weight"},
    {"linear_qkv.layer_norm_weight", "norm2.weight"},
    {"linear_qkv.layer_norm_bias", "norm2.bias"},
    {"linear_fc1.layer_norm_weight", "norm1.weight"},
    {"linear_fc1.layer_norm_bias", "norm1.bias"},
};

bool endsIn(std::string_view name, std::string_view tail) {
  return name.ends_with(tail) && (name.size() == tail.size() ||
                                  name[name.size() - tail.size() - 1] == '.');
}

/// "mlp.experts.linear_fc1.weight12" and "mlp.experts.local_experts.12.
/// linear_fc1.weight" to "mlp.experts.linear_fc1.weight".
std::string withoutExpert(std::string name) {
  MegatronName parsed = parseMegatronName(name);
  if (!parsed.expert)
    return name;
  std::string number = std::to_string(*parsed.expert);
  if (parsed.sequential) {
    std::string part = "local_experts." + number + ".";
    return name.replace(name.find(part), part.size(), "");
  }
  return name.substr(0, name.size() - number.size());
}

std::string_view parentOf(std::string_view name) {
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

std::string_view lastTwo(std::string_view name) {
  std::string_view parent = parentOf(name);
  size_t dot = parent.rfind('.');
  return dot == parent.npos ? name : name.substr(dot + 1);
}

/// Whether the table and Megatron's containers have all segments of a name. A
/// module of a model's own may hold anything.
bool allKnown(std::string_view name) {
  static const std::set<std::string_view> known = [] {
    std::set<std::string_view> words{
        "language_model",  "decoder",           "layers",     "mtp",
        "mtp_model_layer", "transformer_layer", "inner_layer"};
    for (const Parameter &parameter : parameters())
      for (auto part : std::views::split(parameter.tail, '.'))
        words.emplace(part.begin(), part.end());
    return words;
  }();
  return std::ranges::all_of(std::views::split(name, '.'), [](auto part) {
    std::string_view word(part.begin(), part.end());
    return known.contains(word) ||
           word.find_first_not_of("0123456789") == std::string_view::npos;
  });
}

/// The table with a model's arguments filled in.
class KnownShapes {
public:
  explicit KnownShapes(const dsl::Model &model) : arguments(model) {}

  /// Whether a line of the table fits; in any case what it expects, in words.
  bool fits(const Parameter &known, const Shape &shape,
            std::string &expected) const {
    std::vector<std::string> extents;
    bool all = shape.rank() == known.extents.size();
    for (size_t dim = 0; dim != known.extents.size(); ++dim) {
      std::string text(known.extents[dim]);
      if (text != "*") {
        // An argument that is not set fits nothing.
        int64_t value = sum(text).value_or(-1);
        all = all && shape[dim] == value;
        if (value >= 0)
          text += fmt::format(" = {}", value);
      }
      extents.push_back(text);
    }
    expected = fmt::format("[{}]", fmt::join(extents, ", "));
    return all;
  }

  bool isTrue(std::string_view name) const { return arguments.isTrue(name); }

  /// A sum of products of arguments; nothing if one of them is not set.
  std::optional<int64_t> sum(std::string_view text) const {
    int64_t total = 0;
    for (auto term : std::views::split(text, std::string_view(" + "))) {
      int64_t product = 1;
      for (auto part : std::views::split(term, '*')) {
        std::string_view word(part.begin(), part.end());
        std::optional<int64_t> value = factor(word);
        if (!value)
          return std::nullopt;
        product *= *value;
      }
      total += product;
    }
    return total;
  }

private:
  std::optional<int64_t> factor(std::string_view word) const {
    if (word == "gates")
      return arguments.gates();
    int64_t number = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), number).ec ==
        std::errc())
      return number;
    return arguments.integer(word);
  }

  MegatronArguments arguments;
};

class Parameters {
public:
  Parameters(const dsl::Model &model, const Binding &binding,
             dsl::Diagnostics &diagnostics)
      : model(model), binding(binding), diagnostics(diagnostics),
        shapes(model) {}

  void check() {
    for (const BoundClass &bound : binding.classes)
      for (size_t k = 0; k != bound.type.megatron.size(); ++k)
        note(bound, k);
    reportStates();
    // Then each layer has arguments of its own.
    bool fitsAnyway = shapes.isTrue("heterogeneous_block_specs");
    if (!fitsAnyway && reportContradictions())
      return; // the shapes below follow from it
    for (const auto &[tail, seen] : byTail)
      if (seen.mapping && (varies(tail) ? !seen.fits && !fitsAnyway : true))
        warn(*seen.mapping, seen.problem);
  }

private:
  /// The classes of one parameter: whether one fits, and the last that does
  /// not.
  struct Seen {
    bool fits = false;
    const dsl::Mapping *mapping = nullptr;
    std::string problem;
  };

  /// The tensors whose extent a sum of arguments gives: whether one has it, and
  /// the first that has not.
  struct Extents {
    bool fits = false;
    const BoundClass *bound = nullptr;
    size_t operand = 0, dim = 0;
  };

  /// Layers of one model may have other heads and widths than its arguments
  /// name; then it is enough that one class fits.
  static bool varies(std::string_view tail) {
    return tail.starts_with("self_attention.") ||
           tail.starts_with("mlp.linear");
  }

  void warn(const dsl::Mapping &mapping, std::string text) {
    diagnostics.warning(mapping.where, std::move(text), mapping.expansion);
  }

  void note(const BoundClass &bound, size_t operand) {
    const dsl::RuleInstance &instance =
        model.instances[bound.instances.front()];
    const std::string &name = instance.megatron[operand];
    const dsl::Mapping &mapping = *bound.type.mapping;
    std::string plain = withoutExpert(name);
    noteNames(instance, name, plain, mapping);
    if (isTowerName(name))
      return;
    std::string_view tail;
    bool isElsewhere = false, hasState = false;
    std::string wanted;
    bool isFit = false;
    for (const Parameter &known : parameters()) {
      if (!endsIn(plain, known.tail)) {
        isElsewhere |= lastTwo(plain) == lastTwo(known.tail);
        continue;
      }
      tail = known.tail;
      hasState |= known.hasState;
      std::string expected;
      isFit |= shapes.fits(known, bound.type.megatron[operand].shape, expected);
      wanted += (wanted.empty() ? "" : " or ") + expected;
    }
    const bool hasShape = !tail.empty() && !isDraftName(name); // of its own
    if (hasShape && isFit)
      byTail[tail].fits = true;
    else if (hasShape)
      byTail[tail] = {
          byTail[tail].fits, &mapping,
          fmt::format("{} has shape {}; Megatron's arguments give it {}", name,
                      toString(bound.type.megatron[operand].shape), wanted)};
    if (hasShape)
      noteExtents(bound, operand, tail);
    if (hasState)
      needState(plain, mapping);
    if (tail.empty() && isElsewhere && allKnown(plain))
      warn(mapping, fmt::format("{}: Megatron has no {} at this place", name,
                                lastTwo(plain)));
  }

  /// What the names of both sides say against one another.
  void noteNames(const dsl::RuleInstance &instance, const std::string &name,
                 std::string_view plain, const dsl::Mapping &mapping) {
    const std::vector<std::string> &hf = instance.hf;
    if (hf.size() == 1)
      for (auto [megatron, source] : contradictions)
        if (endsIn(name, megatron) && endsIn(hf.front(), source))
          warn(mapping, fmt::format("{} is read from {}: two norms have "
                                    "changed places",
                                    name, hf.front()));
    // w1, w2 and w3 are gate, down and up.
    if (hf.size() == 2 && endsIn(plain, "linear_fc1.weight") &&
        endsIn(hf[0], "w3.weight") && endsIn(hf[1], "w1.weight"))
      warn(mapping, fmt::format("{} is read from {} and {}: gate and up have "
                                "changed places",
                                name, hf[0], hf[1]));
    for (auto [own, other] :
         {std::pair("weight", "bias"), std::pair("bias", "weight")})
      if (instance.megatron.size() == 1 && !hf.empty() && endsIn(plain, own) &&
          std::ranges::all_of(hf, [&](const std::string &source) {
            return endsIn(source, other);
          }))
        warn(mapping, fmt::format("{} is read from {}: a {} from a {}", name,
                                  hf.front(), own, other));
  }

  /// Of the extents that all lines of the table give a parameter alike.
  void noteExtents(const BoundClass &bound, size_t operand,
                   std::string_view tail) {
    const Shape &shape = bound.type.megatron[operand].shape;
    const Parameter *first = nullptr;
    std::vector<bool> agreed;
    for (const Parameter &line : parameters()) {
      if (line.tail != tail)
        continue;
      if (!first) {
        first = &line;
        agreed.assign(line.extents.size(), true);
      }
      if (line.extents.size() != shape.rank() ||
          line.extents.size() != agreed.size())
        return;
      for (size_t dim = 0; dim != agreed.size(); ++dim)
        agreed[dim] = agreed[dim] && line.extents[dim] == first->extents[dim];
    }
    for (size_t dim = 0; dim != agreed.size(); ++dim) {
      const std::string_view text = first->extents[dim];
      std::optional<int64_t> value =
          agreed[dim] && text != "*" ? shapes.sum(text) : std::nullopt;
      if (!value)
        continue;
      Extents &seen = byExtent[text];
      if (shape[dim] == *value)
        seen.fits = true;
      else if (!seen.bound)
        seen = {seen.fits, &bound, operand, dim};
    }
  }

  /// Numbers that no tensor at all has: Megatron would build another model than
  /// the weights are of. Whether there are any.
  bool reportContradictions() {
    bool found = false;
    for (const auto &[text, seen] : byExtent)
      if (seen.bound && !seen.fits) {
        found = true;
        contradicts(text, seen);
      }
    return found;
  }

  void contradicts(std::string_view text, const Extents &seen) {
    const dsl::RuleInstance &instance =
        model.instances[seen.bound->instances.front()];
    const dsl::Mapping &mapping = *seen.bound->type.mapping;
    std::string stored;
    if (instance.hf.size() == 1)
      stored = fmt::format(", as {} has shape {}", instance.hf.front(),
                           toString(seen.bound->type.hf.front().shape));
    diagnostics.error(
        mapping.where,
        fmt::format("Megatron's {} is {}, but {} has {} along dimension {}{}{}",
                    text, *shapes.sum(text), instance.megatron[seen.operand],
                    seen.bound->type.megatron[seen.operand].shape[seen.dim],
                    seen.dim, stored, dsl::correction(fieldsOf(text))),
        mapping.expansion);
  }

  /// What config.json has of the arguments in a sum.
  std::string fieldsOf(std::string_view text) const {
    std::string said;
    for (const dsl::ConfigField &field : model.config)
      if (contains(text, field.name) && !field.configFields.empty() &&
          !said.contains(field.configFields))
        said += (said.empty() ? "" : ", ") + field.configFields;
    return said;
  }

  static bool contains(std::string_view text, std::string_view argument) {
    for (auto term : std::views::split(text, std::string_view(" + ")))
      for (auto part : std::views::split(term, '*'))
        if (std::string_view(part.begin(), part.end()) == argument)
          return true;
    return false;
  }

  void needState(const std::string &name, const dsl::Mapping &mapping) {
    if (states.empty())
      for (const dsl::ExtraState &state : model.extraStates)
        states.insert(state.module);
    std::string module(parentOf(name));
    if (!states.contains(module) && stateless.insert(module).second)
      stateOf.emplace(lastTwo(name), std::pair(&mapping, module));
  }

  /// Once for each kind of module.
  void reportStates() {
    for (const auto &[kind, place] : stateOf)
      warn(
          *place.first,
          fmt::format("Megatron's loaders ask for a byte object of {}; name it "
                      "after extra_state",
                      place.second));
  }

  const dsl::Model &model;
  const Binding &binding;
  dsl::Diagnostics &diagnostics;
  KnownShapes shapes;
  std::map<std::string_view, Seen> byTail;
  std::map<std::string_view, Extents> byExtent;
  std::set<std::string> states, stateless;
  std::map<std::string, std::pair<const dsl::Mapping *, std::string>> stateOf;
};

} // namespace

void checkParameters(const dsl::Model &model, const Binding &binding,
                     dsl::Diagnostics &diagnostics) {
  Parameters(model, binding, diagnostics).check();
}

std::string shapeByArguments(const dsl::Model &model, const std::string &name) {
  KnownShapes shapes(model);
  std::string wanted;
  for (const Parameter &known : parameters()) {
    if (!endsIn(withoutExpert(name), known.tail))
      continue;
    std::string expected;
    shapes.fits(known, {}, expected);
    wanted += (wanted.empty() ? "" : " or ") + expected;
  }
  return wanted;
}

} // namespace mbc::compiler
