#pragma once

#include "runtime/File.h"
#include "runtime/Plan_generated.h"
#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mbc {

/// The files a plan reads, opened when first used and never written. `read`
/// may run on any number of threads at once.
class SourceFiles {
public:
  SourceFiles(const plan::Plan &plan, std::string directory);

  /// Whether every file is there, has its size, and begins with the bytes that
  /// the plan was compiled from. An error names the first that does not.
  Result<void> checkHeaders();
  /// Fills all of `into` from byte `offset` of file `file`.
  Result<void> read(uint32_t file, uint64_t offset, std::span<std::byte> into);
  std::string path(uint32_t file) const;

private:
  Result<void> checkHeader(uint32_t index);
  Result<const InputFile *> opened(uint32_t file);

  const plan::Plan &plan_;
  std::string directory_;
  std::mutex opening_;
  std::vector<std::optional<InputFile>> files_; ///< filled under opening_
};

/// Lets the process open as many files as the system allows: a checkpoint of
/// many ranks has more than the usual 1024.
void raiseOpenFileLimit();

} // namespace mbc
