#include "runtime/DeviceKernels.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace mbc {
namespace {

TEST(DeviceTable, DividesByProductAndShift) {
  std::mt19937_64 random(1);
  for (int round = 0; round != 200000; ++round) {
    uint32_t divisor =
        std::max<uint64_t>(1, (random() % (1u << 31)) >> random() % 31);
    uint32_t value = (random() % (1u << 31)) >> random() % 31;
    // Values beside a multiple are where a quotient could be off by one.
    if (round % 2)
      value = std::min<uint64_t>(
          uint64_t{value} / divisor * divisor + divisor - 1, (1u << 31) - 1);
    Divider divider(divisor);
    ASSERT_EQ(uint64_t{value} * divider.multiplier >> divider.shift,
              value / divisor)
        << value << " / " << divisor;
  }
}

/// What a kernel does with a table, element by element: source (in half
/// bytes), scale and target address.
struct Access {
  uint64_t source, scale;
  int times;
};
using Accesses = std::map<uint64_t, Access>; ///< by target

void runTiles(const DeviceRows &rows, uint32_t width, KernelFormat format,
              Accesses &accesses) {
  for (uint32_t tile = 0; tile != rows.rowsOfTiles.size(); ++tile) {
    const device::Row &row = rows.rows[rows.rowsOfTiles[tile]];
    uint32_t local = tile - row.firstTile;
    uint32_t across = 1u << row.columnThreads;
    uint32_t step = device::threads / across;
    for (uint32_t thread = 0; thread != device::threads; ++thread)
      for (uint32_t part = 0; part != device::rowsPerThread; ++part)
        for (uint32_t lane = 0; lane != width; ++lane) {
          uint64_t r = local / row.columnTiles * step * device::rowsPerThread +
                       thread / across + part * step;
          uint64_t first =
              (local % row.columnTiles * across + thread % across) * width;
          uint64_t c = first + lane;
          if (r >= row.rows || c >= row.columns)
            continue;
          uint64_t scaleRow =
              (row.row0 + r) * row.blockRowsMultiplier >> row.blockRowsShift;
          // A vector has the scale of its first element.
          uint64_t scaleColumn =
              (row.column0 + first) * row.blockColumnsMultiplier >>
              row.blockColumnsShift;
          uint64_t at = row.sourcePhase + r * row.sourceRowStride +
                        c * row.sourceColumnStride;
          uint64_t target = row.target + (r * row.targetRowStride +
                                          c * row.targetColumnStride) *
                                             (format.targetBits / 8);
          Access &access = accesses[target];
          access = {2 * row.source + at * format.sourceBits / 4,
                    scaleRow * row.scaleColumns + scaleColumn,
                    access.times + 1};
        }
  }
}

/// Random pieces: the tables reach every element once, where the geometry of
/// the CPU's kernels has it.
TEST(DeviceTable, ReachesEveryElementOnce) {
  std::mt19937_64 random(2);
  auto upTo = [&](int64_t most) {
    return static_cast<int64_t>(random() % (most + 1));
  };
  for (int round = 0; round != 200; ++round) {
    KernelFormat format{4u << upTo(3), 16u << upTo(1),
                        upTo(1) ? 1u << upTo(2) : 0};
    DevicePiece piece;
    KernelGeometry &g = piece.geometry;
    piece.source = 4096 + upTo(3) * (upTo(1) ? 16 : 1);
    piece.target = 1 << 30;
    if (upTo(3) == 0)
      piece.target += 4;
    g.rows = upTo(3) ? 1 + upTo(40) : 1;
    g.columns = upTo(3) ? 1 + upTo(150) : 1 + upTo(20000);
    g.sourceColumnStride = upTo(3) ? 1 : 1 + upTo(3);
    g.targetColumnStride = upTo(3) ? 1 : 1 + upTo(3);
    int64_t gap = upTo(1) * 8 + upTo(3) / 3;
    g.sourceRowStride = g.columns * g.sourceColumnStride + gap;
    g.targetRowStride = g.columns * g.targetColumnStride + gap;
    if (upTo(2) == 0 && g.rows > 1)
      g.sourceRowStride = (g.sourceRowStride + 7) / 8 * 8,
      g.targetRowStride = (g.targetRowStride + 7) / 8 * 8;
    g.row0 = upTo(300);
    g.column0 = upTo(1) ? upTo(40) * 8 : upTo(300);
    g.blockRows = 1 + upTo(130);
    g.blockColumns = upTo(1) ? 8 << upTo(5) : 1 + upTo(400);
    g.scaleColumns = 100;
    g.sourcePhase = format.sourceBits == 4 ? upTo(1) : 0;
    DeviceBatch batch(format);
    ASSERT_TRUE(batch.add(piece));
    Accesses accesses;
    runTiles(batch.vectors, device::vectorWidth(format.targetBits), format,
             accesses);
    runTiles(batch.elements, 1, format, accesses);
    ASSERT_EQ(accesses.size(), static_cast<size_t>(g.rows * g.columns));
    for (int64_t r = 0; r != g.rows; ++r)
      for (int64_t c = 0; c != g.columns; ++c) {
        auto found = accesses.find(
            piece.target + (r * g.targetRowStride + c * g.targetColumnStride) *
                               (format.targetBits / 8));
        ASSERT_NE(found, accesses.end());
        ASSERT_EQ(found->second.times, 1);
        ASSERT_EQ(found->second.source,
                  2 * piece.source + (g.sourcePhase + r * g.sourceRowStride +
                                      c * g.sourceColumnStride) *
                                         (format.sourceBits / 4));
        if (format.scaleBytes != 0) {
          ASSERT_EQ(found->second.scale,
                    static_cast<uint64_t>((g.row0 + r) / g.blockRows *
                                              g.scaleColumns +
                                          (g.column0 + c) / g.blockColumns));
        }
      }
  }
}

TEST(DeviceTable, TheFirstLostElementIsThatOfTheFirstPiece) {
  DeviceBatch batch({32, 16, 0});
  DevicePiece piece;
  piece.geometry.rows = 3;
  piece.geometry.columns = 20; // two vectors and four single elements
  piece.geometry.sourceRowStride = piece.geometry.targetRowStride = 24;
  piece.geometry.sourceColumnStride = piece.geometry.targetColumnStride = 1;
  ASSERT_TRUE(batch.add(piece));
  ASSERT_TRUE(batch.add(piece));
  ASSERT_EQ(batch.vectors.rows.size(), 2u);
  ASSERT_EQ(batch.elements.rows.size(), 2u);
  std::vector<std::byte> tables(DeviceKernels::tableBytes(batch),
                                std::byte{0xFF});
  EXPECT_EQ(DeviceKernels::lost(batch, tables.data()).index, -1);
  // Two rows of 128 bytes; then come the lost elements, then the tiles.
  size_t lostVectors = 2 * 128, lostElements = 3 * 128 + 2 * 128;
  auto set = [&](size_t at, uint64_t place) {
    std::memcpy(&tables[at], &place, sizeof(place));
  };
  set(lostVectors + 8, 16); // piece 1, row 1, column 0
  EXPECT_EQ(DeviceKernels::lost(batch, tables.data()).piece, 1u);
  EXPECT_EQ(DeviceKernels::lost(batch, tables.data()).index, 20);
  set(lostElements, 5); // piece 0, row 1, column 16 + 1
  EXPECT_EQ(DeviceKernels::lost(batch, tables.data()).piece, 0u);
  EXPECT_EQ(DeviceKernels::lost(batch, tables.data()).index, 37);
}

} // namespace
} // namespace mbc
