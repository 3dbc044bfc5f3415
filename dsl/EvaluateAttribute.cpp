#include "dsl/Evaluation.h"

#include <bit>

#include <fmt/format.h>

namespace mbc::dsl {

const AttributeWord *Evaluation::wordOf(const Attribute &attribute) {
  if (!attribute.condition)
    return &attribute.value;
  std::optional<bool> holds = values.condition(*attribute.condition);
  if (!holds)
    return nullptr;
  return *holds ? &attribute.value : &attribute.otherwise;
}

bool Evaluation::attributeKey(const Rule &rule) {
  for (const Attribute &attribute : rule.attributes) {
    const AttributeWord *word = wordOf(attribute);
    if (!word)
      return false;
    key.push_back(std::bit_cast<int64_t>(word));
    // Only column(H, G) and dim(k) hold numbers; the other words name words.
    if (word->word != "column" && word->word != "dim")
      continue;
    for (const Argument &argument : word->arguments) {
      std::optional<int64_t> value = values.integer(*argument.value);
      if (!value)
        return false;
      key.push_back(*value);
    }
  }
  return true;
}

void Evaluation::setShard(Shard &shard, const AttributeWord &word) {
  static const std::unordered_map<std::string_view, ShardKind> kinds{
      {"replicated", ShardKind::Replicated},
      {"column", ShardKind::Column},
      {"row", ShardKind::Row},
      {"vocab", ShardKind::Vocab},
      {"gated", ShardKind::Gated},
      {"section", ShardKind::Section},
      {"dim", ShardKind::Dim},
      {"expert_rows", ShardKind::ExpertRows}};
  if (word.word == "expert") {
    shard.expert = true;
    shard.kind = kinds.at(word.arguments[0].value->name->spelling);
    return;
  }
  shard.kind = kinds.at(word.word);
  if (shard.kind == ShardKind::ExpertRows && model.experts == 0)
    reporter.error(word.where, "'expert_rows' deals rows out over the expert "
                               "ranks, and the model declares no experts");
  for (const Argument &argument : word.arguments) {
    if (shard.kind == ShardKind::Section) {
      shard.sections.push_back(argument.value->name->spelling);
      continue;
    }
    int64_t value = values.integer(*argument.value).value_or(0);
    if (shard.kind == ShardKind::Dim)
      shard.dim = value;
    else
      shard.heads.push_back(value);
  }
}

void Evaluation::setAttribute(Mapping &mapping, const Attribute &attribute) {
  const AttributeWord *word = wordOf(attribute);
  if (!word)
    return;
  if (attribute.key == "shard") {
    setShard(mapping.shard, *word);
  } else if (attribute.key == "dim") {
    mapping.shard.kind = ShardKind::Dim;
    mapping.shard.dim = std::stoll(word->word);
  } else if (attribute.key == "stage") {
    mapping.stage = stageOf({&attribute, 1});
  } else if (attribute.key == "dtype") {
    mapping.dtype = word->word;
  } else if (attribute.key == "hf_dtype") {
    mapping.hfDType = word->word;
  }
}

Stage Evaluation::stageOf(std::span<const Attribute> attributes) {
  static const std::unordered_map<std::string_view, Stage> stages{
      {"first", Stage::First},
      {"last", Stage::Last},
      {"first_and_last", Stage::FirstAndLast}};
  for (const Attribute &attribute : attributes)
    if (attribute.key == "stage")
      if (const AttributeWord *word = wordOf(attribute))
        return stages.at(word->word);
  return Stage::ByName;
}

} // namespace mbc::dsl
