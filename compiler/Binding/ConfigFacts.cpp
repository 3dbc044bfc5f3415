#include "compiler/Binding/ConfigFacts.h"

#include "dsl/ConfigJson.h"

#include <optional>

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

static Result<void> readQuantisation(std::string_view text,
                                     const ConfigNode &config,
                                     ConfigFacts &facts,
                                     std::string_view origin) {
  const ConfigNode *quantisation = config.find("quantization_config");
  if (!quantisation || quantisation->kind != ConfigNode::Kind::Object)
    return {};
  facts.quantised = true;
  facts.quantMethod = stringOf(*quantisation, "quant_method");
  const ConfigNode *block = quantisation->find("weight_block_size");
  if (!block || block->kind == ConfigNode::Kind::Null)
    return {};
  auto isExtent = [](const ConfigNode &node) {
    return node.kind == ConfigNode::Kind::Int && node.integer >= 1;
  };
  if (block->items.size() != 2 || !isExtent(block->items[0]) ||
      !isExtent(block->items[1]))
    return fail("{}: quantization_config.weight_block_size is {}; two positive "
                "integers are expected",
                origin, text.substr(block->begin, block->end - block->begin));
  facts.blockRows = block->items[0].integer;
  facts.blockColumns = block->items[1].integer;
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
  if (const ConfigNode *inner = config->find("text_config"); inner && !dtype)
    dtype = dtypeOf(*inner);
  facts.dtype = dtype.value_or(DType::BF16);
  if (Result<void> read = readQuantisation(text, *config, facts, origin); !read)
    return std::unexpected(read.error());
  return facts;
}

} // namespace mbc::compiler
