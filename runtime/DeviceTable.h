#pragma once

#include <cstdint>

/// The interface between device kernels and their launches, stated once for
/// the compiler that writes the kernels and the runtime that fills the tables.
/// kernels/README.md has it in words.
namespace mbc::device {

constexpr uint32_t threads = 256; ///< of a block, in all but transposes
constexpr uint32_t rowsPerThread = 4;
/// Elements that a thread converts: one store of 16 bytes. Two stores of one
/// thread would each fill half sectors, at two thirds of the memory's speed.
constexpr uint32_t vectorWidth(uint32_t targetBits) { return 128 / targetBits; }

/// The suffix of the entry that takes any strides and alignment.
constexpr const char *anySuffix = "_any";

/// One piece of work, as a kernel reads it. Strides are in elements.
struct alignas(128) Row {
  uint64_t source = 0, scales = 0, target = 0; ///< device addresses
  int64_t sourceRowStride = 0, sourceColumnStride = 1;
  int64_t targetRowStride = 0, targetColumnStride = 1;
  uint32_t rows = 0, columns = 0;
  uint32_t row0 = 0, column0 = 0; ///< place of the first element in the weight
  uint32_t scaleColumns = 0;
  uint32_t sourcePhase = 0; ///< of packed elements
  /// Division by a block's extents: `x / d` is `x * multiplier >> shift`.
  uint32_t blockRowsMultiplier = 0, blockRowsShift = 0;
  uint32_t blockColumnsMultiplier = 0, blockColumnsShift = 0;
  uint32_t columnTiles = 0;
  /// Threads side by side along a row, as a power of two.
  uint32_t columnThreads = 0;
  uint32_t firstTile = 0;
  float tensorScale = 1; ///< of a weight that has one
  uint32_t unused[4] = {};
};
static_assert(sizeof(Row) == 128);

} // namespace mbc::device
