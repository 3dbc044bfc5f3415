#include "dsl/Parse.h"

#include "dsl/AstBuilder.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
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
    std::string name(text.substr(bundleMark.size(), end - bundleMark.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t next =
        std::min(text.find(fmt::format("\n{}", bundleMark)), text.size());
    size_t length = std::min(next + 1, text.size());
    files.push_back(std::make_shared<SourceFile>(
        name, std::string(text.substr(0, length)), name));
    text.remove_prefix(length);
  }
  return files;
}

/// Reads a spec and what it uses, each file once.
class Loader {
public:
  Loader(const std::vector<std::string> &searchDirs, Diagnostics &diagnostics)
      : searchDirs(searchDirs), diagnostics(diagnostics) {}

  ParseResult load(std::shared_ptr<const SourceFile> first) {
    return checked([&](Spec &spec) {
      seen.insert(fs::path(first->path).lexically_normal().string());
      spec.files.push_back(std::move(first));
      for (size_t next = 0; next < spec.files.size(); ++next) {
        std::vector<UseRequest> uses;
        auto file = spec.files[next];
        addFile(spec, file, uses, diagnostics);
        for (const UseRequest &use : uses)
          if (auto used = find(use, *file))
            spec.files.push_back(std::move(used));
      }
    });
  }

  /// A bundle holds all that is used, in the order in which it was met.
  ParseResult loadBundle(std::vector<std::shared_ptr<const SourceFile>> files) {
    return checked([&](Spec &spec) {
      spec.files = std::move(files);
      for (const auto &file : spec.files) {
        std::vector<UseRequest> uses;
        addFile(spec, file, uses, diagnostics);
      }
    });
  }

private:
  template <typename Fill> ParseResult checked(Fill fill) {
    auto spec = std::make_unique<Spec>();
    size_t errorsBefore = countErrors();
    fill(*spec);
    if (countErrors() == errorsBefore)
      checkSpec(*spec, diagnostics);
    if (countErrors() != errorsBefore)
      return nullptr;
    return spec;
  }

  size_t countErrors() const {
    return static_cast<size_t>(
        std::count_if(diagnostics.all().begin(), diagnostics.all().end(),
                      [](const Diagnostic &entry) {
                        return entry.severity == Severity::Error;
                      }));
  }

  /// R2. Null if the file is there already, or was not found.
  std::shared_ptr<const SourceFile> find(const UseRequest &use,
                                         const SourceFile &user) {
    struct Place {
      fs::path path, name;
    };
    std::vector<Place> places{{fs::path(user.path).parent_path() / use.path,
                               fs::path(user.name).parent_path() / use.path}};
    for (const std::string &directory : searchDirs)
      places.push_back({fs::path(directory) / use.path, use.path});
    for (const Place &place : places) {
      std::string path = place.path.lexically_normal().string();
      if (seen.contains(path))
        return nullptr;
      std::optional<std::string> text = readText(path);
      if (!text)
        continue;
      seen.insert(path);
      return std::make_shared<SourceFile>(
          path, std::move(*text), place.name.lexically_normal().string());
    }
    diagnostics.error(
        use.where,
        fmt::format("file \"{}\" was found neither beside {} nor in the search "
                    "path ({}); check the spelling or give --spec-path",
                    use.path, user.path, fmt::join(searchDirs, ", ")));
    return nullptr;
  }

  const std::vector<std::string> &searchDirs;
  Diagnostics &diagnostics;
  std::set<std::string> seen;
};

} // namespace

ParseResult parseText(std::string_view text, const std::string &path,
                      const std::vector<std::string> &searchDirs,
                      Diagnostics &diagnostics) {
  try {
    Loader loader(searchDirs, diagnostics);
    if (auto files = splitBundle(text); !files.empty())
      return loader.loadBundle(std::move(files));
    return loader.load(std::make_shared<SourceFile>(
        path, std::string(text), fs::path(path).filename().string()));
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
    text += fmt::format("{}{}\n{}", bundleMark, file->name, file->text);
    if (!text.ends_with('\n'))
      text += '\n';
  }
  return text;
}

} // namespace mbc::dsl
