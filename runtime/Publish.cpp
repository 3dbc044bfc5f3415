#include "runtime/Publish.h"
#include "runtime/File.h"
#include "runtime/Plan.h"
#include "runtime/RunLock.h"
#include "runtime/TargetFiles.h"
#include "runtime/TorchDistWriter.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace mbc {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view partialName = ".mbc-partial";
constexpr std::string_view lockName = "lock";
constexpr std::string_view trackerName = "latest_checkpointed_iteration.txt";
constexpr std::string_view trainTrackerName = "latest_train_state.pt";
constexpr std::string_view indexName = "model.safetensors.index.json";
constexpr std::string_view configName = "config.json";

std::unexpected<Error> failed(std::string_view what, const fs::path &path,
                              std::error_code error) {
  return fail("{}: cannot {}: {}", path.string(), what, error.message());
}

/// Whether `inner` is `outer` or lies in it.
bool liesIn(const fs::path &inner, const fs::path &outer) {
  std::error_code error;
  fs::path in = fs::weakly_canonical(inner, error);
  fs::path out = fs::weakly_canonical(outer, error);
  if (!in.has_filename())
    in = in.parent_path();
  if (!out.has_filename())
    out = out.parent_path();
  return std::mismatch(out.begin(), out.end(), in.begin(), in.end()).first ==
         out.end();
}

/// The nearest directory that exists, for the free space of a new target.
std::string existing(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error);
  while (!fs::exists(path, error) && path != path.parent_path())
    path = path.parent_path();
  return path.string();
}

Result<void> checkEmpty(const std::string &target, bool force) {
  std::error_code error;
  if (!fs::exists(target, error))
    return {};
  if (!fs::is_directory(target, error))
    return fail("{}: is a file; the target must be a directory", target);
  for (const fs::directory_entry &entry : fs::directory_iterator(target, error))
    if (entry.path().filename() != partialName && !force)
      return fail("{}: not empty (it holds '{}'): choose another directory, or "
                  "give --force to replace the checkpoint there",
                  target, entry.path().filename().string());
  if (error)
    return failed("read", target, error);
  return {};
}

/// Files below `root` but the lock, relative to it, sorted.
Result<std::vector<std::string>> filesBelow(const fs::path &root) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry &entry :
       fs::recursive_directory_iterator(root, error)) {
    std::string path = entry.path().lexically_relative(root).string();
    if (!entry.is_directory(error) && path != lockName)
      files.push_back(std::move(path));
  }
  if (error)
    return failed("read", root, error);
  std::sort(files.begin(), files.end());
  return files;
}

/// Syncs a directory and those below it.
Result<void> syncTree(const fs::path &root) {
  std::error_code error;
  for (const fs::directory_entry &entry :
       fs::recursive_directory_iterator(root, error))
    if (entry.is_directory(error))
      if (Result<void> synced = syncDirectory(entry.path().string()); !synced)
        return synced;
  return syncDirectory(root.string());
}

/// Writes beside it and renames.
Result<void> replaceFile(const fs::path &path, std::string_view bytes) {
  const std::string temporary =
      (path.parent_path() / fmt::format(".{}.mbc", path.filename().string()))
          .string();
  std::error_code ignored;
  fs::remove(temporary, ignored);
  if (auto written = writeWholeFile(temporary, bytes); !written)
    return written;
  return renamePath(temporary, path.string());
}

} // namespace

struct Publication::Lock {
  RunLock held;
};

Publication::Publication(const plan::Plan &plan, std::string target)
    : plan_(&plan), target_(std::move(target)),
      staging_(joinPath(target_, partialName)) {}

Publication::Publication(Publication &&) noexcept = default;

Publication::~Publication() {
  if (!lock_)
    return;
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
  if (madeTarget_ && !published_)
    fs::remove(target_, ignored); // only if nothing else came in
}

Result<Publication> Publication::begin(const plan::Plan &plan,
                                       const std::string &source,
                                       const std::string &target, bool force,
                                       uint64_t needed) {
  if (liesIn(target, source))
    return fail("{}: the target is the source {} or lies in it: choose another "
                "directory",
                target, source);
  std::error_code error;
  bool existed = fs::exists(target, error);
  Publication publication(plan, target);
  publication.force_ = force;
  // A run that is going on says more than "not empty".
  if (existed && fs::exists(publication.staging_, error))
    if (Result<void> locked = publication.lock(force); !locked)
      return std::unexpected(locked.error());
  if (Result<void> empty = checkEmpty(target, force); !empty)
    return std::unexpected(empty.error());
  Result<uint64_t> available = freeBytes(existing(target));
  if (!available)
    return std::unexpected(available.error());
  if (*available < needed)
    return fail("{}: the checkpoint needs {} bytes, {} are free: make room for "
                "{} more, or choose another file system",
                target, needed, *available, needed - *available);
  if (publication.lock_)
    return publication;
  fs::create_directories(publication.staging_, error);
  if (error)
    return failed("create", publication.staging_, error);
  publication.madeTarget_ = !existed;
  if (Result<void> locked = publication.lock(true); !locked)
    return std::unexpected(locked.error());
  return publication;
}

Result<void> Publication::lock(bool force) {
  Result<RunLock> held = RunLock::take(joinPath(staging_, lockName));
  if (!held)
    return std::unexpected(held.error());
  if (!force)
    return fail("{}: an unfinished run is there: remove {}, or give --force to "
                "start again",
                target_, staging_);
  lock_ = std::make_unique<Lock>(Lock{std::move(*held)});
  std::error_code error;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(staging_, error))
    if (entry.path().filename() != lockName)
      fs::remove_all(entry.path(), error);
  if (error)
    return failed("clear", staging_, error);
  return {};
}

Result<void> Publication::stage(std::string_view path,
                                std::string_view bytes) const {
  fs::path to = joinPath(staging_, path);
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error)
    return failed("create", to.parent_path(), error);
  return writeWholeFile(to.string(), bytes);
}

Result<void> Publication::copy(const std::string &from,
                               std::string_view path) const {
  Result<std::string> bytes = readWholeFile(from);
  if (!bytes)
    return std::unexpected(bytes.error());
  return stage(path, *bytes);
}

std::string Publication::where() const {
  if (plan_->format() == plan::TargetFormat_Safetensors)
    return target_;
  return joinPath(target_, plan_->iteration() == 0
                               ? "release"
                               : fmt::format("iter_{:07}", plan_->iteration()));
}

Result<void> Publication::publish(bool sync) {
  if (sync)
    if (Result<void> synced = syncTree(staging_); !synced)
      return synced;
  if (force_)
    if (Result<void> removed = removeOldCheckpoint(target_); !removed)
      return removed;
  Result<void> done = plan_->format() == plan::TargetFormat_Safetensors
                          ? publishHuggingFace(sync)
                          : publishMegatron(sync);
  published_ = published_ || done.has_value();
  return done;
}

Result<void> Publication::moveInto(const std::string &directory,
                                   const std::string &path) {
  fs::path to = joinPath(directory, path);
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error)
    return failed("create", to.parent_path(), error);
  return renamePath(joinPath(staging_, path), to.string());
}

Result<void> Publication::publishMegatron(bool sync) {
  std::string release = where();
  std::error_code error;
  fs::remove(joinPath(staging_, lockName), error);
  // Somebody's own files may have kept the old folder: the new tree then moves
  // into it, folder by folder.
  if (fs::exists(release, error)) {
    Result<std::vector<std::string>> files = filesBelow(staging_);
    if (!files)
      return std::unexpected(files.error());
    for (const std::string &path : *files)
      if (Result<void> moved = moveInto(release, path); !moved)
        return moved;
    fs::remove_all(staging_, error);
  } else if (auto moved = renamePath(staging_, release); !moved) {
    return moved;
  }
  if (sync)
    if (Result<void> synced = syncDirectory(target_); !synced)
      return synced;
  if (auto pointed = publishTrackers(release); !pointed)
    return pointed;
  published_ = true;
  return sync ? syncDirectory(target_) : Result<void>{};
}

/// Megatron-LM's tracker last, as it is the one that every reader follows.
Result<void> Publication::publishTrackers(const std::string &folder) {
  if (plan_->iteration() == 0)
    return replaceFile(joinPath(target_, trackerName), "release");
  Result<std::string> state = readWholeFile(joinPath(folder, trainStateName));
  if (!state)
    return std::unexpected(state.error());
  if (auto written = replaceFile(joinPath(target_, trainTrackerName), *state);
      !written)
    return written;
  return replaceFile(joinPath(target_, trackerName),
                     std::to_string(plan_->iteration()));
}

Result<void> Publication::publishHuggingFace(bool sync) {
  Result<std::vector<std::string>> files = filesBelow(staging_);
  if (!files)
    return std::unexpected(files.error());
  // "config.json" sorts before "model.safetensors.index.json".
  auto last = std::stable_partition(
      files->begin(), files->end(), [](const std::string &path) {
        return path != configName && path != indexName;
      });
  for (auto path = files->begin(); path != files->end(); ++path) {
    if (sync && path >= last)
      if (Result<void> synced = syncDirectory(target_); !synced)
        return synced;
    if (Result<void> moved = moveInto(target_, *path); !moved)
      return moved;
  }
  published_ = true;
  return sync ? syncDirectory(target_) : Result<void>{};
}

} // namespace mbc
