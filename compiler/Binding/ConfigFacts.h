#pragma once

#include "runtime/DType.h"
#include "runtime/Result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mbc::compiler {

/// How config.json says that weights are quantised: quantization_config, at top
/// level or in text_config.
struct Quantization {
  std::string method; ///< quant_method
  /// Rows and columns under one scale: weight_block_size, or block_structure.
  std::optional<std::array<int64_t, 2>> block;
  // What all config_groups say of weights; what they do not agree on is open.
  std::optional<int64_t> bits;  ///< num_bits
  std::optional<int64_t> group; ///< group_size: values of a row under one scale
  std::string type, strategy, actorder; ///< of the same names; empty: open
  std::optional<bool> symmetric;
  /// Modules that are not quantised: modules_to_not_convert, ignore.
  std::vector<std::string> excepted;
};

/// What the compiler itself reads from config.json; everything else is the
/// spec's.
struct ConfigFacts {
  std::vector<std::string> architectures;
  std::string modelType;
  /// The first that is a known type: dtype, torch_dtype, then those of
  /// text_config.
  DType dtype = DType::BF16;
  std::optional<Quantization> quantization;
};

/// Reads `text`; `origin` is the file's name in messages.
Result<ConfigFacts> readConfigFacts(std::string_view text,
                                    std::string_view origin);

} // namespace mbc::compiler
