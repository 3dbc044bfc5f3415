#include "compiler/FindingsText.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <vector>

namespace mbc::compiler {
namespace {

/// For findings and notes together. `roomForLines` is for findings without
/// excerpt; notes have as much, if the findings leave no more.
constexpr size_t mostLines = 30, roomForLines = 10, roomForNotes = 10;

struct Finding {
  const dsl::Diagnostic *first;
  size_t count = 1; ///< at this place
};

/// Errors first, then in the order in which they were found.
std::vector<Finding> byPlace(const dsl::Diagnostics &diagnostics) {
  std::vector<Finding> findings;
  std::map<std::tuple<const dsl::SourceFile *, uint32_t, uint32_t>, size_t>
      places;
  for (dsl::Severity severity :
       {dsl::Severity::Error, dsl::Severity::Warning}) {
    places.clear();
    for (const dsl::Diagnostic &entry : diagnostics.all()) {
      if (entry.severity != severity)
        continue;
      const dsl::SourceRange &where = entry.where;
      auto [place, isNew] = places.try_emplace(
          {where.file.get(), where.line, where.column}, findings.size());
      if (isNew || !where.file)
        findings.push_back({&entry});
      else
        ++findings[place->second].count;
    }
  }
  return findings;
}

std::string countText(const Finding &finding) {
  return finding.count == 1
             ? std::string()
             : fmt::format("  and {} more at this place\n", finding.count - 1);
}

size_t linesOf(const std::string &text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

/// The first line, without excerpt and notes.
std::string headline(const Finding &finding) {
  std::string text = dsl::toString(*finding.first);
  text.resize(std::min(text.find('\n'), text.size()));
  if (finding.count > 1)
    text += fmt::format(" (and {} more)", finding.count - 1);
  return text + "\n";
}

} // namespace

std::string findingsText(const dsl::Diagnostics &diagnostics,
                         std::span<const std::string> notes, bool all) {
  std::vector<Finding> findings = byPlace(diagnostics);
  const size_t lines = mostLines - std::min(notes.size(), roomForNotes);
  std::string text;
  size_t at = 0;
  for (; at != findings.size(); ++at) {
    std::string block =
        dsl::toString(*findings[at].first) + countText(findings[at]);
    if (!all && at != 0 &&
        linesOf(text) + linesOf(block) +
                std::min(findings.size() - at - 1, roomForLines) >
            lines)
      break;
    text += block;
  }
  for (; at != findings.size() && linesOf(text) < lines - 1; ++at)
    text += headline(findings[at]);
  if (at != findings.size())
    text += fmt::format("and {} more findings; -v shows them all\n",
                        findings.size() - at);
  size_t noteAt = 0;
  const size_t left = mostLines - std::min(linesOf(text), mostLines);
  for (; noteAt != notes.size(); ++noteAt) {
    if (!all && noteAt + 1 >= left && noteAt + 1 != notes.size())
      break;
    text += fmt::format("note: {}\n", notes[noteAt]);
  }
  if (noteAt != notes.size())
    text += fmt::format("and {} more notes; -v shows them all\n",
                        notes.size() - noteAt);
  return text;
}

} // namespace mbc::compiler
