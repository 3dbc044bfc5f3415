#pragma once

#include "runtime/DType.h"
#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mbc::compiler {

/// What the compiler itself reads from config.json.
struct ConfigFacts {
  std::vector<std::string> architectures;
  std::string modelType;
  DType dtype =
      DType::BF16; ///< first of dtype, torch_dtype, text_config's; else BF16
  bool quantised = false; ///< there is a quantization_config
  std::string quantMethod;
  int64_t blockRows = 128,
          blockColumns = 128; ///< quantization_config.weight_block_size
};
Result<ConfigFacts> readConfigFacts(std::string_view text,
                                    std::string_view origin);

/// config.json without a top-level field; every other byte stays as it was,
/// so that numbers come back as they were written. `text` is valid JSON.
std::string withoutField(std::string_view text, std::string_view field);

/// config.json with another string as the value of a top-level field, if it
/// has that field.
std::string withString(std::string_view text, std::string_view field,
                       std::string_view value);

/// NaN, Infinity and -Infinity tokens, which Python writes and JSON does not
/// know, become null; a byte-order mark is dropped.
std::string plainJson(std::string_view text);

} // namespace mbc::compiler
