#pragma once

#include "dsl/Diagnostic.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The formatter's stages: text to tokens (FormatTokens.cpp), tokens to lines
/// (FormatLines.cpp), lines to columns and text (Format.cpp).
namespace mbc::dsl {

/// Lines of a kind that follow one another share their columns.
enum class Row : uint8_t { None, Field, Assignment, Rule };

/// Whether a line break stands before a token.
enum class Break : uint8_t {
  Never,
  Allowed, ///< stays if it is there, comes if the line is too long
  Line,    ///< a statement, a field or a closing brace
};

/// A word of a spec or a comment, and what may stand before it.
struct FormatToken {
  std::string text;
  bool comment = false;
  uint32_t newlines = 0; ///< in the text, before it
  uint32_t blanks = 1;   ///< before it, behind another token
  Break before = Break::Never;
  /// Of an allowed break: of two breaks the one with less is the better.
  uint32_t level = 0;
  uint32_t braces = 0;  ///< that are open around it
  Row row = Row::None;  ///< that it starts
  bool cell = false;    ///< starts a column
  uint32_t bodyEnd = 0; ///< of a `{`: its `}`, if they stood in one line
};

/// Nothing if the file has syntax errors.
std::optional<std::vector<FormatToken>>
formatTokens(std::shared_ptr<const SourceFile> file, Diagnostics &diagnostics);

struct Cell {
  uint32_t blanks = 0; ///< before it
  std::string text;
};

struct FormatLine {
  bool blankBefore = false; ///< an empty line stands before it
  uint32_t indent = 0;
  Row row = Row::None; ///< of a row that is one line, else none
  std::vector<Cell> cells;
  std::string comment; ///< behind the code
};

/// Lines are wrapped where they are longer, if they can be.
constexpr uint32_t maxLineWidth = 110;

std::vector<FormatLine> formatLines(std::vector<FormatToken> tokens);

/// In characters, not in bytes.
uint32_t textWidth(std::string_view utf8);

} // namespace mbc::dsl
