#include "dsl/Parse.h"

#include "dsl/AstBuilder.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

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

size_t countErrors(const Diagnostics &diagnostics) {
  return static_cast<size_t>(
      std::count_if(diagnostics.all().begin(), diagnostics.all().end(),
                    [](const Diagnostic &entry) {
                      return entry.severity == Severity::Error;
                    }));
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

  void read(Spec &spec, std::shared_ptr<const SourceFile> first) {
    seen.emplace(fs::path(first->path).lexically_normal().string(), first);
    spec.files.push_back(std::move(first));
    for (size_t next = 0; next < spec.files.size(); ++next) {
      std::vector<UseRequest> uses;
      auto file = spec.files[next];
      addFile(spec, file, uses, diagnostics);
      for (const UseRequest &use : uses)
        addUse(spec, use, *file);
    }
  }

  /// A bundle holds all that is used, in the order in which it was met.
  void readBundle(Spec &spec,
                  std::vector<std::shared_ptr<const SourceFile>> files) {
    spec.files = std::move(files);
    for (const auto &file : spec.files) {
      std::vector<UseRequest> uses;
      addFile(spec, file, uses, diagnostics);
    }
  }

private:
  /// R2. A file that is there already is not read again.
  void addUse(Spec &spec, const UseRequest &use, const SourceFile &user) {
    struct Place {
      fs::path path, name;
    };
    std::vector<Place> places{{fs::path(user.path).parent_path() / use.path,
                               fs::path(user.name).parent_path() / use.path}};
    for (const std::string &directory : searchDirs)
      places.push_back({fs::path(directory) / use.path, use.path});
    for (const Place &place : places) {
      std::string path = place.path.lexically_normal().string();
      auto known = seen.find(path);
      if (known == seen.end()) {
        std::optional<std::string> text = readText(path);
        if (!text)
          continue;
        auto file = std::make_shared<SourceFile>(
            path, std::move(*text), place.name.lexically_normal().string());
        known = seen.emplace(path, file).first;
        spec.files.push_back(std::move(file));
      }
      spec.uses.push_back({use.where, known->second});
      return;
    }
    diagnostics.error(
        use.where,
        fmt::format("file \"{}\" was found neither beside {} nor in the search "
                    "path ({}); check the spelling or give --spec-path",
                    use.path, user.path, fmt::join(searchDirs, ", ")));
  }

  const std::vector<std::string> &searchDirs;
  Diagnostics &diagnostics;
  std::map<std::string, std::shared_ptr<const SourceFile>> seen; ///< by path
};

} // namespace

std::unique_ptr<const Spec> readSpec(std::string_view text,
                                     const std::string &path,
                                     const std::vector<std::string> &searchDirs,
                                     Diagnostics &diagnostics) {
  auto spec = std::make_unique<Spec>();
  try {
    Loader loader(searchDirs, diagnostics);
    if (auto files = splitBundle(text); !files.empty())
      loader.readBundle(*spec, std::move(files));
    else
      loader.read(*spec, std::make_shared<SourceFile>(
                             path, std::string(text),
                             fs::path(path).filename().string()));
  } catch (const std::exception &failure) { // ANTLR's
    diagnostics.error({}, fmt::format("{}: {}", path, failure.what()));
  }
  return spec;
}

ParseResult parseText(std::string_view text, const std::string &path,
                      const std::vector<std::string> &searchDirs,
                      Diagnostics &diagnostics) {
  size_t errorsBefore = countErrors(diagnostics);
  ParseResult spec = readSpec(text, path, searchDirs, diagnostics);
  if (countErrors(diagnostics) == errorsBefore)
    checkSpec(*spec, diagnostics);
  return countErrors(diagnostics) == errorsBefore ? std::move(spec) : nullptr;
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
