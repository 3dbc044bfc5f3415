#include "dsl/Format.h"
#include "tests/dsl/SpecFiles.h"
#include "tests/dsl/SpecText.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

namespace mbc::dsl {
namespace {

std::string formatted(const std::string &text) {
  Diagnostics diagnostics;
  std::optional<std::string> result = format(text, "t.mbspec", diagnostics);
  EXPECT_EQ(messages(diagnostics), "");
  return result.value_or("");
}

/// Formats a spec's lines and compares with what they should become; the
/// result has to stay as it is.
void expectFormat(const std::string &lines, const std::string &expected) {
  EXPECT_EQ(formatted("mbspec 1\n" + lines), "mbspec 1\n" + expected);
  EXPECT_EQ(formatted("mbspec 1\n" + expected), "mbspec 1\n" + expected);
}

TEST(Format, BlanksWithinALine) {
  expectFormat("let  x=f( a,b ) [ 1 ]+-y *2%3\n",
               "let x = f(a, b)[1] + -y * 2 % 3\n");
  expectFormat("let x = ( H+2 * G )*d\n", "let x = (H + 2*G) * d\n");
  expectFormat("let x = hf.a/H + ! b??c\n", "let x = hf.a / H + !b ?? c\n");
  expectFormat("let x = a ?b:c\n", "let x = a ? b : c\n");
  expectFormat("let x = [for i in a - 1..2 * L + 1: i+1]\n",
               "let x = [for i in a-1..2*L+1: i + 1]\n");
  expectFormat("let x = [ for i in 0 .. 2 * L :i ]\n",
               "let x = [for i in 0..2*L: i]\n");
  expectFormat("a? <- reshape( b ? : n*2 , [ 1,... ] ) shard = dim( 1 )\n",
               "a? <- reshape(b?:n*2, [1, ...])  shard=dim(1)\n");
  expectFormat(
      "stack( e in 0..E :w{ e },dim = 1 )<-b stage =( m>0?last:first )\n",
      "stack(e in 0..E: w{ e }, dim=1) <- b  stage=(m > 0 ? last : first)\n");
  expectFormat("extra_state a ,b per expert ( E )\n"
               "tied hf a ? to b stage=last\n"
               "ignore a.** ? , b\n",
               "extra_state a, b per expert(E)\n"
               "tied hf a? to b  stage=last\n"
               "ignore a.**?, b\n");
}

TEST(Format, BodiesAreIndentedAndMayStayInTheirLine) {
  expectFormat("for i in 0..2 {\n a <- .\n {\n b{i} <- b{i} } }\n"
               "if c { x } else if d {\ny } else\n{ z }\n"
               "either p { x } or q { x y }\n"
               "match k { \"a\" :x \"b\" :\n{ y } }\n"
               "block nothing {\n}\n",
               "for i in 0..2 {\n"
               "  a <- . {\n"
               "    b{i} <- b{i}\n"
               "  }\n"
               "}\n"
               "if c { x } else if d {\n"
               "  y\n"
               "} else { z }\n"
               "either p { x } or q {\n"
               "  x\n"
               "  y\n"
               "}\n"
               "match k {\n"
               "  \"a\": x\n"
               "  \"b\": { y }\n"
               "}\n"
               "block nothing { }\n");
}

TEST(Format, RowsShareColumnsUpToABlankLine) {
  expectFormat("config {\nfield=1\nlonger_field=2\n"
               "a_field_that_stands_out_of_its_column=3\n\nz=4\n}\n",
               "config {\n"
               "  field        = 1\n"
               "  longer_field = 2\n"
               "  a_field_that_stands_out_of_its_column = 3\n"
               "\n"
               "  z = 4\n"
               "}\n");
  expectFormat("a.weight <- b.weight shard=row dtype=f32\n"
               "c <- d shard=column dtype=f32\n"
               "long.weight <- long.enough.weight\n",
               "a.weight    <- b.weight  shard=row     dtype=f32\n"
               "c           <- d         shard=column  dtype=f32\n"
               "long.weight <- long.enough.weight\n");
  expectFormat("model m { hf \"A\" megatron \"B\" layers L stacked if c }\n",
               "model m {\n"
               "  hf       \"A\"\n"
               "  megatron \"B\"\n"
               "  layers   L stacked if c\n"
               "}\n");
}

TEST(Format, CommentsAndBlankLinesStay) {
  EXPECT_EQ(formatted("# first\n\n\nmbspec 1#one\n\n\n\n"
                      "let x = [ 1, # of the list  \n\n2,\n # three\n3 ]\n"
                      "block b { # at the brace\n\n#inside\n\n}\n"
                      "if c { x }\n# between\nelse { y }\n\n# last"),
            "# first\n"
            "\n"
            "mbspec 1  #one\n"
            "\n"
            "let x = [1,  # of the list\n"
            "\n"
            "         2,\n"
            "         # three\n"
            "         3]\n"
            "block b {  # at the brace\n"
            "\n"
            "  #inside\n"
            "}\n"
            "if c { x }\n"
            "# between\n"
            "else { y }\n"
            "\n"
            "# last\n");
}

TEST(Format, CommentsBehindNeighbouringLinesShareAColumn) {
  expectFormat("let x = 1 # one\nlet name = \"\xc3\xa9\" # two\nlet z = 3\n",
               "let x = 1       # one\n"
               "let name = \"\xc3\xa9\"  # two\n"
               "let z = 3\n");
}

TEST(Format, TheAuthorsBreaksStayWhereBreaksAreNatural) {
  expectFormat(
      "def f(a, b) =\nreshape(\n  concat(a:1,\nb:2, dim\n=1\n),\n[3,\n...])\n",
      "def f(a, b) =\n"
      "    reshape(\n"
      "      concat(a:1,\n"
      "             b:2, dim=1),\n"
      "      [3,\n"
      "       ...])\n");
  expectFormat("let x = a\n?? b ??\nc\n", "let x = a\n"
                                          "    ?? b ?? c\n");
  expectFormat("a <- b\nshard=row\n", "a <- b\n    shard=row\n");
  expectFormat("a\n<-\nb shard=row\n", "a\n    <- b  shard=row\n");
  expectFormat("config { f\n=\n1 }\n", "config {\n  f\n      = 1\n}\n");
}

// 110 characters fit. Every expected line is counted by hand: `word` fills one
// up to a given column.
TEST(Format, LinesThatAreTooLongAreWrapped) {
  auto word = [](size_t length) { return std::string(length, 'w'); };
  std::string fits = "a <- " + word(94) + "  shard=row";
  expectFormat(fits + "\n", fits + "\n");
  expectFormat("a <- " + word(95) + " shard=row\n",
               "a <- " + word(95) + "\n    shard=row\n");
  expectFormat(word(20) + " <- f(" + word(45) + ", " + word(45) + ")\n",
               word(20) + "\n    <- f(" + word(45) + ", " + word(45) + ")\n");
  // The outer comma is better than the last one that fits.
  expectFormat("let x = f(g(" + word(40) + ", b), h(" + word(40) + ", c, " +
                   word(20) + "))\n",
               "let x = f(g(" + word(40) +
                   ", b),\n"
                   "          h(" +
                   word(40) + ", c, " + word(20) + "))\n");
  expectFormat("let x = " + word(60) + " ?? " + word(60) + "\n",
               "let x = " + word(60) + "\n    ?? " + word(60) + "\n");
  // Nothing else to break at, nor anything at all.
  expectFormat("let x = " + word(105) + "\n",
               "let x =\n    " + word(105) + "\n");
  expectFormat("let x = " + word(300) + "\n",
               "let x =\n    " + word(300) + "\n");
  expectFormat("use \"" + word(300) + "\"\n", "use \"" + word(300) + "\"\n");
  // A body that has no room in its line gets lines of its own.
  expectFormat("a <- " + word(50) + " { " + word(50) + " }\n",
               "a <- " + word(50) + " { " + word(50) + " }\n");
  expectFormat("a <- " + word(50) + " { " + word(51) + " }\n",
               "a <- " + word(50) + " {\n  " + word(51) + "\n}\n");
}

TEST(Format, AFileWithErrorsHasNoResult) {
  for (const char *text : {"mbspec 1\nlet x = ]\n", "", "mbspec 1\n# \xff\n"}) {
    Diagnostics diagnostics;
    EXPECT_EQ(format(text, "t.mbspec", diagnostics), std::nullopt) << text;
    EXPECT_TRUE(diagnostics.hasErrors()) << text;
  }
}

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
    text += fmt::format("\n{} {} {} {} {} {} {} {}", mapping.label,
                        static_cast<int>(shard.kind), shard.expert, shard.dim,
                        fmt::join(shard.sections, ","), spell(shard.heads),
                        static_cast<int>(mapping.stage), mapping.dtype);
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
