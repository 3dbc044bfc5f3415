#pragma once

#include "compiler/Target/Target.h"

namespace mbc::compiler {

/// The quantization_config, as JSON, of a target whose weights were quantised
/// anew: as transformers reads it for fp8-block, and compressed-tensors for
/// mxfp4. It names the modules that are not quantised.
std::string quantizationConfig(const std::string &format,
                               const Quantization &declared,
                               const Target &target);

} // namespace mbc::compiler
