#pragma once

#include "runtime/Result.h"

#include <string>
#include <vector>

namespace mbc {

/// `model.safetensors.index.json`.
struct HfIndex {
  std::vector<std::string> files; ///< in order of first mention
  struct Entry {
    std::string tensor;
    uint32_t file; ///< index into `files`
  };
  std::vector<Entry> entries;
};

/// Reads an index. A file name that is absolute, has `..` in it or does not end
/// in .safetensors is refused; nothing it names is opened.
Result<HfIndex> readHfIndex(const std::string &path);

} // namespace mbc
