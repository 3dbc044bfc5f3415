#include "dsl/AstContext.h"
#include "dsl/FormatToken.h"

#include <algorithm>

namespace mbc::dsl {
namespace {

using antlr4::tree::ParseTree;

bool oneOf(std::string_view token,
           std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), token) != words.end();
}

/// Levels of breaks that are taken only if there is no other.
constexpr uint32_t atEqualSign = 1000, behindBracket = 2000;

template <typename Context> bool bounds(ParseTree *range, ParseTree *tree) {
  auto *context = as<Context>(range);
  return context && (context->from == tree || context->to == tree);
}

/// Products of plain words and numbers are written without blanks, and so are
/// their sums as bounds of a range: `0..2*L+1`.
bool isTight(ParseTree *tree) {
  auto *binary = as<MappingParser::BinaryContext>(tree);
  if (!binary)
    return false;
  bool isBound =
      bounds<MappingParser::ForContext>(tree->parent, tree) ||
      bounds<MappingParser::ComprehensionContext>(tree->parent, tree) ||
      bounds<MappingParser::CallContext>(tree->parent, tree);
  std::string op = binary->op->getText();
  auto isWord = [](ParseTree *operand) {
    bool plain = as<MappingParser::NameValueContext>(operand) ||
                 as<MappingParser::LiteralValueContext>(operand);
    return plain ? operand->getText().find_first_of(".\"") == std::string::npos
                 : isTight(operand);
  };
  return (oneOf(op, {"*", "/"}) || (isBound && oneOf(op, {"+", "-"}))) &&
         isWord(binary->left) && isWord(binary->right);
}

/// Operators of one class stand in one row: a + b - c.
std::string_view operatorClass(ParseTree *tree) {
  if (as<MappingParser::TernaryContext>(tree))
    return "?";
  auto *binary = as<MappingParser::BinaryContext>(tree);
  if (!binary)
    return "";
  for (std::string_view word : {"??", "||", "&&"})
    if (binary->op->getText() == word)
      return word;
  return oneOf(binary->op->getText(), {"+", "-"}) ? "+" : "*";
}

bool isChoice(ParseTree *tree) {
  return as<MappingParser::TernaryContext>(tree) ||
         as<MappingParser::AttributeValueContext>(tree);
}

bool isPair(ParseTree *tree) {
  return as<MappingParser::AttributeContext>(tree) ||
         as<MappingParser::ArgumentContext>(tree);
}

/// Whether a construct starts a line.
bool isLine(ParseTree *tree) {
  return as<MappingParser::SpecContext>(tree) ||
         as<MappingParser::ItemContext>(tree) ||
         as<MappingParser::ModelFieldContext>(tree) ||
         as<MappingParser::ConfigFieldContext>(tree) ||
         as<MappingParser::MatchCaseContext>(tree) ||
         (as<MappingParser::StatementContext>(tree) &&
          !as<MappingParser::MatchCaseContext>(tree->parent));
}

Row rowOf(ParseTree *tree) {
  if (as<MappingParser::ModelFieldContext>(tree))
    return Row::Field;
  if (as<MappingParser::ConfigAssignContext>(tree))
    return Row::Assignment;
  return as<MappingParser::RuleStatementContext>(tree) ? Row::Rule : Row::None;
}

class TokenWriter {
public:
  explicit TokenWriter(antlr4::CommonTokenStream &stream) : stream(stream) {}

  void walk(ParseTree *tree) {
    if (auto *terminal = as<antlr4::tree::TerminalNode>(tree))
      return write(*terminal);
    if (isLine(tree)) {
      next.before = Break::Line;
      next.row = rowOf(tree);
    } else if (as<MappingParser::AttributeContext>(tree)) {
      next.before = Break::Allowed;
      next.blanks = 2;
      next.cell = true;
    }
    std::string_view inner = operatorClass(tree);
    bool nested = !inner.empty() && !operatorClass(tree->parent).empty() &&
                  inner != operatorClass(tree->parent);
    level += nested;
    for (ParseTree *child : tree->children)
      walk(child);
    level -= nested;
  }

  std::vector<FormatToken> tokens;

private:
  void write(antlr4::tree::TerminalNode &terminal) {
    antlr4::Token *symbol = terminal.getSymbol();
    comments(symbol->getTokenIndex());
    if (symbol->getType() == antlr4::Token::EOF)
      return;
    FormatToken token = std::exchange(next, {});
    std::string text = token.text = symbol->getText();
    if (oneOf(text, {")", "]", "}"}))
      close(text);
    before(token, terminal.parent);
    add(std::move(token), symbol);
    if (text == "}")
      endBody();
    after(text, terminal.parent);
    if (oneOf(text, {"(", "[", "{"}))
      open(text);
  }

  /// Those that stand before a token.
  void comments(size_t index) {
    for (; consumed < index; ++consumed) {
      antlr4::Token *token = stream.get(consumed);
      if (token->getChannel() == antlr4::Token::DEFAULT_CHANNEL)
        continue;
      std::string text = token->getText();
      text.erase(text.find_last_not_of(" \t") + 1);
      FormatToken comment;
      comment.text = std::move(text);
      comment.comment = true;
      add(std::move(comment), token);
    }
    consumed = index + 1;
  }

  void add(FormatToken token, antlr4::Token *symbol) {
    auto line = static_cast<uint32_t>(symbol->getLine());
    token.newlines = line - lastLine;
    token.braces = braces;
    lastLine = line;
    tokens.push_back(std::move(token));
  }

  /// What stands before a token by its own nature.
  void before(FormatToken &token, ParseTree *parent) {
    const std::string &text = token.text;
    bool separate = oneOf(text, {"?", ":"}) ? isChoice(parent)
                    : isTight(parent)       ? false
                    : text == "("
                        ? as<MappingParser::GroupContext>(parent) ||
                              as<MappingParser::AttributeValueContext>(parent)
                    : text == "[" ? !as<MappingParser::IndexContext>(parent)
                    : text == "=" ? !isPair(parent)
                                  : !oneOf(text, {")", "]", ",", ".."});
    if (glued || !separate)
      token.blanks = 0;
    bool joins = as<MappingParser::BinaryContext>(parent) && !isTight(parent) &&
                 oneOf(text, {"??", "||", "&&", "+", "-"});
    bool sides = text == "<-" || (oneOf(text, {"?", ":"}) && isChoice(parent));
    if (joins || sides)
      token.before = Break::Allowed, token.level = level;
    if (text == "=" && as<MappingParser::ConfigAssignContext>(parent))
      token.before = Break::Allowed, token.level = atEqualSign;
    if (oneOf(text, {")", "]"}))
      token.before = Break::Never;
    // Behind a comment they cannot stay in the line of their brace.
    bool resumes = text == "}" || (oneOf(text, {"else", "or"}) &&
                                   !tokens.empty() && tokens.back().comment);
    if (resumes)
      token.before = Break::Line;
    token.cell |= text == "<-" || (text == "=" && !isPair(parent)) ||
                  (!tokens.empty() && tokens.back().row == Row::Field);
  }

  /// What a token asks of the one behind it.
  void after(std::string_view text, ParseTree *parent) {
    auto mayBreak = [this](uint32_t at) {
      next.before = Break::Allowed;
      next.level = at;
    };
    bool index = as<MappingParser::IndexContext>(parent);
    glued = oneOf(text, {"(", "[", ".."}) || (text == "=" && isPair(parent)) ||
            (text == ":" && as<MappingParser::ArgumentContext>(parent)) ||
            isTight(parent) || as<MappingParser::UnaryContext>(parent);
    if (text == ",")
      mayBreak(level);
    else if (text == ":" && (as<MappingParser::CallContext>(parent) ||
                             as<MappingParser::ComprehensionContext>(parent)))
      mayBreak(level);
    else if (text == "=" && (as<MappingParser::LetContext>(parent) ||
                             as<MappingParser::DefContext>(parent)))
      mayBreak(atEqualSign);
    else if (oneOf(text, {"(", "["}) && !index)
      mayBreak(behindBracket + level);
  }

  void open(std::string_view text) {
    if (text != "{") {
      ++level;
      return;
    }
    ++braces;
    bodies.push_back(tokens.size() - 1);
  }
  void close(std::string_view text) { --(text == "}" ? braces : level); }

  /// A body that its author began and ended in one line may stay there, if
  /// it is one statement; an empty one is always written so.
  void endBody() {
    size_t start = bodies.back(), end = tokens.size() - 1;
    bodies.pop_back();
    size_t lines = 0, statements = 0;
    for (size_t i = start + 1; i <= end; ++i) {
      lines += tokens[i].newlines + tokens[i].comment;
      statements += tokens[i].before == Break::Line && i != end &&
                    tokens[i].braces == braces + 1 && tokens[i].text != "}";
    }
    if (end == start + 1 || (lines == 0 && statements <= 1))
      tokens[start].bodyEnd = static_cast<uint32_t>(end);
  }

  antlr4::CommonTokenStream &stream;
  FormatToken next;   ///< what is known of the next token
  bool glued = false; ///< no blank before the next token
  uint32_t level = 0; ///< brackets and operators around
  uint32_t braces = 0;
  uint32_t lastLine = 1;
  size_t consumed = 0;        ///< tokens of the stream
  std::vector<size_t> bodies; ///< the open braces
};

} // namespace

std::optional<std::vector<FormatToken>>
formatTokens(std::shared_ptr<const SourceFile> file, Diagnostics &diagnostics) {
  SyntaxTree tree(std::move(file), diagnostics);
  if (!tree.valid())
    return std::nullopt;
  TokenWriter writer(tree.tokens());
  writer.walk(tree.root());
  return std::move(writer.tokens);
}

} // namespace mbc::dsl
