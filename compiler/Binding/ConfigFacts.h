#pragma once

#include "runtime/DType.h"
#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mbc::compiler {

/// What the compiler itself reads from config.json; everything else is the
/// spec's.
struct ConfigFacts {
  std::vector<std::string> architectures;
  std::string modelType;
  /// The first that is a known type: dtype, torch_dtype, then those of
  /// text_config.
  DType dtype = DType::BF16;
  bool quantised = false; ///< there is a quantization_config
  std::string quantMethod;
  /// Elements under one scale: quantization_config.weight_block_size.
  int64_t blockRows = 128, blockColumns = 128;
};

/// Reads `text`; `origin` is the file's name in messages.
Result<ConfigFacts> readConfigFacts(std::string_view text,
                                    std::string_view origin);

} // namespace mbc::compiler
