#pragma once

#include "runtime/Plan_generated.h"
#include "runtime/Result.h"

#include <memory>
#include <string>
#include <string_view>

namespace mbc {

/// A target directory from the first byte to the finished checkpoint:
///
///   begin      DST/.mbc-partial/ exists and is locked
///   stage      files are written below it, all synced
///   publish    Megatron: renamed to DST/release or iter_*, then trackers
///              HF: weights, sidecars, config.json, the index last
///
/// Destroyed before `publish` has succeeded, it removes what it made. Not
/// thread-safe.
class Publication {
public:
  /// Refuses a target that is, or lies in, the source; one that is not empty
  /// unless `force`; one that another run writes. `needed` bytes must be free.
  static Result<Publication> begin(const plan::Plan &plan,
                                   const std::string &source,
                                   const std::string &target, bool force,
                                   uint64_t needed);

  /// Directory below which the checkpoint is assembled.
  const std::string &staging() const { return staging_; }
  /// Writes a small file below it.
  Result<void> stage(std::string_view path, std::string_view bytes) const;
  /// Copies a file below it.
  Result<void> copy(const std::string &from, std::string_view path) const;
  /// Makes the checkpoint visible. `sync`: the directories are synced first
  /// and the pointer file afterwards.
  Result<void> publish(bool sync);
  /// The directory that holds the finished checkpoint.
  std::string where() const;

  Publication(Publication &&) noexcept;
  Publication &operator=(Publication &&) = delete;
  ~Publication();

private:
  struct Lock;
  Publication(const plan::Plan &plan, std::string target);
  Result<void> lock(bool force);
  Result<void> publishMegatron(bool sync);
  Result<void> publishTrackers(const std::string &folder);
  Result<void> publishHuggingFace(bool sync);
  Result<void> moveInto(const std::string &directory, const std::string &path);

  const plan::Plan *plan_;
  std::string target_, staging_;
  std::unique_ptr<Lock> lock_;
  bool madeTarget_ = false, force_ = false, published_ = false;
};

/// Removes the checkpoint that `target` holds: its pointer file first, then
/// the files that it names and nothing else.
Result<void> removeOldCheckpoint(const std::string &target);

} // namespace mbc
