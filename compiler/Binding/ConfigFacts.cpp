#include "compiler/Binding/ConfigFacts.h"

#include "dsl/ConfigJson.h"

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

/// The group size on which all config_groups agree.
static std::optional<int64_t> groupSize(const ConfigNode &quantization) {
  const ConfigNode *groups = quantization.find("config_groups");
  std::optional<int64_t> size;
  for (size_t i = 0; groups && i != groups->members.size(); ++i) {
    const ConfigNode *weights = groups->members[i].value.find("weights");
    const ConfigNode *group = weights ? weights->find("group_size") : nullptr;
    if (!group || !isExtent(*group) || (size && *size != group->integer))
      return std::nullopt;
    size = group->integer;
  }
  return size;
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
  found.group = groupSize(*quantization);
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
