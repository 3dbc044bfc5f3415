#include "dsl/Parse.h"

#include "dsl/AstBuilder.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

namespace fs = std::filesystem;

// A bundle is the files one after the other, each behind such a line. It is a
// comment to the language.
constexpr std::string_view bundleMark = "#file ";

std::optional<std::string> readText(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream || fs::is_directory(path))
    return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::vector<std::shared_ptr<const SourceFile>>
splitBundle(std::string_view text) {
  std::vector<std::shared_ptr<const SourceFile>> files;
  while (text.starts_with(bundleMark)) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string path(text.substr(bundleMark.size(), end - bundleMark.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t next =
        std::min(text.find(fmt::format("\n{}", bundleMark)), text.size());
    size_t length = std::min(next + 1, text.size());
    files.push_back(std::make_shared<SourceFile>(
        std::move(path), std::string(text.substr(0, length))));
    text.remove_prefix(length);
  }
  return files;
}

/// Reads a spec and what it uses, each file once.
class Loader {
public:
  Loader(const std::vector<std::string> &searchDirs, Diagnostics &diagnostics)
      : searchDirs(searchDirs), diagnostics(diagnostics) {}

  void addBundled(std::shared_ptr<const SourceFile> file) {
    bundled.emplace(fs::path(file->path).lexically_normal().string(),
                    std::move(file));
  }

  ParseResult load(std::shared_ptr<const SourceFile> first) {
    auto spec = std::make_unique<Spec>();
    size_t errorsBefore = countErrors();
    seen.insert(fs::path(first->path).lexically_normal().string());
    spec->files.push_back(std::move(first));
    for (size_t next = 0; next < spec->files.size(); ++next) {
      std::vector<UseRequest> uses;
      auto file = spec->files[next];
      addFile(*spec, file, uses, diagnostics);
      for (const UseRequest &use : uses)
        if (auto used = find(use, file->path))
          spec->files.push_back(std::move(used));
    }
    if (countErrors() == errorsBefore)
      checkSpec(*spec, diagnostics);
    if (countErrors() != errorsBefore)
      return nullptr;
    return spec;
  }

private:
  size_t countErrors() const {
    return static_cast<size_t>(
        std::count_if(diagnostics.all().begin(), diagnostics.all().end(),
                      [](const Diagnostic &entry) {
                        return entry.severity == Severity::Error;
                      }));
  }

  /// Null if the file is there already, or was not found.
  std::shared_ptr<const SourceFile> find(const UseRequest &use,
                                         const std::string &user) {
    std::vector<fs::path> places{fs::path(user).parent_path() / use.path};
    for (const std::string &directory : searchDirs)
      places.push_back(fs::path(directory) / use.path);
    for (const fs::path &place : places) {
      std::string path = place.lexically_normal().string();
      if (seen.contains(path))
        return nullptr;
      std::shared_ptr<const SourceFile> file;
      if (auto entry = bundled.find(path); entry != bundled.end())
        file = entry->second;
      else if (auto text = bundled.empty() ? readText(place) : std::nullopt)
        file = std::make_shared<SourceFile>(path, std::move(*text));
      if (!file)
        continue;
      seen.insert(path);
      return file;
    }
    diagnostics.error(
        use.where,
        fmt::format("file \"{}\" was found neither beside {} nor in the search "
                    "path ({}); check the spelling or give --spec-path",
                    use.path, user, fmt::join(searchDirs, ", ")));
    return nullptr;
  }

  const std::vector<std::string> &searchDirs;
  Diagnostics &diagnostics;
  std::map<std::string, std::shared_ptr<const SourceFile>> bundled;
  std::set<std::string> seen;
};

} // namespace

ParseResult parseText(std::string_view text, const std::string &path,
                      const std::vector<std::string> &searchDirs,
                      Diagnostics &diagnostics) {
  try {
    Loader loader(searchDirs, diagnostics);
    auto files = splitBundle(text);
    if (files.empty())
      return loader.load(std::make_shared<SourceFile>(path, std::string(text)));
    for (const auto &file : files)
      loader.addBundled(file);
    return loader.load(files[0]);
  } catch (const std::exception &failure) { // ANTLR's
    diagnostics.error({}, fmt::format("{}: {}", path, failure.what()));
    return nullptr;
  }
}

ParseResult parseFile(const std::string &path,
                      const std::vector<std::string> &searchDirs,
                      Diagnostics &diagnostics) {
  std::optional<std::string> text = readText(path);
  if (text)
    return parseText(*text, path, searchDirs, diagnostics);
  diagnostics.error(
      {}, fmt::format("spec {} cannot be read; check the path", path));
  return nullptr;
}

SpecHeader header(const Spec &spec) {
  SpecHeader result;
  if (!spec.model)
    return result;
  result.name = spec.model->name;
  result.architectures = spec.model->architectures;
  result.modelTypes = spec.model->types;
  result.modelType = result.modelTypes.empty() ? "" : result.modelTypes[0];
  result.megatron = spec.model->megatron;
  return result;
}

std::string bundle(const Spec &spec) {
  std::string text;
  for (const auto &file : spec.files) {
    text += fmt::format("{}{}\n{}", bundleMark, file->path, file->text);
    if (!text.ends_with('\n'))
      text += '\n';
  }
  return text;
}

} // namespace mbc::dsl
