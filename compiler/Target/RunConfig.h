#pragma once

#include "dsl/Model.h"
#include "runtime/Json.h"

#include <string>

namespace mbc::compiler {

/// The text of run_config.yaml, from which Megatron-Bridge builds the GPTModel
/// that a checkpoint belongs to: its generic provider with the fields that
/// Megatron's `args` become. Empty for other models, whose providers are a
/// family's own; of these it reads `args`.
std::string runConfig(const dsl::Model &model, const Json &args);

} // namespace mbc::compiler
