#pragma once

#include "dsl/Model.h"
#include "runtime/Checkpoint.h"
#include "runtime/Shape.h"

#include <string>
#include <vector>

namespace mbc::compiler {

/// The Hugging Face tensors of a rule that cannot be written for a hole in a
/// Megatron tensor of shape `stored`: where its rows are followed through the
/// rule, those that need them, else all.
std::vector<std::string> affectedTensors(const dsl::Mapping &mapping,
                                         const dsl::RuleInstance &instance,
                                         const Shape &stored,
                                         const StoredHole &hole);

} // namespace mbc::compiler
