#include "dsl/Nesting.h"
#include "dsl/AstContext.h"

#include <numeric>

namespace mbc::dsl {
namespace {

/// An upper bound of the depth of the tree that tokens will give, known before
/// the parser recurses into it.
class NestingCounter {
public:
  /// The depth of the tree with this token.
  size_t take(const std::string &token) {
    if (opens(token))
      levels.push_back({.index = token == "[" && operand});
    else if (closes(token) && levels.size() > 1)
      close();
    else if (separates(token))
      levels.back().separate();
    else if (operates(token))
      ++levels.back().operators;
    operand = !opens(token) && !separates(token) && !operates(token);
    size_t open = levels.size();
    for (const Level &level : levels)
      open += level.operators;
    return open + levels.back().operand;
  }

private:
  /// One open bracket: what stands in it since the last separator.
  struct Level {
    bool index = false;   ///< the bracket follows a list
    size_t operators = 0; ///< in the expression at hand
    size_t operand = 0;   ///< depth of its deepest closed bracket
    size_t deepest = 0;   ///< of the expressions before
    size_t depth() const { return std::max(deepest, operators + operand); }
    void separate() {
      deepest = depth();
      operators = operand = 0;
    }
  };

  void close() {
    size_t depth = levels.back().depth() + 1;
    bool index = levels.back().index;
    levels.pop_back();
    levels.back().operators += index; // list[i][j] is (list[i])[j]
    levels.back().operand = std::max(levels.back().operand, depth);
  }

  static bool oneOf(const std::string &token,
                    std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), token) != words.end();
  }
  static bool opens(const std::string &token) {
    return oneOf(token, {"(", "[", "{"});
  }
  static bool closes(const std::string &token) {
    return oneOf(token, {")", "]", "}"});
  }
  /// What no expression reaches across.
  static bool separates(const std::string &token) {
    return oneOf(token, {",", "=", "<-", "..", "if", "for", "match", "let",
                         "tied", "ignore", "write", "layers", "vocab",
                         "experts"});
  }
  static bool operates(const std::string &token) {
    return oneOf(token, {"+", "-", "*", "/", "%", "!", "<", "<=", ">",
                         ">=", "==", "!=", "in", "&&", "||", "??", "?"});
  }

  std::vector<Level> levels{1};
  bool operand = false; ///< the last token ended one
};

} // namespace

antlr4::Token *firstTooDeep(antlr4::CommonTokenStream &tokens) {
  tokens.fill();
  NestingCounter counter;
  for (antlr4::Token *token : tokens.getTokens())
    if (token->getChannel() == antlr4::Token::DEFAULT_CHANNEL &&
        counter.take(token->getText()) > maxNesting)
      return token;
  return nullptr;
}

} // namespace mbc::dsl
