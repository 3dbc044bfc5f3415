#include "dsl/Diagnostic.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace mbc::dsl {

void Diagnostics::error(SourceRange where, std::string text,
                        std::vector<Note> notes) {
  ++errors_;
  all_.push_back(
      {Severity::Error, std::move(where), std::move(text), std::move(notes)});
}

void Diagnostics::warning(SourceRange where, std::string text,
                          std::vector<Note> notes) {
  all_.push_back(
      {Severity::Warning, std::move(where), std::move(text), std::move(notes)});
}

namespace {

std::string_view lineOf(std::string_view text, uint32_t line) {
  for (uint32_t at = 1; at < line; ++at) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos)
      return {};
    text.remove_prefix(end + 1);
  }
  std::string_view result = text.substr(0, text.find('\n'));
  return result.ends_with('\r') ? result.substr(0, result.size() - 1) : result;
}

void append(std::string &out, const SourceRange &where,
            std::string_view severity, std::string_view text) {
  if (!where.file) {
    out += fmt::format("{}: {}\n", severity, text);
    return;
  }
  out += fmt::format("{}:{}:{}: {}: {}\n", where.file->path, where.line,
                     where.column, severity, text);
  std::string_view line = lineOf(where.file->text, where.line);
  if (line.empty() || where.column == 0)
    return;
  // Tabs stay tabs, so that the caret stands under its column.
  std::string blank(line.substr(0, where.column - 1));
  std::replace_if(
      blank.begin(), blank.end(), [](char c) { return c != '\t'; }, ' ');
  uint32_t tail = std::max<uint32_t>(where.length, 1) - 1;
  out += fmt::format("  {}\n  {}^{:~<{}}\n", line, blank, "", tail);
}

} // namespace

Diagnostics Diagnostics::errors() const {
  Diagnostics result;
  for (const Diagnostic &entry : all_)
    if (entry.severity == Severity::Error)
      result.error(entry.where, entry.text, entry.notes);
  return result;
}

std::string toString(const Diagnostic &diagnostic) {
  static constexpr std::string_view names[] = {"error", "warning"};
  std::string out;
  append(out, diagnostic.where, names[static_cast<size_t>(diagnostic.severity)],
         diagnostic.text);
  for (const Note &note : diagnostic.notes)
    append(out, note.where, "note", note.text);
  return out;
}

namespace {

size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

} // namespace

std::string didYouMean(std::string_view name,
                       const std::vector<std::string> &candidates) {
  std::string best;
  // A slip changes at most a third of the letters.
  size_t bestDistance = name.size() / 3 + 2;
  for (const std::string &candidate : candidates) {
    size_t distance = editDistance(name, candidate);
    if (distance < bestDistance &&
        distance < std::max(name.size(), candidate.size())) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best;
}

} // namespace mbc::dsl
