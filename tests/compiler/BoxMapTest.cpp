#include "compiler/BoxMap.h"

#include "tests/compiler/RuleBuilder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace mbc::compiler {
namespace {

using test::applyBoxes;

/// A map of random movements over a tensor of random shape: its boxes, and the
/// same movements done one element at a time.
struct Movements {
  Shape shape;
  BoxMap map;
  std::vector<int64_t> elements;
};

Shape randomShape(int64_t elements) {
  // Factors of the number of elements in random order.
  Shape shape;
  while (elements > 1 && shape.rank() < 4) {
    std::vector<int64_t> divisors;
    for (int64_t d = 2; d <= elements; ++d)
      if (elements % d == 0)
        divisors.push_back(d);
    int64_t extent = *rc::gen::elementOf(divisors);
    shape.push_back(extent);
    elements /= extent;
  }
  if (elements > 1 || shape.empty())
    shape.push_back(elements);
  return shape;
}

std::vector<int64_t> indexOf(const Shape &shape, int64_t offset) {
  std::vector<int64_t> index(shape.rank());
  for (size_t dim = shape.rank(); dim-- > 0; offset /= shape[dim])
    index[dim] = offset % shape[dim];
  return index;
}

int64_t offsetOf(const Shape &shape, const std::vector<int64_t> &index) {
  int64_t offset = 0;
  for (size_t dim = 0; dim != shape.rank(); ++dim)
    offset = offset * shape[dim] + index[dim];
  return offset;
}

void transpose(Movements &m) {
  std::vector<int64_t> axes(m.shape.rank());
  std::iota(axes.begin(), axes.end(), 0);
  for (size_t i = axes.size(); i > 1; --i)
    std::swap(axes[i - 1], axes[*rc::gen::inRange<size_t>(0, i)]);
  Shape target;
  for (int64_t axis : axes)
    target.push_back(m.shape[axis]);
  std::vector<int64_t> moved(m.elements.size());
  for (size_t offset = 0; offset != moved.size(); ++offset) {
    std::vector<int64_t> to = indexOf(target, offset), from(axes.size());
    for (size_t dim = 0; dim != axes.size(); ++dim)
      from[axes[dim]] = to[dim];
    moved[offset] = m.elements[offsetOf(m.shape, from)];
  }
  Result<BoxMap> map = compose(transposeMap(m.shape, axes), {&m.map, 1});
  RC_ASSERT(map.has_value());
  m = {target, *map, moved};
}

void slice(Movements &m) {
  Shape start = m.shape, extent = m.shape;
  for (size_t dim = 0; dim != m.shape.rank(); ++dim) {
    start[dim] = *rc::gen::inRange<int64_t>(0, m.shape[dim]);
    extent[dim] = *rc::gen::inRange<int64_t>(1, m.shape[dim] - start[dim] + 1);
  }
  std::vector<int64_t> moved(extent.elements());
  for (size_t offset = 0; offset != moved.size(); ++offset) {
    std::vector<int64_t> index = indexOf(extent, offset);
    for (size_t dim = 0; dim != index.size(); ++dim)
      index[dim] += start[dim];
    moved[offset] = m.elements[offsetOf(m.shape, index)];
  }
  Result<BoxMap> map = compose(sliceMap(m.shape, start, extent), {&m.map, 1});
  RC_ASSERT(map.has_value());
  m = {extent, *map, moved};
}

/// Joins the tensor with itself, behind some constants.
void concat(Movements &m) {
  int64_t padding = *rc::gen::inRange<int64_t>(1, 4), size = m.map.elements;
  Shape whole{padding + 2 * size}, flat{size};
  BoxMap outer{whole.elements(),
               {placementBox({padding}, {0}, whole, {0}, {padding}, 0),
                placementBox(flat, {0}, whole, {padding}, flat, 1),
                placementBox(flat, {0}, whole, {padding + size}, flat, 1)}};
  std::vector<BoxMap> inner = {fillMap(padding, 7), m.map};
  std::vector<int64_t> moved(padding, -8);
  moved.insert(moved.end(), m.elements.begin(), m.elements.end());
  moved.insert(moved.end(), m.elements.begin(), m.elements.end());
  Result<BoxMap> map = compose(outer, inner);
  RC_ASSERT(map.has_value());
  m = {whole, *map, moved};
}

Movements randomMovements(int64_t steps) {
  int64_t elements = *rc::gen::inRange<int64_t>(1, 121);
  Movements m{randomShape(elements), identityMap(elements), {}};
  m.elements.resize(elements);
  std::iota(m.elements.begin(), m.elements.end(), 0);
  for (int64_t step = 0; step != steps; ++step) {
    switch (*rc::gen::inRange(0, 4)) {
    case 0:
      transpose(m);
      break;
    case 1:
      slice(m);
      break;
    case 2:
      if (m.map.elements < 200)
        concat(m);
      break;
    default: // a reshape moves nothing
      m.shape = randomShape(m.map.elements);
    }
  }
  return m;
}

std::vector<int64_t> iota(int64_t elements) {
  std::vector<int64_t> values(elements);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

RC_GTEST_PROP(BoxMap, CompositionIsThatOfItsElements, ()) {
  Movements m = randomMovements(*rc::gen::inRange<int64_t>(1, 7));
  RC_ASSERT(applyBoxes(m.map.elements, m.map.boxes, {iota(400)}) == m.elements);
  RC_ASSERT(!checkTiling(m.map).has_value());
}

RC_GTEST_PROP(BoxMap, BoxesStayNested, ()) {
  Movements m = randomMovements(4);
  for (const Box &box : m.map.boxes) {
    int64_t inside = 0;
    for (size_t dim = box.dims.size(); dim-- > 0;) {
      RC_ASSERT(box.dims[dim].count >= 2);
      RC_ASSERT(box.dims[dim].target > inside);
      inside += (box.dims[dim].count - 1) * box.dims[dim].target;
    }
  }
}

RC_GTEST_PROP(BoxMap, InverseComposedIsIdentity, ()) {
  int64_t elements = *rc::gen::inRange<int64_t>(1, 121);
  Movements m{randomShape(elements), identityMap(elements), iota(elements)};
  transpose(m);
  m.shape = randomShape(elements);
  transpose(m);
  BoxMap back{elements, {}};
  for (const Box &box : m.map.boxes)
    back.boxes.push_back(inverted(box));
  Result<BoxMap> both = compose(back, {&m.map, 1});
  RC_ASSERT(both.has_value());
  RC_ASSERT(applyBoxes(elements, both->boxes, {iota(elements)}) ==
            iota(elements));
}

RC_GTEST_PROP(BoxMap, RowsAreNotCrossed, ()) {
  int64_t rows = *rc::gen::inRange<int64_t>(1, 9);
  int64_t columns = *rc::gen::inRange<int64_t>(1, 13);
  Movements m{
      {rows, columns}, identityMap(rows * columns), iota(rows * columns)};
  slice(m);
  m.shape = randomShape(m.map.elements);
  transpose(m);
  std::vector<Box> split;
  for (const Box &box : m.map.boxes) {
    Result<std::vector<Box>> boxes = splitAtRows(box, columns, rows * columns);
    RC_ASSERT(boxes.has_value());
    split.insert(split.end(), boxes->begin(), boxes->end());
  }
  RC_ASSERT(applyBoxes(m.map.elements, split, {iota(rows * columns)}) ==
            m.elements);
  for (const Box &box : split) {
    int64_t column = box.sourceOffset % columns;
    for (const BoxDim &dim : box.dims)
      if (dim.source % columns != 0)
        column += (dim.count - 1) * dim.source;
    RC_ASSERT(column < columns);
  }
}

TEST(BoxMap, ContiguousSliceIsOneRun) {
  BoxMap map = sliceMap({8, 16}, {4, 0}, {4, 16});
  ASSERT_EQ(map.boxes.size(), 1u);
  EXPECT_EQ(map.boxes[0], (Box{0, 64, 0, {{64, 1, 1}}, 0}));
}

TEST(BoxMap, ColumnSliceIsOneStridedBox) {
  BoxMap map = sliceMap({8, 16}, {0, 4}, {8, 4});
  ASSERT_EQ(map.boxes.size(), 1u);
  EXPECT_EQ(map.boxes[0], (Box{0, 4, 0, {{8, 16, 4}, {4, 1, 1}}, 0}));
}

TEST(BoxMap, TilingNamesTheElementThatIsMissing) {
  BoxMap map{10, {Box{0, 0, 0, {{4, 1, 1}}, 0}, Box{0, 0, 5, {{5, 1, 1}}, 0}}};
  EXPECT_EQ(checkTiling(map), "9 of 10 elements are written, element 4 is not");
}

TEST(BoxMap, TilingFindsAnElementWrittenTwice) {
  BoxMap map{8,
             {Box{0, 0, 0, {{4, 2, 2}}, 0}, Box{0, 0, 1, {{3, 2, 2}}, 0},
              Box{0, 0, 4, {}, 0}}};
  EXPECT_EQ(checkTiling(map),
            "two boxes write the same element (boxes at 0 and 4)");
}

TEST(BoxMap, TilingRejectsABoxBeyondTheEnd) {
  BoxMap map{4, {Box{0, 0, 1, {{4, 1, 1}}, 0}}};
  EXPECT_EQ(checkTiling(map), "the box at element 1 ends at element 4 of 4");
}

} // namespace
} // namespace mbc::compiler
