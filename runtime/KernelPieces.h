#pragma once

#include "runtime/Kernels.h"
#include "runtime/Plan_generated.h"
#include "runtime/Tiles.h"

#include <functional>

namespace mbc {

/// A part of a tile that one kernel call handles; offsets are in elements from
/// the tile's first source and target element.
struct KernelPiece {
  int64_t source = 0, target = 0;
  KernelGeometry geometry{};
};

/// Cuts a tile into two-dimensional pieces. With scales, the piece's rows and
/// columns are those of the weight (consecutive rows, consecutive columns, one
/// row's end never crossed), as its blocks follow from row0 and column0.
/// `scales` null: any two axes. Stops when `visit` returns false.
void forEachKernelPiece(const Tile &tile, const plan::Scales *scales,
                        const std::function<bool(const KernelPiece &)> &visit);

} // namespace mbc
