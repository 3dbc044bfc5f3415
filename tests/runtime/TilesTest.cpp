#include "runtime/Tiles.h"
#include "runtime/KernelPieces.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace mbc {
namespace {

/// Target element -> source element, by the definition of a box.
using Map = std::map<int64_t, int64_t>;

void walk(std::span<const Axis> axes, int64_t source, int64_t target,
          Map &map) {
  if (axes.empty()) {
    ASSERT_TRUE(map.emplace(target, source).second) << "written twice";
    return;
  }
  for (int64_t index = 0; index != axes[0].count; ++index)
    walk(axes.subspan(1), source + index * axes[0].source,
         target + index * axes[0].target, map);
}

Map mapOf(const Tile &tile) {
  Map map;
  walk(tile.axes(), tile.source, tile.target, map);
  return map;
}

/// A box of a row-major source of shape `source`, its axes in any order on the
/// source's side, dense or inside a wider target.
struct RandomBox {
  explicit RandomBox(unsigned seed) : random(seed) {
    size_t rank = 1 + random() % 3;
    std::vector<int64_t> count(rank), sourceStep(rank), targetStep(rank);
    int64_t step = 1;
    for (size_t axis = rank; axis-- != 0;) {
      count[axis] = 1 + random() % 7;
      targetStep[axis] = step;
      step *= count[axis] + random() % 3;
    }
    targets = step;
    std::vector<size_t> order(rank);
    for (size_t axis = 0; axis != rank; ++axis)
      order[axis] = axis;
    std::shuffle(order.begin(), order.end(), random);
    step = 1;
    for (size_t axis : order) {
      sourceStep[axis] = step;
      step *= count[axis] + random() % 3;
    }
    tile.input = 0;
    tile.source = random() % 5;
    tile.target = random() % 5;
    for (size_t axis = 0; axis != rank; ++axis)
      tile.push({count[axis], sourceStep[axis], targetStep[axis]});
    targets += tile.target;
    sources = step + tile.source;
  }
  std::mt19937 random;
  Tile tile;
  int64_t targets, sources;
};

TEST(Tiles, NormalFormKeepsEveryElement) {
  for (unsigned seed = 0; seed != 500; ++seed) {
    RandomBox box(seed);
    EXPECT_EQ(mapOf(normalized(box.tile)), mapOf(box.tile)) << seed;
  }
}

TEST(Tiles, AContiguousCopyIsOneAxis) {
  Tile tile;
  tile.input = 0;
  tile.push({4, 6, 6});
  tile.push({1, 6, 6});
  tile.push({6, 1, 1});
  Tile flat = normalized(tile);
  ASSERT_EQ(flat.rank, 1u);
  EXPECT_EQ(flat.run(), 24);
}

TEST(Tiles, RestrictionIsTheElementsOfTheBand) {
  for (unsigned seed = 0; seed != 2000; ++seed) {
    RandomBox box(seed);
    int64_t begin = box.random() % (box.targets + 1);
    Range band{begin, begin + int64_t(box.random() % (box.targets + 1))};
    Map expected;
    for (auto [target, source] : mapOf(box.tile))
      if (target >= band.begin && target < band.end)
        expected.emplace(target, source);
    std::vector<Tile> parts;
    restrictTo(normalized(box.tile), band, parts);
    Map found;
    for (const Tile &part : parts)
      walk(part.axes(), part.source, part.target, found);
    EXPECT_EQ(found, expected) << seed;
  }
}

TEST(Tiles, SourceRangesCoverEachSourceAndNoWideGap) {
  for (unsigned seed = 0; seed != 500; ++seed) {
    RandomBox box(seed);
    for (int64_t gap : {0, 2, 100}) {
      std::vector<Range> ranges;
      sourceRanges(box.tile, gap, ranges);
      for (auto [target, source] : mapOf(box.tile))
        EXPECT_TRUE(std::any_of(ranges.begin(), ranges.end(), [&](Range range) {
          return source >= range.begin && source < range.end;
        })) << seed;
      Range whole = sourceRange(box.tile);
      for (Range range : ranges) {
        EXPECT_GE(range.begin, whole.begin);
        EXPECT_LE(range.end, whole.end);
      }
    }
  }
}

TEST(Tiles, CopiesElementsOfEveryWidth) {
  for (unsigned seed = 0; seed != 300; ++seed)
    for (size_t width : {1, 2, 4, 8}) {
      RandomBox box(seed);
      std::vector<std::byte> from(box.sources * width), to(box.targets * width);
      for (std::byte &byte : from)
        byte = std::byte(box.random());
      std::vector<std::byte> expected = to;
      for (auto [target, source] : mapOf(box.tile))
        for (size_t byte = 0; byte != width; ++byte)
          expected[target * width + byte] = from[source * width + byte];
      copyTile(normalized(box.tile), width,
               from.data() + box.tile.source * width,
               to.data() + box.tile.target * width);
      EXPECT_EQ(to, expected) << seed << " width " << width;
    }
}

// A plane larger than the squares it is walked in.
TEST(Tiles, TransposesALargePlane) {
  constexpr int64_t rows = 70, columns = 131;
  std::vector<uint16_t> from(rows * columns), to(rows * columns);
  for (size_t at = 0; at != from.size(); ++at)
    from[at] = at;
  Tile tile;
  tile.input = 0;
  tile.push({columns, 1, rows});
  tile.push({rows, columns, 1});
  copyTile(normalized(tile), 2, reinterpret_cast<std::byte *>(from.data()),
           reinterpret_cast<std::byte *>(to.data()));
  for (int64_t row = 0; row != rows; ++row)
    for (int64_t column = 0; column != columns; ++column)
      ASSERT_EQ(to[column * rows + row], from[row * columns + column]);
}

/// Every element of the tile once, each at its own row and column.
void expectPieces(const Tile &tile, int64_t columns, unsigned seed) {
  plan::ScalesT values;
  values.columns = columns;
  values.scale_columns = 1;
  values.block_rows = values.block_columns = 1;
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(plan::Scales::Pack(builder, &values));
  auto *scales = flatbuffers::GetRoot<plan::Scales>(builder.GetBufferPointer());
  Map found;
  forEachKernelPiece(tile, scales, [&](const KernelPiece &piece) {
    const KernelGeometry &g = piece.geometry;
    for (int64_t i = 0; i != g.rows; ++i)
      for (int64_t j = 0; j != g.columns; ++j) {
        int64_t source = tile.source + piece.source + i * g.sourceRowStride +
                         j * g.sourceColumnStride;
        int64_t target = tile.target + piece.target + i * g.targetRowStride +
                         j * g.targetColumnStride;
        EXPECT_EQ(g.row0 + i, source / columns) << seed;
        EXPECT_EQ(g.column0 + j, source % columns) << seed;
        EXPECT_TRUE(found.emplace(target, source).second) << seed;
      }
    return true;
  });
  EXPECT_EQ(found, mapOf(tile)) << seed;
}

TEST(KernelPieces, FollowTheRowsOfTheWeight) {
  for (unsigned seed = 0; seed != 1000; ++seed) {
    RandomBox box(seed);
    expectPieces(normalized(box.tile), 1 + box.random() % 12, seed);
  }
}

} // namespace
} // namespace mbc
