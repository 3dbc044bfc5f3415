#pragma once

#include "runtime/File.h"
#include "runtime/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The ZIP container of torch.save, byte for byte as PyTorch writes it. Under
/// one root folder, in this order, nothing compressed, all data at multiples
/// of 64 bytes from the start of the archive:
///
///   data.pkl  .format_version  .storage_alignment  byteorder
///   data/0  data/1 ...  version  .data/serialization_id
///
///   entry   | 30-byte header | name | [ZIP64 sizes] | "FB" padding | data |
///   descriptor | archive | entries | central directory | ZIP64 end | locator |
///   end |
namespace mbc {

/// Where an archive's storages lie. Offsets are in bytes from the start of the
/// file that holds the archive at `base`.
struct ArchiveLayout {
  uint64_t totalBytes = 0;
  std::vector<uint64_t> dataOffsets; ///< one for each storage
};

/// Sizes are in bytes. Pure arithmetic, cheap enough for hundreds of thousands
/// of archives.
ArchiveLayout layoutArchive(std::string_view root, uint64_t pickleBytes,
                            std::span<const uint64_t> storageSizes,
                            uint64_t base = 0);

/// Bytes of an archive between two storages, before the first or after the
/// last. `offset` is in bytes from the start of the file.
struct FramingRun {
  uint64_t offset = 0;
  std::string bytes;
};

/// Everything but the storages' data, in order. `crcs` are the CRC-32 of the
/// storages.
std::vector<FramingRun> archiveFraming(uint64_t base, std::string_view root,
                                       std::string_view pickle,
                                       std::span<const uint64_t> storageSizes,
                                       std::span<const uint32_t> crcs);

/// A complete small archive.
std::string archiveBytes(std::string_view root, std::string_view pickle,
                         std::span<const std::string_view> storages);

/// CRC-32 of ZIP over more bytes; starts with 0.
uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes);
/// The CRC-32 of two runs of bytes one after the other; `secondBytes` is the
/// length of the second.
uint32_t combineCrc32(uint32_t first, uint32_t second, uint64_t secondBytes);

/// A file inside an archive. `offset` is in bytes from the start of the file
/// that holds the archive.
struct ArchiveEntry {
  std::string name; ///< without the root folder
  uint64_t offset = 0;
  uint64_t size = 0;
};

class PickleTree;

/// A torch.save archive at [base, base + length) of a file. Every size and
/// offset has been checked against these bounds; compressed, encrypted and
/// wandering (`..`) entries are refused.
class TorchArchive {
public:
  static Result<TorchArchive> open(const InputFile &file, uint64_t base,
                                   uint64_t length);

  /// The entry and where its data begins, or an error that names the file.
  Result<ArchiveEntry> find(std::string_view name) const;
  /// The content of data.pkl, as bytes and as plain data.
  Result<std::string> pickle() const;
  Result<PickleTree> tree() const;
  const InputFile &file() const { return *file_; }

private:
  struct Record {
    std::string name;
    uint64_t header = 0; ///< offset of the local header in the archive
    uint64_t size = 0;
  };
  struct Directory {
    uint64_t offset = 0, size = 0, count = 0;
  };

  TorchArchive(const InputFile &file, uint64_t base, uint64_t length)
      : file_(&file), base_(base), length_(length) {}

  Result<void> readEdges();
  Result<Directory> findDirectory();
  Result<void> readDirectory(const Directory &directory);
  Result<std::string> bytesAt(uint64_t offset, uint64_t count) const;
  std::unexpected<Error> broken(std::string_view what) const;

  const InputFile *file_;
  uint64_t base_, length_;
  std::string head_, tail_;     ///< the first and last bytes of the archive
  std::vector<Record> records_; ///< sorted by name
};

} // namespace mbc
