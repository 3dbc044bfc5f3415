#pragma once

#include "runtime/Result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mbc {

/// `model.safetensors.index.json`, and `pytorch_model.bin.index.json` of older
/// models.
struct HfIndex {
  struct Entry {
    std::string_view tensor;
    uint32_t file; ///< index into `files`
  };

  std::vector<std::string> files; ///< in order of first mention
  std::vector<Entry> entries;
  /// The parser, in whose memory the tensors' names stay: half a million are
  /// common.
  std::shared_ptr<const void> names;
};

/// Reads an index. A file name that is absolute, has `..` in it or does not end
/// in `suffix` is refused; nothing it names is opened.
Result<HfIndex> readHfIndex(const std::string &path, std::string_view suffix);

} // namespace mbc
