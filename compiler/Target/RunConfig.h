#pragma once

#include "dsl/Model.h"
#include "runtime/Json.h"

#include <string>

namespace mbc::compiler {

/// The text of run_config.yaml, from which Megatron-Bridge builds the model
/// that a checkpoint belongs to: one of its providers with the fields that
/// Megatron's `args` become. Empty for models that no provider builds from
/// fields alone; of these it reads `args`.
std::string runConfig(const dsl::Model &model, const Json &args);

} // namespace mbc::compiler
