#pragma once

namespace mbc {

/// Of the command, and in the record that an import leaves.
inline constexpr const char *version = "0.1";

} // namespace mbc
