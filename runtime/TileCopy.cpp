#include "runtime/Tiles.h"

#include <algorithm>
#include <cstring>

namespace mbc {
namespace {

/// Two axes of runs, steps in bytes. Either may have a count of 1.
struct Plane {
  int64_t rows, columns;
  int64_t sourceRow, sourceColumn, targetRow, targetColumn;
};

/// Edge of the squares in which a plane with far-apart sources is walked, so
/// that a cache line is used up before it is evicted.
constexpr int64_t blockEdge = 32;
constexpr int64_t cacheLine = 64;

template <typename Move>
void walk(const Plane &plane, const std::byte *source, std::byte *target,
          Move move) {
  bool far =
      plane.sourceColumn >= cacheLine || plane.sourceColumn <= -cacheLine;
  int64_t height = far ? blockEdge : 1, width = far ? blockEdge : plane.columns;
  for (int64_t row = 0; row < plane.rows; row += height)
    for (int64_t column = 0; column < plane.columns; column += width)
      for (int64_t i = row; i < std::min(row + height, plane.rows); ++i) {
        const std::byte *from = source + i * plane.sourceRow;
        std::byte *to = target + i * plane.targetRow;
        for (int64_t j = column; j < std::min(column + width, plane.columns);
             ++j)
          move(to + j * plane.targetColumn, from + j * plane.sourceColumn);
      }
}

template <size_t Bytes>
void copyFixed(const Plane &plane, const std::byte *source, std::byte *target) {
  walk(plane, source, target, [](std::byte *to, const std::byte *from) {
    std::memcpy(to, from, Bytes);
  });
}

void copyPlane(const Plane &plane, size_t run, const std::byte *source,
               std::byte *target) {
  switch (run) {
  case 1:
    return copyFixed<1>(plane, source, target);
  case 2:
    return copyFixed<2>(plane, source, target);
  case 4:
    return copyFixed<4>(plane, source, target);
  case 8:
    return copyFixed<8>(plane, source, target);
  case 16:
    return copyFixed<16>(plane, source, target);
  default:
    walk(plane, source, target, [run](std::byte *to, const std::byte *from) {
      std::memcpy(to, from, run);
    });
  }
}

/// Calls `visit(plane, source bytes, target bytes)` for each plane of runs;
/// the offsets are relative to the tile's first element.
template <typename Visit>
void forEachPlane(std::span<const Axis> axes, int64_t width, int64_t source,
                  int64_t target, Visit visit) {
  if (axes.size() > 2) {
    for (int64_t index = 0; index != axes[0].count; ++index)
      forEachPlane(axes.subspan(1), width,
                   source + index * axes[0].source * width,
                   target + index * axes[0].target * width, visit);
    return;
  }
  Plane plane{1, 1, 0, 0, 0, 0};
  if (axes.size() == 2) {
    plane.rows = axes[0].count;
    plane.sourceRow = axes[0].source * width;
    plane.targetRow = axes[0].target * width;
    axes = axes.subspan(1);
  }
  if (axes.size() == 1) {
    plane.columns = axes[0].count;
    plane.sourceColumn = axes[0].source * width;
    plane.targetColumn = axes[0].target * width;
  }
  visit(plane, source, target);
}

} // namespace

void copyTile(const Tile &tile, size_t width, const std::byte *source,
              std::byte *target) {
  int64_t run = tile.run();
  std::span<const Axis> axes = tile.axes();
  if (run > 1)
    axes = axes.first(axes.size() - 1);
  forEachPlane(axes, width, 0, 0,
               [&](const Plane &plane, int64_t from, int64_t to) {
                 copyPlane(plane, run * width, source + from, target + to);
               });
}

void fillTile(const Tile &tile, size_t width, std::byte *target) {
  auto put = [&](std::byte *to, const std::byte *) {
    std::memcpy(to, &tile.fill, width);
  };
  forEachPlane(tile.axes(), width, 0, 0, [&](Plane plane, int64_t, int64_t to) {
    plane.sourceRow = plane.sourceColumn = 0;
    if (tile.fill == 0 && plane.targetColumn == static_cast<int64_t>(width))
      for (int64_t row = 0; row != plane.rows; ++row)
        std::memset(target + to + row * plane.targetRow, 0,
                    plane.columns * width);
    else
      walk(plane, nullptr, target + to, put);
  });
}

} // namespace mbc
