#include "compiler/Binding/ConfigFacts.h"

#include "dsl/ConfigJson.h"

#include <charconv>
#include <utility>

namespace mbc::compiler {

using dsl::ConfigNode;

static std::string stringOf(const ConfigNode &object, std::string_view field) {
  const ConfigNode *node = object.find(field);
  return node ? node->text : "";
}

static std::optional<DType> dtypeOf(const ConfigNode &object) {
  for (const char *field : {"dtype", "torch_dtype"}) {
    std::string word = stringOf(object, field);
    std::string_view name = word;
    if (name.starts_with("torch."))
      name.remove_prefix(6);
    if (std::optional<DType> dtype = dtypeFromTorch(name))
      return dtype;
  }
  return std::nullopt;
}

static bool isExtent(const ConfigNode &node) {
  return node.kind == ConfigNode::Kind::Int && node.integer >= 1;
}

/// What all config_groups say of a field of their weights, as `valueOf` reads
/// it; nothing if one of them says nothing, or another thing.
template <typename ValueOf>
static auto agreed(const ConfigNode &quantization, std::string_view field,
                   ValueOf valueOf)
    -> decltype(valueOf(std::declval<ConfigNode>())) {
  const ConfigNode *groups = quantization.find("config_groups");
  decltype(valueOf(std::declval<ConfigNode>())) common;
  for (size_t i = 0; groups && i != groups->members.size(); ++i) {
    const ConfigNode *weights = groups->members[i].value.find("weights");
    const ConfigNode *node = weights ? weights->find(field) : nullptr;
    auto value = node ? valueOf(*node) : std::nullopt;
    if (!value || (common && common != value))
      return std::nullopt;
    common = value;
  }
  return common;
}

static std::optional<int64_t> asExtent(const ConfigNode &node) {
  return isExtent(node) ? std::optional(node.integer) : std::nullopt;
}

static std::optional<bool> asFlag(const ConfigNode &node) {
  return node.kind == ConfigNode::Kind::Bool ? std::optional(node.integer != 0)
                                             : std::nullopt;
}

static std::optional<std::string> asWord(const ConfigNode &node) {
  return node.kind == ConfigNode::Kind::String ? std::optional(node.text)
                                               : std::nullopt;
}

/// [128, 128], or "128x128" as older writers have it.
static std::optional<std::array<int64_t, 2>> asBlock(const ConfigNode &node) {
  if (node.items.size() == 2 && isExtent(node.items[0]) &&
      isExtent(node.items[1]))
    return {{node.items[0].integer, node.items[1].integer}};
  int64_t rows = 0, columns = 0;
  const char *begin = node.text.data(), *end = begin + node.text.size();
  auto [cross, first] = std::from_chars(begin, end, rows);
  if (first != std::errc() || cross == end || *cross != 'x')
    return std::nullopt;
  auto [last, second] = std::from_chars(cross + 1, end, columns);
  if (second != std::errc() || last != end || rows < 1 || columns < 1)
    return std::nullopt;
  return {{rows, columns}};
}

static void readConfigGroups(const ConfigNode &quantization,
                             Quantization &found) {
  found.bits = agreed(quantization, "num_bits", asExtent);
  found.group = agreed(quantization, "group_size", asExtent);
  found.type = agreed(quantization, "type", asWord).value_or("");
  found.strategy = agreed(quantization, "strategy", asWord).value_or("");
  found.actorder = agreed(quantization, "actorder", asWord).value_or("");
  found.symmetric = agreed(quantization, "symmetric", asFlag);
  if (found.strategy == "block")
    found.block = agreed(quantization, "block_structure", asBlock);
}

static Result<void> readQuantization(std::string_view text,
                                     const ConfigNode &config,
                                     ConfigFacts &facts,
                                     std::string_view origin) {
  const ConfigNode *quantization = config.find("quantization_config");
  if (!quantization || quantization->kind != ConfigNode::Kind::Object)
    return {};
  Quantization &found = facts.quantization.emplace();
  found.method = stringOf(*quantization, "quant_method");
  readConfigGroups(*quantization, found);
  for (const char *field : {"modules_to_not_convert", "ignore"})
    if (const ConfigNode *names = quantization->find(field))
      for (const ConfigNode &name : names->items)
        found.excepted.push_back(name.text);
  const ConfigNode *block = quantization->find("weight_block_size");
  if (!block || block->kind == ConfigNode::Kind::Null)
    return {};
  if (block->items.size() != 2 || !isExtent(block->items[0]) ||
      !isExtent(block->items[1]))
    return fail("{}: quantization_config.weight_block_size is {}; two positive "
                "integers are expected",
                origin, text.substr(block->begin, block->end - block->begin));
  found.block = {block->items[0].integer, block->items[1].integer};
  return {};
}

/// A list of class names; null and absence are an empty one.
static Result<void> readArchitectures(std::string_view text,
                                      const ConfigNode &config,
                                      ConfigFacts &facts,
                                      std::string_view origin) {
  const ConfigNode *names = config.find("architectures");
  if (!names || names->kind == ConfigNode::Kind::Null)
    return {};
  bool good = names->kind == ConfigNode::Kind::List;
  for (const ConfigNode &name : names->items) {
    good &= name.kind == ConfigNode::Kind::String;
    facts.architectures.push_back(name.text);
  }
  if (good)
    return {};
  return fail("{}: architectures is {}; a list of class names is expected, as "
              "[\"LlamaForCausalLM\"]",
              origin, text.substr(names->begin, names->end - names->begin));
}

Result<ConfigFacts> readConfigFacts(std::string_view text,
                                    std::string_view origin) {
  Result<ConfigNode> config = dsl::parseConfig(text, origin);
  if (!config)
    return std::unexpected(config.error());
  ConfigFacts facts;
  if (Result<void> read = readArchitectures(text, *config, facts, origin);
      !read)
    return std::unexpected(read.error());
  facts.modelType = stringOf(*config, "model_type");
  std::optional<DType> dtype = dtypeOf(*config);
  const ConfigNode *inner = config->find("text_config");
  if (inner && !dtype)
    dtype = dtypeOf(*inner);
  facts.dtype = dtype.value_or(DType::BF16);
  const ConfigNode *outer = &*config;
  for (const ConfigNode *object : {outer, inner})
    if (object && !facts.quantization)
      if (Result<void> read = readQuantization(text, *object, facts, origin);
          !read)
        return std::unexpected(read.error());
  return facts;
}

} // namespace mbc::compiler
