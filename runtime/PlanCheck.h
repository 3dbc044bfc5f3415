#pragma once

#include "runtime/Plan_generated.h"
#include "runtime/Result.h"

#include <string>

namespace mbc {

/// What the FlatBuffers verifier cannot know: every index names something,
/// every box stays inside its tensors, the boxes of an output add up to it.
/// `name` is the plan's, for messages.
Result<void> checkPlan(const std::string &name, const plan::Plan &plan);

} // namespace mbc
