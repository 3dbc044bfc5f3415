#pragma once

#include "runtime/PickleWriter.h"
#include "runtime/Result.h"

#include <functional>
#include <string_view>

namespace mbc {

/// Writes the common state as one dict, its `args` as a Namespace. `commonJson`
/// is {"args": {...}, "checkpoint_version": 3.0, ...}, as in
/// Checkpoint::argsJson; `more` adds items of its own after these.
Result<void> writeCommonState(PickleWriter &out, std::string_view commonJson,
                              const std::function<void()> &more = {});

} // namespace mbc
