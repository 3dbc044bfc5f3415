#include "tests/dsl/SpecFiles.h"

#include <regex>

namespace mbc::dsl {
namespace {

using nlohmann::json;

json editorFile(const std::string &name) {
  return json::parse(textOf(MBC_DSL "/editor/" + name));
}

/// The words that stand in quotes in the grammar.
std::set<std::string> keywords() {
  std::string grammar = std::regex_replace(textOf(MBC_DSL "/Mapping.g4"),
                                           std::regex("//[^\n]*"), "");
  std::set<std::string> words;
  std::regex quoted("'([a-z_]+)'");
  for (std::sregex_iterator at(grammar.begin(), grammar.end(), quoted), end;
       at != end; ++at)
    words.insert(at->str(1));
  return words;
}

struct Match {
  std::string scope, text;
  friend bool operator==(const Match &, const Match &) = default;
};
void PrintTo(const Match &match, std::ostream *out) {
  *out << match.scope << " '" << match.text << "'";
}

/// What an editor makes of a text's start: the first rule that matches there.
Match firstMatch(const std::string &text) {
  const json grammar = editorFile("syntaxes/mbspec.tmLanguage.json");
  for (const json &rule : grammar.at("patterns")) {
    std::smatch found;
    if (std::regex_search(text, found,
                          std::regex(rule.at("match").get<std::string>()),
                          std::regex_constants::match_continuous))
      return {rule.value("name", ""), found.str()};
  }
  return {};
}

TEST(Editor, EachKeywordOfTheGrammarIsOneForEditors) {
  EXPECT_GE(keywords().size(), 30U);
  for (const std::string &word : keywords()) {
    Match match = firstMatch(word);
    EXPECT_EQ(match.text, word);
    EXPECT_TRUE(match.scope.starts_with("keyword.") ||
                match.scope.starts_with("constant.language."))
        << word << " is " << match.scope;
  }
}

TEST(Editor, NamesNumbersAndTheRestAreToldApart) {
  const std::string path = "variable.other.path.mbspec";
  EXPECT_EQ(firstMatch("model.layers.{2*i}.mlp.weight{e} <- b"),
            (Match{path, "model.layers.{2*i}.mlp.weight{e}"}));
  EXPECT_EQ(firstMatch("^lm_head.weight"), (Match{path, "^lm_head.weight"}));
  EXPECT_EQ(firstMatch("visual.** <-"), (Match{path, "visual.**"}));
  EXPECT_EQ(firstMatch("weight{e} <-"), (Match{path, "weight{e}"}));
  EXPECT_EQ(firstMatch("concat(a, b)"),
            (Match{"entity.name.function.mbspec", "concat"}));
  EXPECT_EQ(firstMatch("shard=row"),
            (Match{"entity.other.attribute-name.mbspec", "shard"}));
  EXPECT_EQ(firstMatch("0..L"), (Match{"constant.numeric.mbspec", "0"}));
  EXPECT_EQ(firstMatch("1e-5 "), (Match{"constant.numeric.mbspec", "1e-5"}));
  EXPECT_EQ(firstMatch("..L"), (Match{"keyword.operator.mbspec", ".."}));
  EXPECT_EQ(firstMatch("# if"),
            (Match{"comment.line.number-sign.mbspec", "# if"}));
  EXPECT_EQ(firstMatch("\"if\" x"),
            (Match{"string.quoted.double.mbspec", "\"if\""}));
}

TEST(Editor, ThePackageNamesFilesThatAreThere) {
  json contributes = editorFile("package.json").at("contributes");
  json language = contributes.at("languages").at(0);
  EXPECT_EQ(language.at("extensions"), json({".mbspec"}));
  EXPECT_EQ(editorFile(language.at("configuration")).at("comments"),
            json({{"lineComment", "#"}}));
  json grammar = contributes.at("grammars").at(0);
  EXPECT_EQ(grammar.at("language"), language.at("id"));
  EXPECT_EQ(editorFile(grammar.at("path")).at("scopeName"),
            grammar.at("scopeName"));
}

} // namespace
} // namespace mbc::dsl
