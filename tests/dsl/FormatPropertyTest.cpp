#include "tests/dsl/FormatText.h"
#include "tests/dsl/SpecFiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

namespace mbc::dsl {
namespace {

/// The text of a spec without what a formatter may change, and its comments.
struct Content {
  std::string code;
  std::vector<std::string> comments;
  friend bool operator==(const Content &, const Content &) = default;
};

/// Calls `blank`, `comment` and `word` for the pieces of a text; strings and
/// holes are in words, whole.
template <typename Blank, typename Comment, typename Word>
void scan(const std::string &text, Blank blank, Comment comment, Word word) {
  for (size_t at = 0; at != text.size();) {
    size_t end = at;
    if (text[at] == '#') {
      end = std::min(text.find('\n', at), text.size());
      comment(text.substr(at, end - at));
    } else if (std::isspace(static_cast<unsigned char>(text[at]))) {
      end = std::min(text.find_first_not_of(" \t\n", at), text.size());
      blank(text.substr(at, end - at));
    } else {
      bool hole = text[at] == '{' && at != 0 &&
                  (std::isalnum(static_cast<unsigned char>(text[at - 1])) ||
                   std::string("_.}").contains(text[at - 1]));
      end = text[at] == '"' ? text.find('"', at + 1) + 1
            : hole          ? text.find('}', at) + 1
                            : at + 1;
      word(text.substr(at, end - at));
    }
    at = end;
  }
}

Content contentOf(const std::string &text) {
  Content content;
  scan(
      text, [](const std::string &) {},
      [&](std::string comment) {
        comment.erase(comment.find_last_not_of(" \t") + 1);
        content.comments.push_back(comment);
      },
      [&](const std::string &word) { content.code += word; });
  return content;
}

using Random = std::mt19937_64;

size_t below(Random &random, size_t bound) { return random() % bound; }

/// The same spec with other blanks, and with `breaks` with other line breaks
/// and more comments.
std::string variant(const std::string &text, Random &random, bool breaks) {
  std::string result;
  bool behindComment = false;
  auto blank = [&](bool needed, bool line) {
    std::string run(below(random, 4) + needed, ' ');
    if (behindComment || line || (breaks && below(random, 4) == 0))
      run += std::string(1 + below(random, 3), '\n') +
             std::string(below(random, 5), '\t');
    if (breaks && below(random, 20) == 0)
      run += fmt::format(" # comment {}\n", below(random, 100));
    behindComment = false;
    result += run;
  };
  scan(
      text,
      [&](const std::string &run) {
        if (breaks)
          blank(true, false);
        else if (run.contains('\n'))
          result += run + std::string(below(random, 4), ' ');
        else
          blank(true, false);
      },
      [&](const std::string &comment) {
        result += comment + std::string(below(random, 3), ' ');
        behindComment = breaks;
      },
      [&](const std::string &word) {
        bool mayFollow = word == ")" || word == "]" || word == ",";
        if (mayFollow && below(random, 3) == 0)
          blank(false, false);
        result += word;
        if ((word == "," || word == "(" || word == "[") &&
            below(random, 3) == 0)
          blank(false, false);
      });
  return result;
}

RC_GTEST_PROP(FormatProperty, KeepsCodeAndCommentsAndIsIdempotent,
              (uint64_t seed)) {
  Random random(seed);
  std::vector<std::string> paths = specFiles();
  std::string text =
      variant(textOf(paths[below(random, paths.size())]), random, true);
  std::string once = formatted(text);
  RC_ASSERT(contentOf(once) == contentOf(text));
  RC_ASSERT(formatted(once) == once);
  RC_ASSERT(!once.contains("\n\n\n"));
}

RC_GTEST_PROP(FormatProperty, BlanksWithinLinesMeanNothing, (uint64_t seed)) {
  Random random(seed);
  std::vector<std::string> paths = specFiles();
  std::string text = textOf(paths[below(random, paths.size())]);
  RC_ASSERT(formatted(variant(text, random, false)) == formatted(text));
}

std::string spell(const std::vector<int64_t> &numbers) {
  return fmt::format("[{}]", fmt::join(numbers, " "));
}

std::string spell(const Node &node) {
  return fmt::format(" {}{}{}{} dim {} value {} operand {} extent {}",
                     static_cast<int>(node.kind),
                     spell({node.children.begin(), node.children.end()}),
                     spell(node.ints), node.rest, node.dim, node.value,
                     node.operand, node.extent.value_or(-1));
}

std::string spell(const Value &value) {
  if (auto *list = std::get_if<std::shared_ptr<const ValueList>>(&value)) {
    std::string text = "[";
    for (const Value &item : **list)
      text += spell(item) + " ";
    return text + "]";
  }
  std::string text = fmt::format("{}:", value.index());
  if (auto *truth = std::get_if<bool>(&value))
    text += fmt::format("{}", *truth);
  if (auto *integer = std::get_if<int64_t>(&value))
    text += fmt::format("{}", *integer);
  if (auto *number = std::get_if<double>(&value))
    text += fmt::format("{}", *number);
  if (auto *word = std::get_if<std::string>(&value))
    text += *word;
  return text;
}

/// All that a spec says, but not where.
std::string meaning(const Model &model) {
  std::string text = rulesOf(model);
  for (const RuleInstance &instance : model.instances)
    text += fmt::format("{} ", instance.mapping);
  for (const Mapping &mapping : model.mappings) {
    const Shard &shard = mapping.shard;
    text += fmt::format("\n{} {} {} {} {} {} {} {} {}", mapping.label,
                        static_cast<int>(shard.kind), shard.expert, shard.dim,
                        fmt::join(shard.sections, ","), spell(shard.heads),
                        static_cast<int>(mapping.stage), mapping.dtype,
                        mapping.hfDType);
    for (const auto *side : {&mapping.megatron, &mapping.hf})
      for (const Node &node : *side)
        text += spell(node);
  }
  for (const TiedCopy &tie : model.ties)
    text += fmt::format("\n{} tied to {} {} {}", tie.copy, tie.owner,
                        tie.optional, static_cast<int>(tie.stage));
  for (const IgnorePattern &ignore : model.ignores)
    text += fmt::format("\n{} {}", ignore.pattern, ignore.optional);
  for (const ExtraState &state : model.extraStates)
    text += fmt::format("\n{} {}", state.module, state.experts);
  for (const ConfigField &field : model.config)
    text += fmt::format("\n{} = {}", field.name, spell(field.value));
  for (const std::string &field : model.unreadConfigFields)
    text += "\n" + field;
  return text;
}

/// A spec's meaning, if its own text and those that it uses are changed.
template <typename Change>
std::string meaningOf(const std::string &family, Change change) {
  Diagnostics diagnostics;
  ParseResult spec =
      parseFile(fmt::format(MBC_SPECS "/{}.mbspec", family), {}, diagnostics);
  std::string text;
  for (const auto &file : spec->files)
    text += fmt::format("#file {}\n{}", file->name, change(file->text));
  spec = parseText(text, "t.mbspec", {}, diagnostics);
  std::set<std::string> names = namesOf(family);
  NameOracle oracle = oracleOf(names);
  std::string config = textOf(fmt::format(MBC_DATA "/{}/config.json", family));
  std::string result =
      spec ? meaning(evaluate(*spec, config, oracle, diagnostics)) : "";
  EXPECT_EQ(messages(diagnostics), "");
  return result;
}

class Family : public testing::TestWithParam<const char *> {};

TEST_P(Family, MeansTheSameInAnyLayout) {
  std::string expected =
      meaningOf(GetParam(), [](const std::string &text) { return text; });
  EXPECT_FALSE(expected.empty());
  for (uint64_t seed = 0; seed != 5; ++seed) {
    Random random(seed);
    EXPECT_EQ(meaningOf(GetParam(),
                        [&](const std::string &text) {
                          return formatted(variant(text, random, true));
                        }),
              expected)
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Family,
                         testing::Values("llama", "qwen2", "qwen3", "qwen3_moe",
                                         "deepseek_v3", "glm_moe_dsa",
                                         "glm5_next"),
                         [](const auto &entry) {
                           return std::string(entry.param);
                         });

class ShippedSpec : public testing::TestWithParam<std::string> {};

TEST_P(ShippedSpec, IsFormatted) {
  std::string text = textOf(GetParam());
  EXPECT_EQ(formatted(text), text) << "run `mbc fmt " << GetParam() << "`";
}

INSTANTIATE_TEST_SUITE_P(
    Specs, ShippedSpec, testing::ValuesIn(specFiles()), [](const auto &entry) {
      std::string name =
          std::filesystem::relative(entry.param, MBC_SPECS).string();
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
          '_');
      return name;
    });

} // namespace
} // namespace mbc::dsl
