#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mbc::dsl {

/// A spec file's text, shared by all ranges that point into it.
struct SourceFile {
  std::string path; ///< as opened, for messages
  std::string text;
  /// In a bundle: relative to the spec's folder or to a search directory, so
  /// that it says nothing about the machine.
  std::string name;
};

/// A place in a spec: 1-based line and column, and a length for the caret.
struct SourceRange {
  std::shared_ptr<const SourceFile> file;
  uint32_t line = 0, column = 0, length = 1;
};

enum class Severity : uint8_t { Error, Warning };

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

/// Collects findings in the order in which they are met.
class Diagnostics {
public:
  void error(SourceRange where, std::string text, std::vector<Note> notes = {});
  void warning(SourceRange where, std::string text,
               std::vector<Note> notes = {});

  bool hasErrors() const { return errors_ != 0; }
  const std::vector<Diagnostic> &all() const { return all_; }
  Diagnostics errors() const;

private:
  std::vector<Diagnostic> all_;
  size_t errors_ = 0;
};

/// path:line:column, the text, the line itself and a caret, then the notes in
/// the same form.
std::string toString(const Diagnostic &diagnostic);

/// The candidate with the smallest edit distance to `name`, or "" if none is
/// near enough to be a likely slip.
std::string didYouMean(std::string_view name,
                       const std::vector<std::string> &candidates);

} // namespace mbc::dsl
