#pragma once

#include "runtime/BufferPool.h"
#include "runtime/Plan_generated.h"
#include "runtime/Result.h"
#include "runtime/Tiles.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mbc {

/// A band of one output of one instance: a range of elements of an item. Of an
/// encoded output, a range of its values, in whole stripes of blocks; the band
/// of its scales is the next one, that of a tensor scale the one after it.
struct Band {
  uint32_t item = 0;
  uint32_t kind = 0;   ///< class in the plan
  uint32_t output = 0; ///< of the class
  uint32_t instance = 0;
  uint32_t width = 0; ///< bytes of an element
  Range range;
  size_t place = 0; ///< bytes from the start of the unit's buffer
  // What is written: the elements, or their codes.
  size_t storedPlace = 0;    ///< in the unit's buffer
  uint64_t storedOffset = 0; ///< from the start of the item's data
  size_t storedBytes = 0;
  uint32_t crc = 0;      ///< CRC-32 of these bytes
  bool smallest = false; ///< it cannot be cut further
  bool anew = false;     ///< computed: quantised, and not as it came
  bool placed = false;   ///< a kernel has put it where it stays

  int64_t elements() const { return range.end - range.begin; }
};

/// Bytes [offset, offset + length) of a source file, and where they go.
struct Read {
  uint32_t file = 0;
  uint64_t offset = 0;
  size_t length = 0;
  size_t place = 0;
};

/// Part of a band that is gathered from staged bytes, converted or filled.
struct Move {
  uint32_t band = 0;
  uint32_t file = 0;   ///< of the input; unused by a fill
  uint64_t origin = 0; ///< byte in that file of the input's element 0
  uint32_t bits = 0;   ///< of an element of the input
  Tile tile;

  /// The byte of the file that holds an element of the input, or its first
  /// half.
  uint64_t byteOf(int64_t element) const { return origin + element * bits / 8; }
  /// The end of the bytes that hold the elements before `element`.
  uint64_t endOf(int64_t element) const {
    return origin + (element * bits + 7) / 8;
  }
};

/// One piece of work: bands, the reads that serve them, and what happens in
/// between. The buffer holds the bands first, staged bytes after them.
struct Unit {
  std::vector<Band> bands;
  std::vector<Read> staged; ///< ascending by file and offset, disjoint
  std::vector<Read> direct; ///< straight into a band
  std::vector<Move> moves;
  size_t bytes = 0; ///< of the buffer
  Buffer buffer;

  std::byte *at(size_t place) const { return buffer.bytes.get() + place; }
  /// Where bytes [begin, end) of a file are staged; null if not in one piece.
  const std::byte *find(uint32_t file, uint64_t begin, uint64_t end) const;
};

/// A class's outputs as tiles, made once.
struct ClassTiles {
  std::vector<std::vector<Tile>> outputs;
};

/// Which bands a unit holds: band `band` of `bands` of every output of
/// instances order[first .. first + count) of a class.
struct UnitKey {
  uint32_t kind = 0;
  uint32_t first = 0, count = 1;
  uint64_t band = 0, bands = 1;
};

/// Cuts a plan into units in the order of the source bytes. Immutable once
/// made; `prepare` may run on any number of threads.
class Schedule {
public:
  /// `unitBytes`: output bytes that a unit should have at most. `wanted`: the
  /// items to make, by number; empty: all.
  Schedule(const plan::Plan &plan, uint64_t unitBytes,
           std::vector<bool> wanted = {});

  const std::vector<UnitKey> &keys() const { return keys_; }
  Unit prepare(const UnitKey &key) const;
  /// The two halves of a unit that is too large. Not of the smallest ones.
  std::vector<UnitKey> split(const UnitKey &key) const;

private:
  bool isWanted(const plan::Class &kind, uint32_t instance,
                uint32_t output) const;
  uint64_t wantedBytes(const plan::Class &kind, uint32_t instance) const;

  const plan::Plan &plan_;
  std::vector<bool> wanted_;
  std::vector<ClassTiles> tiles_;            ///< by class
  std::vector<std::vector<uint32_t>> order_; ///< by class: its instances
  std::vector<UnitKey> keys_;
};

/// Bytes of buffers for the largest tensor that is written under one scale of
/// its scales, and so held whole, with what it is made from; 0 without one.
uint64_t wholeTensorBytes(const plan::Plan &plan);

} // namespace mbc
