#pragma once

#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mbc {

/// A file open for reading. Owns its descriptor. `readAt` takes an explicit
/// offset and may run on any number of threads at once.
class InputFile {
public:
  static Result<InputFile> open(std::string path);

  /// Fills all of `into`, starting at byte `offset`; a file that ends first is
  /// an error.
  Result<void> readAt(uint64_t offset, std::span<std::byte> into) const;
  /// The same into a new string of `count` bytes, with room for `spare` more:
  /// some parsers read past the end.
  Result<std::string> readAt(uint64_t offset, uint64_t count,
                             uint64_t spare = 0) const;

  /// Bytes, as of `open`.
  uint64_t size() const { return size_; }
  const std::string &path() const { return path_; }

  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

private:
  InputFile(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// Bytes that one write call should have at most. The kernel takes page-cache
/// folios as large as the call, and finding free memory for those of 256 KiB or
/// more cost up to four times the processor time of a write; with 32 KiB the
/// calls themselves count.
inline constexpr size_t bestWrite = 128 << 10;

/// A new file open for writing. Owns its descriptor. `writeAt` takes an
/// explicit offset and may run on any number of threads at once.
class OutputFile {
public:
  /// Fails if the file exists.
  static Result<OutputFile> create(std::string path);

  Result<void> writeAt(uint64_t offset, std::span<const std::byte> bytes) const;
  Result<void> writeAt(uint64_t offset, std::string_view bytes) const;
  /// Reserves disk space and sets the size to `size` bytes, so that a full
  /// disk is noticed before the work starts. Where the file system cannot
  /// reserve, only the size is set.
  Result<void> preallocate(uint64_t size) const;
  /// Lets the device begin with what was written so far, so that `sync` finds
  /// little left to wait for. A hint: promises nothing, never fails.
  void startWriteBack() const;
  /// Returns when the bytes are on the device.
  Result<void> sync() const;

  const std::string &path() const { return path_; }
  int descriptor() const { return descriptor_; }

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

private:
  OutputFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
};

/// The content of a file of at most `limit` bytes, with room for `spare` more.
Result<std::string> readWholeFile(const std::string &path,
                                  uint64_t limit = uint64_t{1} << 30,
                                  uint64_t spare = 0);

/// Creates `path` with this content and syncs it. Fails if it exists.
Result<void> writeWholeFile(const std::string &path, std::string_view bytes);

/// Makes the names in a directory durable.
Result<void> syncDirectory(const std::string &path);

Result<void> renamePath(const std::string &from, const std::string &to);

/// `directory/name`, without a second slash.
std::string joinPath(std::string_view directory, std::string_view name);

} // namespace mbc
