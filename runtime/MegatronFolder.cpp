#include "runtime/MegatronFolder.h"

#include "runtime/File.h"
#include "runtime/HfDirectory.h"

#include <filesystem>

#include <nlohmann/json.hpp>

namespace mbc {

namespace fs = std::filesystem;

Result<Json> commonState(const PickleTree &tree, PickleValue dict) {
  Json common = Json::object();
  for (const char *key :
       {"args", "checkpoint_version", "iteration",
        "num_floating_point_operations_so_far", "content_metadata"}) {
    if (!tree.hasField(dict, key))
      continue;
    Result<Json> value = tree.json(tree.field(dict, key));
    if (!value)
      return value;
    common[key] = std::move(*value);
  }
  return common;
}

Result<void> readRecord(Checkpoint &checkpoint) {
  std::string record = joinPath(checkpoint.root, "mbc/record.json");
  std::string hf = joinPath(checkpoint.root, "mbc/hf");
  std::string config = joinPath(hf, "config.json");
  for (auto [path, into] : {std::pair(&record, &checkpoint.recordJson),
                            {&config, &checkpoint.configJson}}) {
    if (!fs::exists(*path))
      continue;
    Result<std::string> text = readWholeFile(*path);
    if (!text)
      return std::unexpected(text.error());
    *into = std::move(*text);
  }
  if (fs::is_directory(hf)) {
    Result<std::vector<std::string>> sidecars = listSidecars(hf);
    if (!sidecars)
      return std::unexpected(sidecars.error());
    checkpoint.sidecars = std::move(*sidecars);
  }
  return {};
}

Result<std::string> followTracker(const std::string &root) {
  std::string tracker = joinPath(root, "latest_checkpointed_iteration.txt");
  Result<std::string> text = readWholeFile(tracker, 4096);
  if (!text)
    return text;
  std::string_view word = *text;
  constexpr std::string_view space = " \t\r\n";
  word.remove_prefix(std::min(word.find_first_not_of(space), word.size()));
  word = word.substr(0, word.find_last_not_of(space) + 1);
  std::string folder;
  if (word == "release")
    folder = "release";
  else if (!word.empty() && word.size() < 19 &&
           word.find_first_not_of("0123456789") == std::string_view::npos)
    folder = fmt::format("iter_{:07}", std::stoll(std::string(word)));
  else
    return fail("{}: holds \"{}\", it must be an iteration or \"release\"",
                tracker, word);
  std::string path = joinPath(root, folder);
  if (!fs::is_directory(path))
    return fail("{}: points to {}, which is no directory", tracker, path);
  return path;
}

bool isTorchDist(const std::string &directory) {
  return fs::exists(joinPath(directory, ".metadata"));
}

bool isTorchRanks(const std::string &directory) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (it->path().filename().string().starts_with("mp_rank_0"))
      return true;
  return false;
}

} // namespace mbc
