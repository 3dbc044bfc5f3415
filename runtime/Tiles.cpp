#include "runtime/Tiles.h"

#include <algorithm>
#include <cstdlib>

namespace mbc {
namespace {

/// Floor of a / b for b > 0.
int64_t floorDivide(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/// Elements from the first to the last target of the axes, end exclusive.
int64_t targetSpan(std::span<const Axis> axes) {
  int64_t span = 1;
  for (const Axis &axis : axes)
    span += (axis.count - 1) * axis.target;
  return span;
}

} // namespace

int64_t Tile::elements() const {
  int64_t count = 1;
  for (const Axis &axis : axes())
    count *= axis.count;
  return count;
}

int64_t Tile::run() const {
  if (rank == 0)
    return 1;
  const Axis &inner = storage[rank - 1];
  return inner.source == 1 && inner.target == 1 ? inner.count : 1;
}

Tile Tile::at(size_t axis, int64_t index) const {
  Tile part = *this;
  part.source += index * storage[axis].source;
  part.target += index * storage[axis].target;
  std::copy(storage.begin() + axis + 1, storage.begin() + rank,
            part.storage.begin() + axis);
  --part.rank;
  return part;
}

Tile normalized(Tile tile) {
  // Sorted by insertion: there are few axes, and most come in order.
  std::array<Axis, Tile::maxAxes> axes;
  size_t kept = 0;
  for (const Axis &axis : tile.axes()) {
    if (axis.count == 1)
      continue;
    size_t at = kept++;
    for (; at != 0 && axes[at - 1].target < axis.target; --at)
      axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  tile.rank = 0;
  for (const Axis &axis : std::span(axes).first(kept)) {
    if (tile.rank != 0) {
      Axis &outer = tile.storage[tile.rank - 1];
      // A fill has no source, so only its targets have to continue.
      if (outer.target == axis.count * axis.target &&
          (tile.input < 0 || outer.source == axis.count * axis.source)) {
        outer = {outer.count * axis.count, axis.source, axis.target};
        continue;
      }
    }
    tile.push(axis);
  }
  return tile;
}

std::vector<Tile> tilesOf(const plan::Output &output) {
  std::vector<Tile> tiles;
  if (!output.boxes())
    return tiles;
  for (const plan::Box *box : *output.boxes()) {
    Tile tile;
    tile.input = box->input();
    tile.source = box->source_offset();
    tile.target = box->target_offset();
    tile.fill = box->fill();
    if (box->dims())
      for (const plan::Dim *dim : *box->dims())
        tile.push({dim->count(), dim->source(), dim->target()});
    if (tile.elements() != 0)
      tiles.push_back(normalized(tile));
  }
  return tiles;
}

void restrictTo(const Tile &tile, Range band, std::vector<Tile> &parts) {
  int64_t low = tile.target, high = low + targetSpan(tile.axes());
  if (high <= band.begin || low >= band.end)
    return;
  if (low >= band.begin && high <= band.end) {
    parts.push_back(normalized(tile));
    return;
  }
  const Axis axis = tile.storage[0];
  int64_t step = axis.target, inner = targetSpan(tile.axes().subspan(1));
  // Indices whose inner part touches the band, and those that lie inside.
  int64_t touched =
      std::max<int64_t>(0, floorDivide(band.begin - low - inner, step) + 1);
  int64_t untouched =
      std::min(axis.count, floorDivide(band.end - 1 - low, step) + 1);
  int64_t first =
      std::max<int64_t>(touched, -floorDivide(-(band.begin - low), step));
  int64_t last =
      std::min(untouched, floorDivide(band.end - inner - low, step) + 1);
  if (first >= last)
    first = last = untouched;
  for (int64_t index = touched; index < first; ++index)
    restrictTo(tile.at(0, index), band, parts);
  if (first < last) {
    Tile whole = tile;
    whole.source += first * axis.source;
    whole.target += first * axis.target;
    whole.storage[0].count = last - first;
    parts.push_back(normalized(whole));
  }
  for (int64_t index = last; index < untouched; ++index)
    restrictTo(tile.at(0, index), band, parts);
}

Range sourceRange(const Tile &tile) {
  Range range{tile.source, tile.source + 1};
  for (const Axis &axis : tile.axes()) {
    int64_t last = (axis.count - 1) * axis.source;
    (last < 0 ? range.begin : range.end) += last;
  }
  return range;
}

void sourceRanges(const Tile &tile, int64_t gap, std::vector<Range> &ranges) {
  std::vector<Axis> axes(tile.axes().begin(), tile.axes().end());
  for (Axis &axis : axes)
    axis.source = std::abs(axis.source);
  std::sort(axes.begin(), axes.end(),
            [](const Axis &a, const Axis &b) { return a.source < b.source; });
  // Inner axes grow one solid span until a step leaves too wide a gap.
  int64_t span = 1;
  size_t solid = 0;
  for (; solid != axes.size() && axes[solid].source - span <= gap; ++solid)
    span += (axes[solid].count - 1) * axes[solid].source;
  size_t first = ranges.size();
  int64_t low = sourceRange(tile).begin;
  ranges.push_back({low, low + span});
  for (; solid != axes.size(); ++solid) {
    size_t end = ranges.size();
    for (int64_t index = 1; index < axes[solid].count; ++index)
      for (size_t range = first; range != end; ++range) {
        int64_t shift = index * axes[solid].source;
        ranges.push_back(
            {ranges[range].begin + shift, ranges[range].end + shift});
      }
  }
}

} // namespace mbc
