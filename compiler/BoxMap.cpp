#include "compiler/BoxMap.h"

#include <algorithm>
#include <numeric>

namespace mbc::compiler {

int64_t elementCount(const Box &box) {
  int64_t count = 1;
  for (const BoxDim &dim : box.dims)
    count *= dim.count;
  return count;
}

Shape rowMajorStrides(const Shape &shape) {
  Shape strides = shape;
  int64_t stride = 1;
  for (size_t dim = shape.rank(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
  return strides;
}

BoxMap identityMap(int64_t elements, int64_t input) {
  BoxMap map{elements, {Box{input, 0, 0, {{elements, 1, 1}}, 0}}};
  canonicalize(map);
  return map;
}

BoxMap fillMap(int64_t elements, uint64_t fill) {
  BoxMap map{elements, {Box{-1, 0, 0, {{elements, 0, 1}}, fill}}};
  canonicalize(map);
  return map;
}

Box placementBox(const Shape &source, const Shape &sourceStart,
                 const Shape &target, const Shape &targetStart,
                 const Shape &shape, int64_t input) {
  Shape from = rowMajorStrides(source), to = rowMajorStrides(target);
  Box box;
  box.input = input;
  for (size_t dim = 0; dim != shape.rank(); ++dim) {
    box.sourceOffset += sourceStart[dim] * from[dim];
    box.targetOffset += targetStart[dim] * to[dim];
    box.dims.push_back({shape[dim], from[dim], to[dim]});
  }
  canonicalize(box);
  return box;
}

BoxMap sliceMap(const Shape &source, const Shape &start, const Shape &shape) {
  if (shape.elements() == 0)
    return {};
  Shape origin = shape;
  for (size_t dim = 0; dim != shape.rank(); ++dim)
    origin[dim] = 0;
  return {shape.elements(),
          {placementBox(source, start, shape, origin, shape)}};
}

BoxMap transposeMap(const Shape &source, std::span<const int64_t> axes) {
  Shape from = rowMajorStrides(source), target;
  for (int64_t axis : axes)
    target.push_back(source[axis]);
  Shape to = rowMajorStrides(target);
  Box box;
  for (size_t dim = 0; dim != axes.size(); ++dim)
    box.dims.push_back({target[dim], from[axes[dim]], to[dim]});
  canonicalize(box);
  return {source.elements(), {box}};
}

Box inverted(const Box &box) {
  Box result = box;
  std::swap(result.sourceOffset, result.targetOffset);
  for (BoxDim &dim : result.dims)
    std::swap(dim.source, dim.target);
  canonicalize(result);
  return result;
}

void canonicalize(Box &box, int64_t rowLength) {
  std::erase_if(box.dims, [](const BoxDim &dim) { return dim.count == 1; });
  std::ranges::stable_sort(box.dims, std::greater<>(), &BoxDim::target);
  size_t kept = 0;
  for (size_t dim = 1; dim < box.dims.size(); ++dim) {
    BoxDim &outer = box.dims[kept];
    const BoxDim &inner = box.dims[dim];
    bool one = outer.source == inner.source * inner.count &&
               outer.target == inner.target * inner.count;
    bool overRows = rowLength != 0 && box.input >= 0 &&
                    outer.source % rowLength == 0 &&
                    inner.source % rowLength != 0;
    if (one && !overRows)
      outer = {outer.count * inner.count, inner.source, inner.target};
    else
      box.dims[++kept] = inner;
  }
  if (!box.dims.empty())
    box.dims.resize(kept + 1);
}

namespace {

/// Whether the two boxes have the same dims but for the count of dim `grown`.
bool alikeBut(const Box &a, const Box &b, size_t grown) {
  for (size_t dim = 0; dim != b.dims.size(); ++dim) {
    const BoxDim &x = a.dims[dim], &y = b.dims[dim];
    if (x.source != y.source || x.target != y.target ||
        (dim != grown && x.count != y.count))
      return false;
  }
  return true;
}

/// Whether each stride is larger than the span of all smaller ones.
bool isNested(const Box &box, int64_t BoxDim::*stride) {
  std::vector<BoxDim> dims = box.dims;
  std::ranges::sort(dims, {}, stride);
  int64_t span = 0;
  for (const BoxDim &dim : dims) {
    if (dim.*stride <= span)
      return false;
    span += (dim.count - 1) * (dim.*stride);
  }
  return true;
}

/// Makes `a` the union of both if they are equal boxes at different places,
/// or if `b` is one more step of a's outermost dim.
bool stackUp(Box &a, const Box &b, int64_t rowLength) {
  BoxDim step{2, b.sourceOffset - a.sourceOffset,
              b.targetOffset - a.targetOffset};
  Box joined = a;
  if (a.dims.size() == b.dims.size() + 1) {
    BoxDim &top = joined.dims[0];
    Box rest = a;
    rest.dims.erase(rest.dims.begin());
    if (step.source != top.count * top.source ||
        step.target != top.count * top.target ||
        !alikeBut(rest, b, b.dims.size()))
      return false;
    ++top.count;
  } else {
    if (a.dims.size() != b.dims.size() || !alikeBut(a, b, a.dims.size()))
      return false;
    if (rowLength != 0 && a.input >= 0 && step.source % rowLength != 0)
      return false;
    joined.dims.insert(joined.dims.begin(), step);
  }
  if (!isNested(joined, &BoxDim::target) ||
      (a.input >= 0 && !isNested(joined, &BoxDim::source)))
    return false;
  a = std::move(joined);
  return true;
}

/// Makes `a` the union of both if `b` continues it.
bool append(Box &a, const Box &b, int64_t rowLength) {
  if (a.input != b.input || a.fill != b.fill)
    return false;
  int64_t target = b.targetOffset - a.targetOffset;
  int64_t source = b.sourceOffset - a.sourceOffset;
  for (size_t dim = 0; a.dims.size() == b.dims.size() && dim != a.dims.size();
       ++dim) {
    BoxDim &grown = a.dims[dim];
    if (grown.count * grown.target == target &&
        grown.count * grown.source == source && alikeBut(a, b, dim)) {
      grown.count += b.dims[dim].count;
      return true;
    }
  }
  return a.input >= 0 && stackUp(a, b, rowLength);
}

} // namespace

void canonicalize(BoxMap &map, int64_t rowLength) {
  for (Box &box : map.boxes)
    canonicalize(box, rowLength);
  std::ranges::stable_sort(map.boxes, {}, &Box::targetOffset);
  std::vector<Box> merged;
  for (Box &box : map.boxes) {
    if (!merged.empty() && append(merged.back(), box, rowLength))
      canonicalize(merged.back(), rowLength);
    else
      merged.push_back(std::move(box));
  }
  map.boxes = std::move(merged);
}

Result<std::vector<Box>> splitAtRows(const Box &box, int64_t rowLength,
                                     int64_t sourceElements) {
  if (box.input < 0 || rowLength == 0)
    return std::vector<Box>{box};
  Box rows;
  rows.input = box.input;
  rows.dims = {{sourceElements / rowLength, rowLength, rowLength},
               {rowLength, 1, 1}};
  canonicalize(rows, rowLength);
  return compose(box, rows, rowLength);
}

namespace {

/// One past the run of target elements that `box` writes from `element` on;
/// `element` itself if the box does not write it.
int64_t runEnd(const Box &box, int64_t element) {
  int64_t rest = element - box.targetOffset, run = 1;
  if (rest < 0)
    return element;
  for (const BoxDim &dim : box.dims) {
    int64_t index = std::min(rest / dim.target, dim.count - 1);
    rest -= index * dim.target;
    run = dim.target == 1 ? dim.count - index : 1;
  }
  return rest == 0 ? element + run : element;
}

} // namespace

std::optional<int64_t> firstUncovered(const BoxMap &map) {
  // Repeatedly step over the run that covers the candidate.
  int64_t candidate = 0;
  while (candidate < map.elements) {
    int64_t next = candidate;
    for (const Box &box : map.boxes)
      next = std::max(next, runEnd(box, candidate));
    if (next == candidate)
      return candidate;
    candidate = next;
  }
  return std::nullopt;
}

} // namespace mbc::compiler
