#pragma once

#include "dsl/Ast.h"
#include "dsl/Diagnostic.h"

#include "MappingLexer.h"
#include "MappingParser.h"

#include <memory>

#include <fmt/format.h>

/// Between ANTLR's tree and ours. Only AstBuilder.cpp, AstExpression.cpp,
/// FormatTokens.cpp, Nesting.cpp and SyntaxTree.cpp include this header, so that
/// no ANTLR type leaves them; its exceptions end in parseText and format.
namespace mbc::dsl {

template <typename Context, typename Base> Context *as(Base *tree) {
  return dynamic_cast<Context *>(tree);
}

struct ParserMachine;

/// The first token at which the tree would nest deeper than `maxNesting`, or
/// null. Only the lexer has run then.
antlr4::Token *firstTooDeep(antlr4::CommonTokenStream &tokens);

/// The tree of one file, with the token stream that it points into.
class SyntaxTree {
public:
  SyntaxTree(std::shared_ptr<const SourceFile> file, Diagnostics &diagnostics);
  ~SyntaxTree();

  bool valid() const { return root_ != nullptr; }
  MappingParser::SpecContext *root() const { return root_; }
  /// All of them, comments included.
  antlr4::CommonTokenStream &tokens() const;

private:
  std::unique_ptr<ParserMachine> machine;
  MappingParser::SpecContext *root_ = nullptr;
};

/// Builds names, expressions and attributes.
class ExpressionBuilder {
protected:
  /// `line` and `column` of the text's first character, for the text of a
  /// hole; a whole file starts at 1, 0.
  ExpressionBuilder(Spec &spec, std::shared_ptr<const SourceFile> file,
                    Diagnostics &diagnostics, uint32_t line = 1,
                    uint32_t column = 0)
      : spec(spec), diagnostics(diagnostics), file(std::move(file)),
        firstLine(line), firstColumn(column) {}

  SourceRange range(antlr4::Token *start, antlr4::Token *stop) const;
  SourceRange range(antlr4::Token *token) const { return range(token, token); }
  SourceRange range(antlr4::ParserRuleContext *tree) const {
    return range(tree->getStart(), tree->getStop());
  }

  Symbol intern(const std::string &text);
  /// The symbol of a name that has to be a plain word.
  Symbol plain(MappingParser::IdContext *tree);
  Name name(MappingParser::NameContext *tree);
  ExprPtr operand(MappingParser::OperandContext *tree);
  ExprPtr expression(MappingParser::ExpressionContext *tree);
  std::vector<Argument> arguments(MappingParser::ArgumentsContext *tree);
  Attribute buildAttribute(MappingParser::AttributeContext *tree);

  Spec &spec;
  Diagnostics &diagnostics;

private:
  ExprPtr make(Expr::Kind kind, antlr4::ParserRuleContext *tree) const;
  ExprPtr literal(MappingParser::LiteralContext *tree);
  ExprPtr callValue(MappingParser::CallContext *tree);
  ExprPtr listValue(MappingParser::ListContext *tree);
  ExprPtr hole(std::string_view text, uint32_t line, uint32_t column);
  AttributeWord attributeWord(MappingParser::AttributeWordContext *tree);

  std::shared_ptr<const SourceFile> file;
  uint32_t firstLine, firstColumn;
};

} // namespace mbc::dsl
