#pragma once

#include "dsl/Parse.h"
#include "dsl/Symbols.h"
#include "runtime/Json.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mbc::compiler {

/// A spec that is open in an editor.
class Document {
public:
  Document(std::string uri, std::vector<std::string> searchDirs);

  /// Reads and checks the text. A file without a model is a part of other
  /// specs, whose names it may use: it is read only.
  void update(std::string text);

  const std::string &uri() const { return uri_; }
  const std::string &text() const { return text_; }
  const std::string &path() const { return path_; }
  /// Of the last text that had no syntax errors; null if there was none.
  const dsl::Spec *spec() const { return spec_.get(); }
  /// What stands at a place of this file, or null.
  const dsl::SymbolUse *symbolAt(uint32_t line, uint32_t column) const;
  const std::vector<dsl::SymbolUse> &symbols() const { return symbols_; }
  bool isHere(const dsl::SourceRange &where) const {
    return where.file && where.file->path == path_;
  }

  /// The parameters of textDocument/publishDiagnostics.
  Json findings() const;

  /// What a comment `# mbc.config: PATH` names, beside this file; or "".
  std::string configPath() const;

private:
  Json finding(const dsl::Diagnostic &diagnostic) const;

  std::string uri_, path_, text_;
  std::vector<std::string> searchDirs_;
  std::unique_ptr<const dsl::Spec> spec_;
  std::vector<dsl::SymbolUse> symbols_;
  dsl::Diagnostics diagnostics_;
};

} // namespace mbc::compiler
