#include "compiler/LanguageServer/Document.h"

#include "compiler/LanguageServer/Position.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mbc::compiler {

Document::Document(std::string uri, std::vector<std::string> searchDirs)
    : uri_(std::move(uri)), path_(pathOf(uri_)),
      searchDirs_(std::move(searchDirs)) {}

void Document::update(std::string text) {
  text_ = std::move(text);
  diagnostics_ = {};
  auto read = dsl::readSpec(text_, path_, searchDirs_, diagnostics_);
  if (diagnostics_.hasErrors())
    return;
  spec_ = std::move(read);
  symbols_ = dsl::symbolUses(*spec_);
  if (spec_->model)
    dsl::checkSpec(*spec_, diagnostics_);
}

const dsl::SymbolUse *Document::symbolAt(uint32_t line, uint32_t column) const {
  for (const dsl::SymbolUse &use : symbols_)
    if (isHere(use.where) && use.where.line == line &&
        use.where.column <= column &&
        column <= use.where.column + use.where.length)
      return &use;
  return nullptr;
}

Json Document::finding(const dsl::Diagnostic &diagnostic) const {
  // What is wrong in a used file is shown at the top of this one.
  dsl::SourceRange where{nullptr, 1, 1, 1};
  std::string text = diagnostic.text;
  if (isHere(diagnostic.where))
    where = diagnostic.where;
  else if (diagnostic.where.file)
    text = fmt::format("{}:{}: {}", diagnostic.where.file->path,
                       diagnostic.where.line, text);
  constexpr int error = 1, warning = 2;
  Json notes = Json::array();
  for (const dsl::Note &note : diagnostic.notes)
    if (note.where.file)
      notes.push_back(
          {{"location",
            {{"uri", isHere(note.where) ? uri_ : uriOf(note.where.file->path)},
             {"range", toJson(note.where.file->text, note.where)}}},
           {"message", note.text}});
  return {{"range", toJson(text_, where)},
          {"severity",
           diagnostic.severity == dsl::Severity::Error ? error : warning},
          {"source", "mbc"},
          {"message", text},
          {"relatedInformation", notes}};
}

Json Document::findings() const {
  Json list = Json::array();
  for (const dsl::Diagnostic &diagnostic : diagnostics_.all())
    list.push_back(finding(diagnostic));
  return {{"uri", uri_}, {"diagnostics", list}};
}

std::string Document::configPath() const {
  constexpr std::string_view mark = "# mbc.config:";
  size_t start = text_.find(mark);
  if (start == std::string::npos)
    return "";
  std::string_view path = std::string_view(text_).substr(start + mark.size());
  path = path.substr(0, path.find_first_of("\r\n"));
  path.remove_prefix(std::min(path.find_first_not_of(' '), path.size()));
  path = path.substr(0, path.find_last_not_of(' ') + 1);
  return (std::filesystem::path(path_).parent_path() / path).string();
}

} // namespace mbc::compiler
