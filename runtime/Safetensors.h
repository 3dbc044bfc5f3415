#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/File.h"

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

/// Reads and checks the header; no data byte is read. The tensors come in the
/// order of their offsets, with one piece each, in file number `fileIndex`.
/// Errors name the file, the tensor and both numbers; unknown dtypes are all
/// listed in one message.
Result<std::vector<StoredTensor>> readSafetensors(const InputFile &file,
                                                  uint32_t fileIndex);

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
