#pragma once

#include <algorithm>
#include <cstdint>

namespace mbc {

/// What one of several ranks has of a row of things.
struct Share {
  int64_t start = 0, extent = 0;
};

/// Things dealt out in order, as evenly as they go: the first `extent` mod
/// `ranks` of the ranks have one more than the others, which may have none.
inline Share shareOf(int64_t extent, int64_t ranks, int64_t rank) {
  int64_t base = extent / ranks, rest = extent % ranks;
  return {rank * base + std::min(rank, rest), base + (rank < rest)};
}

} // namespace mbc
