#pragma once

#include "dsl/Diagnostic.h"

#include <optional>
#include <string>
#include <string_view>

namespace mbc::dsl {

/// The spec in its usual layout (README.md): only blanks and line breaks
/// differ, and `format` of the result is the result. Nothing if the text has
/// syntax errors, which `diagnostics` then has. `path` is its name in messages.
/// Never throws.
std::optional<std::string> format(std::string_view text,
                                  const std::string &path,
                                  Diagnostics &diagnostics);

} // namespace mbc::dsl
