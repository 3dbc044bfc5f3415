#pragma once

#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mbc {

/// `model.safetensors.index.json`. Half a million entries are common, so that
/// their names share one string.
struct HfIndex {
  struct Entry {
    uint64_t begin;  ///< of the tensor's name in `names`
    uint32_t length; ///< of the name
    uint32_t file;   ///< index into `files`
  };

  std::vector<std::string> files; ///< in order of first mention
  std::vector<Entry> entries;
  std::string names;

  std::string_view tensor(const Entry &entry) const {
    return std::string_view(names).substr(entry.begin, entry.length);
  }
};

/// Reads an index. A file name that is absolute, has `..` in it or does not end
/// in .safetensors is refused; nothing it names is opened.
Result<HfIndex> readHfIndex(const std::string &path);

} // namespace mbc
