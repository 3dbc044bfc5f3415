#pragma once

#include "dsl/Diagnostic.h"

#include <span>
#include <string>

namespace mbc::compiler {

/// All findings for a person: errors before warnings; those at one place of a
/// spec as the first and a count. Then the notes. At most 30 lines unless
/// `all`: what would be longer is one line a place, and then a number.
std::string findingsText(const dsl::Diagnostics &diagnostics,
                         std::span<const std::string> notes, bool all);

} // namespace mbc::compiler
