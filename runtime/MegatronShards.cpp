#include "runtime/MegatronShards.h"

#include "runtime/MegatronNames.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace mbc {
namespace {

template <size_t N>
bool isOneOf(std::string_view word,
             const std::array<std::string_view, N> &words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 18> columnParallel = {
    "embedder",         "video_embedder",
    "word_embeddings",  "output_layer",
    "linear_qkv",       "linear_q_proj",
    "linear_q_up_proj", "linear_kv_up_proj",
    "linear_k_up_proj", "linear_v_up_proj",
    "beta_proj",        "f_b_proj",
    "g_b_proj",         "f_proj",
    "g_proj",           "eh_proj",
    "e_proj",           "h_proj"};
constexpr std::array<std::string_view, 3> rowParallel = {
    "linear_proj", "linear_fc2", "out_proj"};
// Attention of some models keeps Hugging Face's names.
constexpr std::array<std::string_view, 9> columnParallelAttention = {
    "q_proj",   "k_proj",   "v_proj",   "b_proj",   "q_b_proj",
    "q_conv1d", "k_conv1d", "v_conv1d", "kv_b_proj"};
constexpr std::array<std::string_view, 5> bareRows = {
    "A_log", "dt_bias", "D", "softmax_offset", "attn_sink"};

/// The last two segments of a name without the expert's number.
struct Tail {
  std::string_view module, leaf;
};

Tail tailOf(std::string_view name) {
  size_t dot = name.rfind('.');
  Tail tail;
  tail.leaf = name.substr(dot == std::string_view::npos ? 0 : dot + 1);
  if (dot != std::string_view::npos) {
    std::string_view before = name.substr(0, dot);
    size_t second = before.rfind('.');
    tail.module =
        before.substr(second == std::string_view::npos ? 0 : second + 1);
  }
  for (std::string_view leaf : {"weight", "bias"})
    if (tail.leaf.starts_with(leaf) && parseMegatronName(name).expert)
      tail.leaf = leaf;
  return tail;
}

std::string sibling(std::string_view name, std::string_view from,
                    std::string_view to) {
  std::string other(name);
  size_t at = other.rfind(from);
  return at == std::string::npos ? std::string()
                                 : other.replace(at, from.size(), to);
}

/// fc1 is gated if it has two rows for each column of fc2.
bool isGated(const StoredTensor &fc1, const TensorLookup &lookup) {
  std::string name = sibling(fc1.name, "linear_fc1", "linear_fc2");
  if (size_t bias = name.rfind(".bias"); bias != std::string::npos)
    name.replace(bias, 5, ".weight");
  const StoredTensor *fc2 = lookup(name);
  return !fc2 || fc2->shape->rank() != 2 ||
         (*fc1.shape)[0] == 2 * (*fc2->shape)[1];
}

/// Sections of in_proj and conv1d from the shapes beside them. W: columns of
/// out_proj; C: channels of the convolution, two times K or S and W; n: rows of
/// dt_bias.
std::vector<int64_t> sectionsFromShapes(const StoredTensor &tensor,
                                        std::string_view module,
                                        const TensorLookup &lookup) {
  std::string prefix(tensor.name.substr(0, tensor.name.rfind(module)));
  const StoredTensor *out = lookup(prefix + "out_proj.weight");
  if (!out)
    out = lookup(prefix + "o_proj.weight");
  const StoredTensor *conv = lookup(prefix + "conv1d.weight");
  const StoredTensor *dt = lookup(prefix + "dt_bias");
  if (!out || !conv || !dt || out->shape->rank() != 2 || conv->shape->empty() ||
      dt->shape->empty())
    return {};
  int64_t w = (*out->shape)[1], k = ((*conv->shape)[0] - w) / 2,
          n = (*dt->shape)[0];
  bool mamba = prefix.ends_with("mixer.");
  std::vector<std::vector<int64_t>> forms;
  if (module == "conv1d")
    forms = {mamba ? std::vector{w, k, k} : std::vector{k, k, w}};
  else if (mamba)
    forms = {{w, w, k, k, n}};
  else
    forms = {
        {k, k, w}, {k, k, w, k, w}, {k, k, w, w, n, n}, {k, k, w, w, k, k, w}};
  for (const std::vector<int64_t> &form : forms) {
    int64_t rows = 0;
    for (int64_t section : form)
      rows += section;
    if (rows == (*tensor.shape)[0] && k > 0)
      return form;
  }
  return {};
}

/// A tower is whole on every rank, unless it is made of Megatron's own modules.
bool isWholeTower(std::string_view name) {
  constexpr std::string_view ownModules[] = {
      "vision_model.decoder.", "vision_model.merger.", "vision_model.embedder.",
      "vision_model.video_embedder.", "_projection.encoder."};
  return isTowerName(name) &&
         std::ranges::none_of(ownModules, [&](std::string_view part) {
           return name.contains(part);
         });
}

} // namespace

ShardRule shardRule(std::string_view name, size_t rank) {
  ShardRule rule;
  if (isWholeTower(name))
    return rule;
  rule.expert = parseMegatronName(name).expert.has_value();
  Tail tail = tailOf(name);
  if (name.ends_with("mixer.norm.weight")) {
    rule.cut = Cut::Rows;
    return rule;
  }
  auto has = [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  bool norm = tail.module.find("norm") != std::string_view::npos ||
              tail.leaf.find("norm") != std::string_view::npos;
  if (norm || has(".indexer.") || has("hyper_connection.") || has(".router."))
    return rule;
  if (isOneOf(tail.leaf, bareRows))
    rule.cut = Cut::Rows;
  if (tail.leaf != "weight" && tail.leaf != "bias")
    return rule;
  if (has(".engram.embed.tables.")) {
    rule.cut = Cut::ExpertRows;
    return rule;
  }
  const bool attention = has("self_attention.");
  if (isOneOf(tail.module, columnParallel) ||
      (attention && isOneOf(tail.module, columnParallelAttention)))
    rule.cut = Cut::Rows;
  else if (isOneOf(tail.module, rowParallel) ||
           (attention && tail.module == "o_proj"))
    rule.cut = rank == 2 ? Cut::Columns : Cut::None;
  else if (tail.module == "linear_fc1")
    rule.cut = Cut::Gated;
  else if (tail.module == "in_proj" || tail.module == "conv1d")
    rule.cut = Cut::Sections;
  return rule;
}

ShardRule shardRule(const StoredTensor &tensor, const TensorLookup &lookup) {
  const bool ofLabels =
      tailOf(tensor.name).module == "output_layer" &&
      (tensor.name.ends_with(".bias") ||
       lookup(sibling(tensor.name, ".weight", ".bias")) != nullptr);
  return ofLabels ? ShardRule{} : shardRule(tensor.name, tensor.shape->rank());
}

Result<std::vector<int64_t>> cutBlocks(const StoredTensor &tensor,
                                       const ShardRule &rule,
                                       const TensorLookup &lookup) {
  int64_t rows = tensor.shape->empty() ? 0 : (*tensor.shape)[0];
  if (rule.cut == Cut::Gated && isGated(tensor, lookup))
    return std::vector<int64_t>{rows / 2, rows - rows / 2};
  if (rule.cut != Cut::Sections)
    return std::vector<int64_t>{rows};
  if (!tensor.sections.empty())
    return std::vector(tensor.sections.begin(), tensor.sections.end());
  std::vector<int64_t> sections =
      sectionsFromShapes(tensor, tailOf(tensor.name).module, lookup);
  if (sections.empty())
    return fail("tensor {}: {} rows cannot be cut: the sections do not follow "
                "from out_proj.weight, conv1d.weight and dt_bias beside it",
                tensor.name, rows);
  return sections;
}

Result<ShardSizes> parseShardSizes(std::string_view text) {
  ShardSizes sizes;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    size_t equals = std::min(part.find('='), part.size());
    std::string_view name = part.substr(0, equals);
    int64_t *into = name == "tp"    ? &sizes.tp
                    : name == "pp"  ? &sizes.pp
                    : name == "ep"  ? &sizes.ep
                    : name == "etp" ? &sizes.etp
                                    : nullptr;
    std::string_view digits =
        equals == part.size() ? std::string_view() : part.substr(equals + 1);
    int64_t value = 0;
    auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (!into || code != std::errc() || end != digits.data() + digits.size() ||
        value < 1 || value > 1'000'000)
      return fail("\"{}\" in \"{}\" is no size; write tp=2,pp=1,ep=4,etp=1",
                  part, text);
    *into = value;
  }
  if (sizes.etp == 0)
    sizes.etp = sizes.tp;
  return sizes;
}

} // namespace mbc
