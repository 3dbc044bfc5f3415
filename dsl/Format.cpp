#include "dsl/Format.h"

#include "dsl/FormatToken.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <span>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

/// A longer cell stands out of its column: it does not widen it.
constexpr uint32_t maxCellWidth = 26;

uint32_t codeWidth(const FormatLine &line) {
  uint32_t width = line.indent;
  for (const Cell &cell : line.cells)
    width += cell.blanks + textWidth(cell.text);
  return width;
}

/// Pads the cells of rows that follow one another; the last cell of a row
/// takes no part.
void alignRows(std::span<FormatLine> rows) {
  std::vector<uint32_t> widths;
  for (const FormatLine &row : rows) {
    widths.resize(std::max(widths.size(), row.cells.size()));
    for (size_t i = 0; i + 1 < row.cells.size(); ++i)
      if (uint32_t width = textWidth(row.cells[i].text); width <= maxCellWidth)
        widths[i] = std::max(widths[i], width);
  }
  for (FormatLine &row : rows) {
    std::vector<Cell> unaligned = row.cells;
    for (size_t i = 0; i + 1 < row.cells.size(); ++i)
      if (uint32_t width = textWidth(row.cells[i].text); width < widths[i])
        row.cells[i + 1].blanks += widths[i] - width;
    if (codeWidth(row) > maxLineWidth)
      row.cells = std::move(unaligned);
  }
}

/// Comments behind the code of lines that follow one another.
void alignComments(std::span<FormatLine> lines) {
  uint32_t widest = 0;
  for (const FormatLine &line : lines)
    widest = std::max(widest, codeWidth(line));
  for (FormatLine &line : lines)
    line.cells.push_back({widest - codeWidth(line) + 2, line.comment});
}

/// Calls `use` for each longest run of lines without an empty one between
/// them of which `joins` says that the second belongs to the first.
void forEachRun(std::vector<FormatLine> &lines,
                bool (*joins)(const FormatLine &, const FormatLine &),
                void (*use)(std::span<FormatLine>)) {
  for (size_t start = 0, end = 0; start != lines.size(); start = end) {
    for (end = start + 1; end != lines.size() && !lines[end].blankBefore &&
                          joins(lines[start], lines[end]);)
      ++end;
    use(std::span(lines).subspan(start, end - start));
  }
}

std::string textOf(const std::vector<FormatLine> &lines) {
  std::string text;
  for (const FormatLine &line : lines) {
    text += line.blankBefore ? "\n" : "";
    text.append(line.indent, ' ');
    for (const Cell &cell : line.cells)
      text.append(cell.blanks, ' ').append(cell.text);
    text += '\n';
  }
  return text;
}

std::string layOut(std::vector<FormatToken> tokens) {
  std::vector<FormatLine> lines = formatLines(std::move(tokens));
  forEachRun(
      lines,
      [](const FormatLine &first, const FormatLine &line) {
        return line.row != Row::None && line.row == first.row &&
               line.indent == first.indent;
      },
      alignRows);
  forEachRun(
      lines,
      [](const FormatLine &first, const FormatLine &line) {
        return first.comment.empty() == line.comment.empty();
      },
      [](std::span<FormatLine> run) {
        if (!run[0].comment.empty())
          alignComments(run);
      });
  return textOf(lines);
}

} // namespace

std::optional<std::string> format(std::string_view text,
                                  const std::string &path,
                                  Diagnostics &diagnostics) {
  try {
    auto file = std::make_shared<SourceFile>(path, std::string(text), path);
    if (auto tokens = formatTokens(std::move(file), diagnostics))
      return layOut(std::move(*tokens));
  } catch (const std::exception &failure) { // ANTLR's
    diagnostics.error({}, fmt::format("{}: {}", path, failure.what()));
  }
  return std::nullopt;
}

} // namespace mbc::dsl
