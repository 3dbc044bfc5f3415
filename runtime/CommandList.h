#pragma once

#include "runtime/Listing.h"

#include <string>

namespace mbc {

/// `mbc ls`: one row a tensor, on standard output. `shards` as typed, empty if
/// not given. Returns the exit status.
int listCommand(const std::string &checkpoint, ListingOptions options,
                const std::string &shards);

} // namespace mbc
