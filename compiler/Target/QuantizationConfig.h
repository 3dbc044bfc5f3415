#pragma once

#include "compiler/Target/Target.h"

namespace mbc::compiler {

/// The quantization_config, as JSON, of a target whose weights were quantised
/// anew: as transformers reads it for fp8-block, compressed-tensors for mxfp4,
/// and ModelOpt's loaders for nvfp4, unless the names are compressed-tensors'.
/// It names the modules that are not quantised.
std::string quantizationConfig(const std::string &format,
                               const Quantization &declared,
                               const Target &target);

/// The file in which ModelOpt repeats its part of config.json.
inline constexpr std::string_view modelOptFile = "hf_quant_config.json";
/// Its content for a target in nvfp4; empty for every other target.
std::string modelOptConfig(const std::string &format, const Target &target);

} // namespace mbc::compiler
