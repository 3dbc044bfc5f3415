#pragma once

#include "tests/mutation/Mutant.h"

#include "MappingLexer.h"
#include "MappingParser.h"

#include <string_view>

/// Walks the syntax tree of a file and notes every mistake that fits a node.
namespace mbc::test {

using Tree = dsl::MappingParser;

/// A part of a file's text.
struct Span {
  size_t file = 0, begin = 0, end = 0;
  std::string text;
};

/// One side of a rule, for mistakes that need two of them.
struct RuleSpan {
  Span left, right;
};

class Damage {
public:
  Damage(const std::vector<SpecFile> &files, std::vector<Mutant> &out)
      : files(files), out(out) {}

  void file(size_t index);
  /// Mistakes between files; after all of them were walked.
  void norms();

private:
  // Damage.cpp: where we are, and how a mistake is written down.
  void visit(antlr4::tree::ParseTree *tree);
  void children(antlr4::tree::ParseTree *tree);
  void inLoop(antlr4::ParserRuleContext *tree, Tree::IdContext *variable,
              Tree::ExpressionContext *from, Tree::ExpressionContext *to);
  Span span(antlr4::ParserRuleContext *tree) const;
  Span span(antlr4::Token *token) const;
  Span between(const Span &first, const Span &last) const;
  void add(std::string damage, std::vector<Edit> edits);
  void replace(std::string damage, const Span &where, std::string text);
  void swap(const std::string &damage, const Span &a, const Span &b);
  /// An item of a list goes, with the comma beside it.
  void dropItem(const std::string &damage, const std::vector<Span> &items,
                size_t index);
  void swapPairs(const std::string &damage, const std::vector<Span> &items);
  template <typename Context>
  std::vector<Span> spans(const std::vector<Context *> &trees) const {
    std::vector<Span> all;
    for (Context *tree : trees)
      all.push_back(span(tree));
    return all;
  }

  // DamageStatements.cpp
  void statement(Tree::StatementContext *tree);
  void rule(Tree::RuleStatementContext *tree);
  void attribute(Tree::AttributeContext *tree);
  void shard(Tree::AttributeWordContext *word);
  void match(Tree::MatchContext *tree);
  void declarationEnds();

  // DamageValues.cpp
  void bounds(Tree::ExpressionContext *from, Tree::ExpressionContext *to);
  void offByOne(const std::string &damage, const Span &where);
  void call(Tree::CallContext *tree);
  void arguments(Tree::ArgumentsContext *tree);
  void list(Tree::ListContext *tree);
  void binary(Tree::BinaryContext *tree);
  void literal(Tree::LiteralContext *tree);
  void name(Tree::NameContext *tree);
  void negate(Tree::ExpressionContext *condition);

  // DamageDeclarations.cpp
  void config(Tree::ConfigBlockContext *tree);
  void lets(Tree::SpecContext *tree);
  void model(Tree::ModelBlockContext *tree);
  /// Fields of config.json below a node.
  void fields(antlr4::tree::ParseTree *tree, std::vector<Span> &found) const;
  void nextField(const std::vector<std::vector<Span>> &fieldsOf);

  struct Loop {
    std::string variable, from, to;
  };
  const std::vector<SpecFile> &files;
  std::vector<Mutant> &out;
  size_t current = 0;
  std::vector<Loop> loops;
  std::vector<RuleSpan> rules; ///< of the block, or of the top, at hand
  std::vector<Span> normSources;
};

} // namespace mbc::test
