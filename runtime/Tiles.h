#pragma once

#include "runtime/Plan_generated.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mbc {

/// One axis of a tile: repetitions, and the step on either side in elements.
struct Axis {
  int64_t count, source, target;
};

/// A box of a plan, or a part of one: element (i0, i1, ...) moves from
/// source + sum(ik * axes[k].source) to target + sum(ik * axes[k].target).
/// Kept in normal form: no axis of extent 1, target steps falling, axes that
/// continue each other joined; so a contiguous copy is one axis of steps 1, 1.
struct Tile {
  static constexpr size_t maxAxes = 12;

  int32_t input = -1; ///< of the class; -1: constant fill
  int64_t source = 0, target = 0;
  uint64_t fill = 0;
  std::array<Axis, maxAxes> storage{};
  size_t rank = 0;

  std::span<const Axis> axes() const { return {storage.data(), rank}; }
  void push(Axis axis) { storage[rank++] = axis; }
  int64_t elements() const;
  /// Elements that lie next to each other on both sides, innermost.
  int64_t run() const;
  /// The same tile with axis `axis` fixed at `index`.
  Tile at(size_t axis, int64_t index) const;
};

/// A range of elements, end exclusive.
struct Range {
  int64_t begin = 0, end = 0;
};

/// Empty boxes give no tile.
std::vector<Tile> tilesOf(const plan::Output &output);
Tile normalized(Tile tile);

/// The parts of `tile` whose targets lie in `band`, appended to `parts`.
void restrictTo(const Tile &tile, Range band, std::vector<Tile> &parts);

/// Lowest and highest source element, end exclusive.
Range sourceRange(const Tile &tile);

/// Source ranges that cover the tile, appended to `ranges`; steps that leave
/// at most `gap` elements unread between neighbours are read through.
void sourceRanges(const Tile &tile, int64_t gap, std::vector<Range> &ranges);

/// Copies a tile's elements of `width` bytes. `source` is where the tile's
/// first source element lies, `target` where its first target element goes.
void copyTile(const Tile &tile, size_t width, const std::byte *source,
              std::byte *target);

/// Writes the tile's constant, the low `width` bytes of `tile.fill`.
void fillTile(const Tile &tile, size_t width, std::byte *target);

} // namespace mbc
