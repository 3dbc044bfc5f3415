#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/MegatronShards.h"

#include <functional>
#include <optional>

namespace mbc {

struct ListingOptions {
  bool sha256 = false; ///< hash the row-major little-endian bytes
  bool json = false;   ///< one array of objects
  bool keys = false;   ///< the file's own keys, byte objects included
  std::optional<ShardSizes> shards; ///< what each rank of a layout would load
};

/// Receives the listing piece by piece, in order, from one thread.
using TextSink = std::function<void(std::string_view)>;

/// Writes one row for each tensor: name, dtype, shape, bytes, place. Hashes are
/// computed on all threads, in buffers of a few MiB each.
Result<void> writeListing(const Checkpoint &checkpoint,
                          const ListingOptions &options, const TextSink &sink);

} // namespace mbc
