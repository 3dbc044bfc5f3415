#include "runtime/File.h"
#include "runtime/Publish.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

namespace mbc {
namespace fs = std::filesystem;
namespace {

Result<void> removeFile(const fs::path &path) {
  std::error_code error;
  fs::remove(path, error);
  if (error)
    return fail("{}: cannot remove: {}", path.string(), error.message());
  return {};
}

/// A file name inside the checkpoint's own directory.
bool isInner(const fs::path &path) {
  return path.is_relative() &&
         std::find(path.begin(), path.end(), "..") == path.end();
}

/// The weight files that an index names.
Result<std::vector<std::string>> indexedFiles(const fs::path &index) {
  Result<std::string> text = readWholeFile(index.string());
  if (!text)
    return std::unexpected(text.error());
  nlohmann::json parsed = nlohmann::json::parse(*text, nullptr, false);
  std::vector<std::string> files;
  if (!parsed.is_object() || !parsed.contains("weight_map") ||
      !parsed["weight_map"].is_object())
    return fail("{}: not an index of weights, so what it names cannot be "
                "replaced: remove it by hand",
                index.string());
  for (const auto &file : parsed["weight_map"])
    if (file.is_string() && isInner(file.get<std::string>()))
      files.push_back(file.get<std::string>());
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

Result<void> removeHuggingFace(const fs::path &target) {
  std::error_code error;
  fs::path index = target / "model.safetensors.index.json";
  std::vector<std::string> weights;
  if (fs::exists(index, error)) {
    Result<std::vector<std::string>> indexed = indexedFiles(index);
    if (!indexed)
      return std::unexpected(indexed.error());
    weights = std::move(*indexed);
  } else if (fs::exists(target / "model.safetensors", error)) {
    weights = {"model.safetensors"};
  } else {
    return {};
  }
  // A config without weights would be taken for a model, so it goes first too.
  for (const fs::path &pointer : {index, target / "config.json"})
    if (Result<void> removed = removeFile(pointer); !removed)
      return removed;
  for (const std::string &file : weights)
    if (Result<void> removed = removeFile(target / file); !removed)
      return removed;
  return {};
}

/// Files that a Megatron checkpoint consists of; all else in its folder is
/// somebody's own.
bool isMegatronFile(const fs::path &inner) {
  std::string first = inner.begin()->string(), name = inner.filename().string();
  if (first == "mbc" || first.starts_with("mp_rank_"))
    return true;
  return name.ends_with(".distcp") || name == ".metadata" ||
         name == "metadata.json" || name == "integrity.json" ||
         name == "common.pt" || name == "train_state.pt" ||
         name == "run_config.yaml";
}

Result<void> removeIteration(const fs::path &folder) {
  std::error_code error;
  std::vector<fs::path> files, folders;
  for (const fs::directory_entry &entry :
       fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_directory(error))
      folders.push_back(entry.path());
    else if (isMegatronFile(entry.path().lexically_relative(folder)))
      files.push_back(entry.path());
  }
  for (const fs::path &file : files)
    if (Result<void> removed = removeFile(file); !removed)
      return removed;
  // Innermost first; a folder that still holds something stays.
  std::sort(folders.rbegin(), folders.rend());
  folders.push_back(folder);
  for (const fs::path &empty : folders)
    fs::remove(empty, error);
  return {};
}

Result<void> removeMegatron(const fs::path &target) {
  std::error_code error;
  fs::path tracker = target / "latest_checkpointed_iteration.txt";
  if (!fs::exists(tracker, error))
    return {};
  Result<std::string> text = readWholeFile(tracker.string(), 4096);
  if (!text)
    return std::unexpected(text.error());
  while (!text->empty() &&
         std::isspace(static_cast<unsigned char>(text->back())))
    text->pop_back();
  std::string folder = *text;
  if (folder != "release") {
    if (folder.empty() || folder.size() > 18 ||
        !std::all_of(folder.begin(), folder.end(),
                     [](char c) { return c >= '0' && c <= '9'; }))
      return fail("{}: says '{}', neither 'release' nor an iteration: remove "
                  "the old checkpoint by hand",
                  tracker.string(), folder);
    folder = fmt::format("iter_{:07}", std::stoll(folder));
  }
  for (const fs::path &pointer : {tracker, target / "latest_train_state.pt"})
    if (Result<void> removed = removeFile(pointer); !removed)
      return removed;
  if (fs::is_directory(target / folder, error))
    return removeIteration(target / folder);
  return {};
}

} // namespace

Result<void> removeOldCheckpoint(const std::string &target) {
  if (Result<void> removed = removeHuggingFace(target); !removed)
    return removed;
  if (Result<void> removed = removeMegatron(target); !removed)
    return removed;
  return syncDirectory(target);
}

} // namespace mbc
