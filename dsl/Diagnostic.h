#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mbc::dsl {

/// A spec file's text, shared by all ranges that point into it.
struct SourceFile {
  std::string path;
  std::string text;
};

/// A place in a spec: 1-based line and column, and a length for the caret.
struct SourceRange {
  std::shared_ptr<const SourceFile> file;
  uint32_t line = 0, column = 0, length = 1;
};

enum class Severity : uint8_t { Error, Warning, Note };

struct Note {
  SourceRange where;
  std::string text;
};

struct Diagnostic {
  Severity severity = Severity::Error;
  SourceRange where; ///< `file` may be null: the finding has no place in a spec
  std::string text;
  std::vector<Note> notes;
};

/// Collects findings; `print` shows each as path:line:column, the line itself
/// and a caret, followed by its notes.
class Diagnostics {
public:
  void error(SourceRange where, std::string text, std::vector<Note> notes = {});
  void warning(SourceRange where, std::string text, std::vector<Note> notes = {});
  void note(std::string text); ///< stands alone, without a place

  bool hasErrors() const { return errors_ != 0; }
  const std::vector<Diagnostic> &all() const { return all_; }

private:
  std::vector<Diagnostic> all_;
  size_t errors_ = 0;
};

std::string toString(const Diagnostic &diagnostic);

/// The candidate with the smallest edit distance to `name`, or "" if none is
/// near enough to be a likely slip.
std::string didYouMean(std::string_view name,
                       const std::vector<std::string> &candidates);

} // namespace mbc::dsl
