#pragma once

#include "runtime/Checkpoint.h"

#include <string>
#include <vector>

namespace mbc::compiler {

/// A file of the source, and what a run compares with it.
struct SourceFile {
  std::string path;
  uint64_t header = UINT64_MAX; ///< bytes, at most all of the file
  uint64_t size = 0;
  uint32_t crc = 0; ///< of the header
};

/// The checkpoint's files, then `inputs`. What comes before a file's first
/// tensor is its header; an input counts whole. Errors name the file.
Result<std::vector<SourceFile>>
readSourceFiles(const Checkpoint &checkpoint,
                const std::vector<std::string> &inputs);

} // namespace mbc::compiler
