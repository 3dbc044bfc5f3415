#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/File.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

/// The safetensors format:
///
///   u64 little-endian N | N bytes of JSON | data
///
/// The JSON maps each name to {"dtype", "shape", "data_offsets": [begin, end]},
/// offsets in bytes from the start of the data. In the order of begin the
/// tensors tile the data: no gap, no overlap, nothing after the last.
namespace mbc {

/// The largest N that readers of the format accept.
constexpr uint64_t maxSafetensorsHeader = 100'000'000;

/// Reads headers, one file after the other. What it needs for one serves for
/// the next: fresh pages cost as much as the parsing.
class SafetensorsReader {
public:
  SafetensorsReader();
  ~SafetensorsReader();

  /// Reads and checks the header; no data byte is read. The tensors come in the
  /// order of their offsets, with one piece each, in file number `fileIndex`;
  /// that no name comes twice is left to who has the names of all files.
  /// Errors name the file, the tensor and both numbers; unknown dtypes are all
  /// listed in one message.
  Result<std::vector<StoredTensor>> read(const InputFile &file,
                                         uint32_t fileIndex);

  /// What the tensors of all files that were read point to.
  std::shared_ptr<const HeaderStore> store() const { return store_; }

private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
  std::shared_ptr<HeaderStore> store_;
};

/// What a header says of one tensor.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

/// A file's first bytes, and where the data of each entry begins and the file
/// ends, in bytes from the start of the file.
struct SafetensorsHeader {
  std::string bytes;
  std::vector<uint64_t> offsets;
  uint64_t fileSize = 0;
};

/// The header of a file that holds `entries` in this order, padded with spaces
/// so that the data begins at a multiple of 8. A name that comes twice is an
/// error.
Result<SafetensorsHeader>
layoutSafetensors(std::span<const SafetensorsEntry> entries);

} // namespace mbc
