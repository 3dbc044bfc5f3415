#pragma once

#include "runtime/Plan_generated.h"
#include "runtime/Result.h"
#include "runtime/SourceFiles.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mbc {

/// Reads what the plan says must be equal (a tied copy and its owner), zero
/// (padding rows, and elements that the target has no place for) or the shape
/// of codes that stand beside it. A difference is an error that names the
/// tensors and the row; in padding rows, a note. Uses all threads of the
/// calling arena, and two buffers of at most `chunk` bytes on each.
Result<std::vector<std::string>>
compareSources(const plan::Plan &plan, SourceFiles &files, uint64_t chunk);

} // namespace mbc
