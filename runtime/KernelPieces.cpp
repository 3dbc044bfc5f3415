#include "runtime/KernelPieces.h"

#include <algorithm>
#include <vector>

namespace mbc {
namespace {

using Visit = std::function<bool(const KernelPiece &)>;
constexpr Axis single{1, 0, 0};

/// Takes the first axis that `matches` out of `axes`.
template <typename Predicate>
Axis take(std::vector<Axis> &axes, Predicate matches) {
  auto found = std::find_if(axes.begin(), axes.end(), matches);
  if (found == axes.end())
    return single;
  Axis axis = *found;
  axes.erase(found);
  return axis;
}

KernelPiece makePiece(int64_t source, int64_t target, const Axis &rows,
                      const Axis &columns) {
  KernelPiece piece{source, target, {}};
  piece.geometry.rows = rows.count;
  piece.geometry.columns = columns.count;
  piece.geometry.sourceRowStride = rows.source;
  piece.geometry.sourceColumnStride = columns.source;
  piece.geometry.targetRowStride = rows.target;
  piece.geometry.targetColumnStride = columns.target;
  return piece;
}

/// Fixes the remaining axes one index at a time.
bool forEachRest(std::span<const Axis> axes, int64_t source, int64_t target,
                 const std::function<bool(int64_t, int64_t)> &visit) {
  if (axes.empty())
    return visit(source, target);
  for (int64_t index = 0; index != axes[0].count; ++index)
    if (!forEachRest(axes.subspan(1), source + index * axes[0].source,
                     target + index * axes[0].target, visit))
      return false;
  return true;
}

/// Pieces of one weight, in its own rows and columns.
class WeightPieces {
public:
  WeightPieces(const plan::Scales &scales, int64_t tileSource,
               const Visit &visit)
      : scales_(scales), tileSource_(tileSource), visit_(visit) {}

  /// `along`: an axis of source step 1. `rows`: one of source step
  /// `columns` of the weight. The rectangle may wrap at the end of a row.
  bool rectangle(int64_t source, int64_t target, Axis rows, Axis along) const {
    int64_t width = scales_.columns();
    int64_t column = (tileSource_ + source) % width;
    if (column + along.count <= width)
      return call(source, target, rows, along);
    for (int64_t row = 0; row != rows.count; ++row)
      if (!line(source + row * rows.source, target + row * rows.target, along))
        return false;
    return true;
  }

private:
  /// A run longer than the rest of its row: head, whole rows, tail.
  bool line(int64_t source, int64_t target, Axis along) const {
    int64_t width = scales_.columns();
    int64_t left = along.count;
    while (left != 0) {
      int64_t column = (tileSource_ + source) % width;
      int64_t rows = column == 0 && left >= width ? left / width : 1;
      int64_t columns = rows > 1 ? width : std::min(left, width - column);
      if (!call(source, target, {rows, width, width * along.target},
                {columns, 1, along.target}))
        return false;
      source += rows * columns;
      target += rows * columns * along.target;
      left -= rows * columns;
    }
    return true;
  }

  bool call(int64_t source, int64_t target, const Axis &rows,
            const Axis &columns) const {
    KernelPiece piece = makePiece(source, target, rows, columns);
    piece.geometry.row0 = (tileSource_ + source) / scales_.columns();
    piece.geometry.column0 = (tileSource_ + source) % scales_.columns();
    piece.geometry.scaleColumns = scales_.scale_columns();
    piece.geometry.blockRows = scales_.block_rows();
    piece.geometry.blockColumns = scales_.block_columns();
    return visit_(piece);
  }

  const plan::Scales &scales_;
  int64_t tileSource_;
  const Visit &visit_;
};

} // namespace

void forEachKernelPiece(const Tile &tile, const plan::Scales *scales,
                        const Visit &visit) {
  std::vector<Axis> axes(tile.axes().begin(), tile.axes().end());
  if (!scales) {
    Axis columns = single, rows = single;
    if (!axes.empty()) {
      columns = axes.back();
      axes.pop_back();
    }
    if (!axes.empty()) {
      rows = axes.back();
      axes.pop_back();
    }
    forEachRest(axes, 0, 0, [&](int64_t source, int64_t target) {
      return visit(makePiece(source, target, rows, columns));
    });
    return;
  }
  Axis along = take(axes, [](const Axis &axis) { return axis.source == 1; });
  Axis rows = take(
      axes, [&](const Axis &axis) { return axis.source == scales->columns(); });
  WeightPieces pieces(*scales, tile.source, visit);
  forEachRest(axes, 0, 0, [&](int64_t source, int64_t target) {
    return pieces.rectangle(source, target, rows, along);
  });
}

} // namespace mbc
