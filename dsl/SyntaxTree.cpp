#include "dsl/AstContext.h"
#include "dsl/Nesting.h"

#include <algorithm>
#include <map>

namespace mbc::dsl {
namespace {

/// Reports in a person's words: what stands there, and what could.
class SyntaxErrors : public antlr4::BaseErrorListener {
public:
  SyntaxErrors(std::shared_ptr<const SourceFile> file, Diagnostics &diagnostics,
               uint32_t line, uint32_t column)
      : file(std::move(file)), diagnostics(diagnostics), firstLine(line),
        firstColumn(column) {}

  void syntaxError(antlr4::Recognizer *recognizer, antlr4::Token *offending,
                   size_t line, size_t column, const std::string &message,
                   std::exception_ptr) override {
    SourceRange where = place(line, column);
    auto *parser = dynamic_cast<antlr4::Parser *>(recognizer);
    if (!offending || !parser) {
      report(where, message);
      return;
    }
    bool end = offending->getType() == antlr4::Token::EOF;
    if (!end)
      where.length = static_cast<uint32_t>(offending->getText().size());
    std::string text =
        end ? "the text ends too early"
            : fmt::format("'{}' cannot stand here", offending->getText());
    report(where, text + expected(*parser));
  }

  /// Whether the parser may run: it recurses as deep as the tree is.
  bool shallow(antlr4::CommonTokenStream &tokens) {
    antlr4::Token *token = firstTooDeep(tokens);
    if (token)
      report(place(token->getLine(), token->getCharPositionInLine()),
             fmt::format("operators and brackets nest more than {} deep here; "
                         "name parts of this with `let`, `def` or `block`",
                         maxNesting));
    return !token;
  }

  size_t count = 0;

private:
  SourceRange place(size_t line, size_t column) const {
    return {file, static_cast<uint32_t>(line) + firstLine - 1,
            static_cast<uint32_t>(column) + 1 + (line == 1 ? firstColumn : 0),
            1};
  }

  void report(const SourceRange &where, std::string text) {
    ++count;
    diagnostics.error(where, std::move(text));
  }

  static std::string expected(antlr4::Parser &parser) {
    static const std::map<std::string, std::string> words{
        {"PATH", "a name"},
        {"INT", "an integer"},
        {"STRING", "a string"},
        {"<EOF>", "the end"}};
    std::vector<std::string> names;
    auto tokens = parser.getExpectedTokens();
    if (tokens.size() > 6)
      return "";
    for (ssize_t token : tokens.toList()) {
      std::string name =
          parser.getVocabulary().getDisplayName(static_cast<size_t>(token));
      if (token == static_cast<ssize_t>(antlr4::Token::EOF))
        name = "<EOF>";
      auto word = words.find(name);
      names.push_back(word == words.end() ? name : word->second);
    }
    return names.empty()
               ? std::string()
               : fmt::format("; expected {}", fmt::join(names, " or "));
  }

  std::shared_ptr<const SourceFile> file;
  Diagnostics &diagnostics;
  uint32_t firstLine, firstColumn;
};

/// Where a sequence of UTF-8 begins that is none; the end if there is none.
size_t firstNotUtf8(std::string_view text) {
  auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
  };
  for (size_t at = 0; at != text.size();) {
    const unsigned lead = byte(at);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    bool good = length != 0;
    for (size_t k = 1; k < length; ++k)
      good = good && (byte(at + k) & 0xC0) == 0x80;
    // Longer than need be, a surrogate, or above the last code point.
    const unsigned second = byte(at + 1);
    good = good && !(lead == 0xE0 && second < 0xA0) &&
           !(lead == 0xED && second >= 0xA0) &&
           !(lead == 0xF0 && second < 0x90) &&
           !(lead == 0xF4 && second >= 0x90);
    if (!good)
      return at;
    at += length;
  }
  return text.size();
}

/// False, with an error that shows no excerpt, if the text is no text.
bool isText(const SourceFile &file, Diagnostics &diagnostics) {
  const std::string_view text = file.text;
  const size_t at = firstNotUtf8(text);
  if (at == text.size())
    return true;
  const std::string_view before = text.substr(0, at);
  diagnostics.error(
      {}, fmt::format("{}:{}: byte {} of the line, 0x{:02X}, is not UTF-8; a "
                      "spec is text in UTF-8",
                      file.path, 1 + std::ranges::count(before, '\n'),
                      at - (before.rfind('\n') + 1) + 1,
                      static_cast<unsigned char>(text[at])));
  return false;
}

} // namespace

struct ParserMachine {
  ParserMachine(std::shared_ptr<const SourceFile> file, std::string_view text,
                Diagnostics &diagnostics, uint32_t line, uint32_t column)
      : input(std::string(text)), lexer(&input), tokens(&lexer),
        parser(&tokens), errors(std::move(file), diagnostics, line, column) {
    lexer.removeErrorListeners();
    lexer.addErrorListener(&errors);
    parser.removeErrorListeners();
    parser.addErrorListener(&errors);
  }
  antlr4::ANTLRInputStream input;
  MappingLexer lexer;
  antlr4::CommonTokenStream tokens;
  MappingParser parser;
  SyntaxErrors errors;
};

SyntaxTree::SyntaxTree(std::shared_ptr<const SourceFile> file,
                       Diagnostics &diagnostics) {
  if (!isText(*file, diagnostics))
    return;
  std::string_view text = file->text;
  machine = std::make_unique<ParserMachine>(file, text, diagnostics, 1, 0);
  if (!machine->errors.shallow(machine->tokens))
    return;
  auto *tree = machine->parser.spec();
  if (machine->errors.count == 0)
    root_ = tree;
}

SyntaxTree::~SyntaxTree() = default;

antlr4::CommonTokenStream &SyntaxTree::tokens() const {
  return machine->tokens;
}

ExprPtr ExpressionBuilder::hole(std::string_view text, uint32_t line,
                                uint32_t column) {
  ParserMachine machine(file, text, diagnostics, line, column);
  if (!machine.errors.shallow(machine.tokens))
    return std::make_unique<Expr>();
  auto *tree = machine.parser.hole();
  if (machine.errors.count != 0)
    return std::make_unique<Expr>();
  return ExpressionBuilder(spec, file, diagnostics, line, column)
      .expression(tree->expression());
}

} // namespace mbc::dsl
