#include "compiler/Binding/FindSpec.h"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>

namespace mbc::compiler {

namespace fs = std::filesystem;

std::string specDirectory(const std::string &specPath) {
  if (!specPath.empty())
    return specPath;
  Dl_info info{};
  dladdr(reinterpret_cast<void *>(&specDirectory), &info);
  fs::path library = info.dli_fname ? info.dli_fname : "";
  std::error_code ignored;
  fs::path folder = fs::weakly_canonical(library, ignored).parent_path();
  return (folder.parent_path() / "share/mbc/specs").string();
}

/// Whether a file has one of the words in quotes, as a header would.
static bool mentions(const fs::path &file,
                     const std::vector<std::string> &words) {
  std::ifstream stream(file);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  return std::ranges::any_of(words, [&](const std::string &word) {
    return text.contains(fmt::format("\"{}\"", word));
  });
}

std::vector<SpecEntry> listSpecs(const std::string &directory,
                                 dsl::Diagnostics &diagnostics,
                                 const std::vector<std::string> &words) {
  std::vector<SpecEntry> entries;
  std::error_code failed;
  for (const fs::directory_entry &file :
       fs::directory_iterator(directory, failed)) {
    if (file.path().extension() != ".mbspec" ||
        (!words.empty() && !mentions(file.path(), words)))
      continue;
    dsl::ParseResult spec =
        dsl::parseFile(file.path().string(), {directory}, diagnostics);
    if (spec)
      entries.push_back(
          {file.path().string(), dsl::header(*spec), dsl::support(*spec)});
  }
  if (failed)
    diagnostics.error(
        {}, fmt::format("cannot read the specs in {}: {}; name a folder "
                        "with --spec-path",
                        directory, failed.message()));
  std::sort(
      entries.begin(), entries.end(),
      [](const SpecEntry &a, const SpecEntry &b) { return a.path < b.path; });
  return entries;
}

static bool contains(const std::vector<std::string> &list,
                     const std::string &word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

static void unknownModel(const ConfigFacts &config,
                         const std::vector<SpecEntry> &specs,
                         dsl::Diagnostics &diagnostics) {
  std::vector<std::string> known;
  for (const SpecEntry &entry : specs)
    known.insert(known.end(), entry.header.architectures.begin(),
                 entry.header.architectures.end());
  std::ranges::sort(known);
  known.erase(std::ranges::unique(known).begin(), known.end());
  std::string near;
  for (const std::string &name : config.architectures)
    if (std::string found = dsl::didYouMean(name, known); !found.empty())
      near = fmt::format("; the nearest known is {}", found);
  diagnostics.error(
      {},
      fmt::format("no spec is known for architectures [{}], model_type "
                  "\"{}\"{}. `mbc specs` lists the {} that are; name a spec "
                  "with --spec FILE, or draft one with `mbc spec new`",
                  fmt::join(config.architectures, ", "), config.modelType, near,
                  known.size()));
}

/// The specs for the one architecture; of several those for its model_type, if
/// there are any.
static std::vector<const SpecEntry *>
ofArchitecture(const ConfigFacts &config, const std::vector<SpecEntry> &specs) {
  std::vector<const SpecEntry *> same, exact;
  for (const SpecEntry &entry : specs)
    if (contains(entry.header.architectures, config.architectures.front())) {
      same.push_back(&entry);
      if (contains(entry.header.modelTypes, config.modelType))
        exact.push_back(&entry);
    }
  return exact.empty() ? same : exact;
}

std::string findSpec(const ConfigFacts &config, const std::string &directory,
                     std::vector<std::string> &notes,
                     dsl::Diagnostics &diagnostics) {
  // A spec is usually called after its model_type: no need to read them all.
  fs::path byName = fs::path(directory) / (config.modelType + ".mbspec");
  std::error_code ignored;
  if (config.architectures.size() == 1 && !config.modelType.contains('/') &&
      fs::exists(byName, ignored)) {
    dsl::Diagnostics ignoredFindings;
    dsl::ParseResult spec =
        dsl::parseFile(byName.string(), {directory}, ignoredFindings);
    if (spec && contains(dsl::header(*spec).architectures,
                         config.architectures.front()))
      return byName.string();
  }
  std::vector<std::string> words = config.architectures;
  words.push_back(config.modelType);
  std::erase(words, "");
  // A spec that does not parse is no matter of the others.
  dsl::Diagnostics unused;
  std::vector<SpecEntry> specs = listSpecs(directory, unused, words);
  if (config.architectures.size() > 1) {
    diagnostics.error(
        {}, fmt::format("config.json names several architectures [{}]; say "
                        "which is meant with --spec FILE",
                        fmt::join(config.architectures, ", ")));
    return {};
  }
  if (!config.architectures.empty()) {
    std::vector<const SpecEntry *> same = ofArchitecture(config, specs);
    if (same.size() > 1) {
      diagnostics.error(
          {}, fmt::format("the specs {} and {} are both for {}, and model_type "
                          "\"{}\" does not tell them apart; name one with "
                          "--spec FILE",
                          same[0]->header.name, same[1]->header.name,
                          config.architectures.front(), config.modelType));
      return {};
    }
    if (!same.empty())
      return same.front()->path;
  }
  for (const SpecEntry &entry : specs)
    if (!config.modelType.empty() &&
        contains(entry.header.modelTypes, config.modelType)) {
      notes.push_back(
          fmt::format("architectures is [{}]; the spec {} was found by "
                      "model_type \"{}\"",
                      fmt::join(config.architectures, ", "), entry.header.name,
                      config.modelType));
      return entry.path;
    }
  dsl::Diagnostics findings;
  specs = listSpecs(directory, findings);
  for (const dsl::Diagnostic &finding : findings.all())
    if (finding.severity == dsl::Severity::Error)
      diagnostics.error(finding.where, finding.text, finding.notes);
  unknownModel(config, specs, diagnostics);
  return {};
}

std::vector<std::string> findSpecs(const ConfigFacts &config,
                                   const std::string &directory) {
  dsl::Diagnostics unused;
  std::vector<std::string> paths;
  if (config.architectures.size() == 1)
    for (const SpecEntry &entry :
         listSpecs(directory, unused, config.architectures))
      if (contains(entry.header.architectures, config.architectures.front()) &&
          contains(entry.header.modelTypes, config.modelType))
        paths.push_back(entry.path);
  std::ranges::stable_partition(paths, [&](const std::string &path) {
    return fs::path(path).stem() == config.modelType;
  });
  return paths;
}

} // namespace mbc::compiler
