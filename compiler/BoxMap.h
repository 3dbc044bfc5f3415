#pragma once

#include "compiler/RuleClass.h"
#include "runtime/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Piecewise affine maps between tensors, on row-major element offsets.
///
/// A map gives, for every element of a target tensor, the element of one of
/// its inputs that it is equal to (or a constant). It is a list of boxes; a
/// box pairs two strided sets of equal counts. A reshape is the identity on
/// offsets, so shapes appear only where a map is made from an operation.
///
/// Invariants of a box:
///  - counts are at least 2 (a single element has no dims), strides positive;
///  - dims are ordered by decreasing target stride, and *nested*: a dim's
///    target stride is larger than the span of all dims inside it, which makes
///    the box injective. The same holds for the source strides in an order of
///    their own (a transpose is nested on both sides, in two orders).
/// Invariant of a map: the target sets of its boxes are disjoint and cover
/// 0..elements; `checkTiling` tests it.
///
/// All functions are pure and may run on any number of threads.
namespace mbc::compiler {

struct BoxMap {
  int64_t elements = 0; ///< of the target
  std::vector<Box> boxes;

  friend bool operator==(const BoxMap &, const BoxMap &) = default;
};

int64_t elementCount(const Box &box);

/// The row-major strides of `shape`.
Shape rowMajorStrides(const Shape &shape);

BoxMap identityMap(int64_t elements, int64_t input = 0);
/// `elements` constants with the bits `fill`.
BoxMap fillMap(int64_t elements, uint64_t fill);

/// The box of `shape` at `sourceStart` of a tensor `source`, placed at
/// `targetStart` of a tensor `target`.
Box placementBox(const Shape &source, const Shape &sourceStart,
                 const Shape &target, const Shape &targetStart,
                 const Shape &shape, int64_t input = 0);
BoxMap sliceMap(const Shape &source, const Shape &start, const Shape &shape);
/// Target axis i is source axis `axes[i]`.
BoxMap transposeMap(const Shape &source, std::span<const int64_t> axes);

/// The map target <- inner's inputs, for `outer`: target <- middle tensors and
/// `inner[k]`: middle tensor k <- inputs. Fails if the result would need more
/// than a million boxes.
Result<BoxMap> compose(const BoxMap &outer, std::span<const BoxMap> inner);

/// The boxes of target <- source where `outer` reads what `inner` writes; the
/// input is inner's. `rowLength` as in `canonicalize`.
Result<std::vector<Box>> compose(const Box &outer, const Box &inner,
                                 int64_t rowLength = 0);

/// Source and target exchanged: for a box whose source is `input` 0.
Box inverted(const Box &box);

/// Drops single dims, orders by target stride and merges dims that are one on
/// both sides. With `rowLength`, dims are not merged over the end of a source
/// row of that length (block scales need row and column apart).
void canonicalize(Box &box, int64_t rowLength = 0);
/// The same for all boxes, then merges boxes that continue each other.
void canonicalize(BoxMap &map, int64_t rowLength = 0);

/// Cuts boxes so that each dim steps either within source rows of `rowLength`
/// or over whole rows.
Result<std::vector<Box>> splitAtRows(const Box &box, int64_t rowLength,
                                     int64_t sourceElements);

/// Why the boxes of `map` do not tile 0..elements exactly once, or nothing.
std::optional<std::string> checkTiling(const BoxMap &map);
/// Smallest target offset that no box writes.
std::optional<int64_t> firstUncovered(const BoxMap &map);

} // namespace mbc::compiler
