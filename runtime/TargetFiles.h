#pragma once

#include "runtime/File.h"
#include "runtime/Plan_generated.h"
#include "runtime/Result.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mbc {

/// Bytes that go to `offset` of one file.
struct Piece {
  uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// The files a plan writes. A file is created at its full size when first
/// used, its literal bytes and byte objects with it; it is synced and closed
/// when its last item is done, so few are open at a time. What is to be synced
/// is handed to the device while later bytes are still computed. All functions
/// may run on any number of threads at once.
class TargetFiles {
public:
  /// `directory` exists. `object` is the archive of an empty byte object.
  TargetFiles(const plan::Plan &plan, std::string directory, std::string object,
              bool sync);

  /// Writes pieces that ascend by offset; neighbours go out in one call.
  Result<void> write(uint32_t file, std::span<const Piece> pieces);
  /// The file, created if need be; valid until `close`.
  Result<const OutputFile *> opened(uint32_t file);
  /// An item of the file is written. True if it was the last one: the caller
  /// then writes what frames the whole file and calls `close`.
  bool itemDone(uint32_t file);
  Result<void> close(uint32_t file);
  /// Creates and closes the files that hold no item.
  Result<void> writeEmptyFiles();

private:
  struct State {
    std::mutex opening;
    /// The kernel lets one thread at a time write to a file: who waits here
    /// sleeps, who waits there spins.
    std::mutex writing;
    std::optional<OutputFile> output;
    std::atomic<uint32_t> items = 0;    ///< not yet done
    std::atomic<uint64_t> buffered = 0; ///< bytes not yet handed to the device
    uint64_t objects = 0;
  };
  Result<void> create(uint32_t file, State &state);
  Result<void> writeObjects(const OutputFile &output, uint64_t count) const;
  void startWriteBack(State &state, uint64_t written);
  Result<void> writeRun(const OutputFile &output, std::span<const Piece> run);

  const plan::Plan &plan_;
  std::string directory_, object_;
  bool sync_;
  std::vector<std::unique_ptr<State>> states_;
};

/// Free bytes for this user on the file system of `path`.
Result<uint64_t> freeBytes(const std::string &path);

} // namespace mbc
