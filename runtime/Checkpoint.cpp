#include "runtime/Checkpoint.h"

#include "runtime/File.h"
#include "runtime/HfDirectory.h"
#include "runtime/MegatronFolder.h"
#include "runtime/TorchDistReader.h"
#include "runtime/TorchRanks.h"

#include <filesystem>

namespace mbc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view partialName = ".mbc-partial";

Result<Checkpoint> open(const std::string &directory) {
  if (isTorchDist(directory))
    return openTorchDist(directory);
  if (isTorchRanks(directory))
    return openTorchRanks(directory);
  if (fs::exists(joinPath(directory, "latest_checkpointed_iteration.txt"))) {
    Result<std::string> folder = followTracker(directory);
    if (!folder)
      return std::unexpected(folder.error());
    if (isTorchDist(*folder))
      return openTorchDist(*folder);
    if (isTorchRanks(*folder))
      return openTorchRanks(*folder);
    return fail("{}: holds neither .metadata nor mp_rank_* folders", *folder);
  }
  if (fs::exists(joinPath(directory, "config.json")))
    return openHfDirectory(directory);
  if (fs::exists(joinPath(directory, partialName)))
    return fail("{}: holds an unfinished run ({}) and no finished checkpoint",
                directory, partialName);
  if (fs::exists(joinPath(directory, "adapter_config.json")))
    return fail("{}: is an adapter (adapter_config.json), not a model: merge "
                "it into its model first (PEFT: merge_and_unload), and convert "
                "that",
                directory);
  return fail("{}: is no checkpoint: it has no config.json (Hugging Face), no "
              "latest_checkpointed_iteration.txt (Megatron), no .metadata and "
              "no mp_rank_* folders (a Megatron iteration)",
              directory);
}

auto namesOf(const std::vector<StoredTensor> &tensors) {
  return [&tensors](uint32_t i) { return tensors[i].name; };
}

} // namespace

uint32_t Checkpoint::find(std::string_view name) const {
  return names_.find(name, namesOf(tensors));
}

void Checkpoint::indexNames() {
  names_ = NameTable(tensors.size());
  next_.assign(tensors.size(), none);
  // Backwards, so that a name leads to the first tensor.
  for (uint32_t i = tensors.size(); i-- != 0;)
    next_[i] = names_.put(i, namesOf(tensors));
}

Result<std::string> checkpointRoot(const std::string &directory) {
  std::error_code unreadable;
  bool tracked = fs::exists(
      joinPath(directory, "latest_checkpointed_iteration.txt"), unreadable);
  if (!tracked || isTorchDist(directory) || isTorchRanks(directory))
    return directory;
  return followTracker(directory);
}

Result<Checkpoint> openCheckpoint(const std::string &directory) {
  try {
    if (!fs::is_directory(directory))
      return fail("{}: is not a directory", directory);
    if (fs::path(joinPath(directory, "")).parent_path().filename() ==
        partialName)
      return fail("{}: is an unfinished run, not a checkpoint", directory);
    return open(directory);
  } catch (const std::exception &error) { // file system, memory
    return fail("{}: cannot be read: {}", directory, error.what());
  }
}

} // namespace mbc
