#include "dsl/Check.h"

#include <algorithm>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::vector<std::string> shardWords{
    "replicated", "column", "row",    "vocab",      "gated",
    "section",    "dim",    "expert", "expert_rows"};

std::string knownWords(const std::string &word,
                       const std::vector<std::string> &words) {
  std::string near = didYouMean(word, words);
  return near.empty() ? fmt::format("; known are {}", fmt::join(words, ", "))
                      : fmt::format("; did you mean '{}'?", near);
}

} // namespace

void Checker::attributes(const std::vector<Attribute> &list,
                         const std::vector<std::string> &keys) {
  for (size_t i = 0; i != list.size(); ++i) {
    const Attribute &attribute = list[i];
    if (!contains(keys, attribute.key)) {
      diagnostics.error(attribute.where,
                        fmt::format("there is no attribute '{}'{}",
                                    attribute.key,
                                    knownWords(attribute.key, keys)));
      continue;
    }
    for (size_t j = 0; j != i; ++j) {
      bool bothShard = (list[j].key == "shard" && attribute.key == "dim") ||
                       (list[j].key == "dim" && attribute.key == "shard");
      if (list[j].key == attribute.key || bothShard)
        diagnostics.error(attribute.where,
                          fmt::format("'{}' is given twice", attribute.key),
                          {{list[j].where, "the other one"}});
    }
    word(attribute, attribute.value);
    if (attribute.condition) {
      value(*attribute.condition);
      word(attribute, attribute.otherwise);
    }
  }
}

void Checker::word(const Attribute &attribute, const AttributeWord &entry) {
  if (attribute.key == "shard")
    return shardWord(entry);
  if (attribute.key == "dim") {
    if (entry.word.size() != 1 || entry.word[0] < '0' || entry.word[0] > '7')
      diagnostics.error(entry.where,
                        "'dim' is the number of a dimension, 0 to 7");
    return;
  }
  static const std::vector<std::string> stages{"first", "last",
                                               "first_and_last"};
  static const std::vector<std::string> dtypes{"f32", "bf16", "f16"};
  static const std::vector<std::string> hfDTypes{"config", "f32", "bf16",
                                                 "f16"};
  const std::vector<std::string> &words = attribute.key == "stage"   ? stages
                                          : attribute.key == "dtype" ? dtypes
                                                                     : hfDTypes;
  if (!contains(words, entry.word) || entry.hasArguments)
    diagnostics.error(entry.where,
                      fmt::format("'{}' is no {}{}", entry.word, attribute.key,
                                  knownWords(entry.word, words)));
}

void Checker::shardWord(const AttributeWord &entry) {
  auto fails = [&](std::string text) {
    diagnostics.error(entry.where, std::move(text));
  };
  auto isWord = [](const Argument &argument) {
    return argument.key.empty() && argument.value->kind == Expr::Kind::Name &&
           argument.value->name->segments.size() == 1;
  };
  size_t count = entry.arguments.size();
  if (!contains(shardWords, entry.word))
    return fails(fmt::format("'{}' is no shard{}", entry.word,
                             knownWords(entry.word, shardWords)));
  if (entry.word == "expert") {
    static const std::vector<std::string> inner{"column", "row", "gated",
                                                "replicated"};
    if (count != 1 || !isWord(entry.arguments[0]) ||
        !contains(inner, entry.arguments[0].value->name->spelling))
      fails(fmt::format("expert(...) holds one of {}", fmt::join(inner, ", ")));
  } else if (entry.word == "section") {
    if (!std::all_of(entry.arguments.begin(), entry.arguments.end(), isWord))
      fails("section(...) holds the names of the sections, such as "
            "section(query, key, value)");
  } else if (entry.word == "column" || entry.word == "dim") {
    bool good = entry.word == "dim" ? count == 1 : count <= 2;
    if (!good)
      return fails(entry.word == "dim"
                       ? "dim(k) holds the number of a dimension"
                       : "column takes no arguments, or the numbers of heads: "
                         "column(H, G) or column(H)");
    for (const Argument &argument : entry.arguments)
      value(*argument.value);
  } else if (entry.hasArguments) {
    fails(fmt::format("'{}' takes no arguments", entry.word));
  }
}

} // namespace mbc::dsl
