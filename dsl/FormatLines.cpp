#include "dsl/FormatToken.h"

#include <algorithm>

namespace mbc::dsl {
namespace {

constexpr uint32_t indentWidth = 2, continuationWidth = 4;

class LineWriter {
public:
  explicit LineWriter(std::vector<FormatToken> tokens)
      : tokens(std::move(tokens)) {}

  std::vector<FormatLine> run() {
    while (at != tokens.size())
      tokens[at].comment ? commentLine() : codeLine();
    return std::move(lines);
  }

private:
  bool startsStatement(size_t index) const {
    while (index != tokens.size() && tokens[index].comment)
      ++index;
    return index == tokens.size() || tokens[index].before == Break::Line;
  }

  /// Whether the line has to end before a token: a comment ends its line, and
  /// an author's break stays where breaks are allowed.
  bool mustBreak(size_t index) const {
    const FormatToken &token = tokens[index];
    if (token.comment)
      return token.newlines != 0;
    return token.before == Break::Line || tokens[index - 1].comment ||
           (token.before == Break::Allowed && token.newlines != 0);
  }

  FormatLine &startLine() {
    const FormatToken &first = tokens[at];
    FormatLine &line = lines.emplace_back();
    line.blankBefore = first.newlines > 1 && at != 0 && first.text != "}" &&
                       tokens[at - 1].text != "{";
    if (startsStatement(at)) {
      statementIndent = first.braces * indentWidth;
      line.indent = statementIndent;
    } else {
      line.indent = brackets.empty() ? statementIndent + continuationWidth
                                     : brackets.back();
    }
    return line;
  }

  void commentLine() {
    startLine().cells.push_back({0, tokens[at].text});
    ++at;
  }

  void codeLine() {
    size_t first = at;
    FormatLine &line = startLine();
    size_t end = lineEnd(line.indent);
    if (tokens[first].before == Break::Line &&
        (end == tokens.size() || startsStatement(end)))
      line.row = tokens[first].row;
    uint32_t column = line.indent;
    for (; at != end && !tokens[at].comment; ++at)
      column = place(line, column, at == first);
    if (isOpener(tokens[at - 1].text)) // hangs: what it holds is indented
      brackets.back() = line.indent + indentWidth;
    if (at != end)
      line.comment = tokens[at++].text;
  }

  /// Appends the token to the line; gives the column behind it.
  uint32_t place(FormatLine &line, uint32_t column, bool first) {
    const FormatToken &token = tokens[at];
    if (first || (token.cell && line.row != Row::None))
      line.cells.push_back({first ? 0 : token.blanks, token.text});
    else
      line.cells.back().text += std::string(token.blanks, ' ') + token.text;
    column += textWidth(token.text) + (first ? 0 : token.blanks);
    if (isOpener(token.text))
      brackets.push_back(column);
    else if (token.text == ")" || token.text == "]")
      brackets.pop_back();
    return column;
  }

  static bool isOpener(std::string_view text) {
    return text == "(" || text == "[";
  }

  /// The token that begins the next line. Of a line that is too long, the
  /// best break that makes it short enough ends it, of equals the last, else
  /// the first break behind that.
  size_t lineEnd(uint32_t indent) {
    size_t best = 0, index = at;
    uint32_t column = indent;
    for (; index != tokens.size(); ++index) {
      const FormatToken &token = tokens[index];
      if (index != at) {
        if (mustBreak(index))
          return index;
        if (token.comment)
          continue;
        if (token.before == Break::Allowed) {
          if (column > maxLineWidth)
            return index;
          if (best == 0 || token.level <= tokens[best].level)
            best = index;
        }
        column += token.blanks;
      }
      column += textWidth(token.text);
      if (column > maxLineWidth && best != 0)
        return best;
      if (token.bodyEnd != 0)
        joinBody(index, column);
    }
    return index;
  }

  /// Leaves a body in the line of its brace if the statement so far is one
  /// line and has room for the body and what follows it up to the next one.
  void joinBody(size_t brace, uint32_t column) {
    size_t end = tokens[brace].bodyEnd, next = brace + 1;
    auto add = [&] {
      column += tokens[next].blanks + textWidth(tokens[next].text);
      ++next;
    };
    while (next <= end)
      add();
    while (next != tokens.size() && tokens[next].before != Break::Line &&
           !tokens[next].comment && tokens[next - 1].text != "{")
      add();
    if (tokens[at].before != Break::Line || column > maxLineWidth)
      return;
    for (size_t index = brace + 1; index <= end; ++index)
      tokens[index].before = Break::Never;
  }

  std::vector<FormatToken> tokens;
  std::vector<FormatLine> lines;
  size_t at = 0; ///< the first token that is in no line yet
  uint32_t statementIndent = 0;
  /// Open brackets: where lines that begin inside are indented to.
  std::vector<uint32_t> brackets;
};

} // namespace

std::vector<FormatLine> formatLines(std::vector<FormatToken> tokens) {
  return LineWriter(std::move(tokens)).run();
}

uint32_t textWidth(std::string_view utf8) {
  return static_cast<uint32_t>(
      std::count_if(utf8.begin(), utf8.end(),
                    [](char byte) { return (byte & 0xC0) != 0x80; }));
}

} // namespace mbc::dsl
