#include "runtime/Plan.h"
#include "runtime/Units.h"

#include <algorithm>

namespace mbc {
namespace {

/// Bytes of a run from which on it is read straight into its band.
constexpr int64_t directBytes = 64 << 10;
/// Unwanted bytes between two runs that are read through.
constexpr int64_t gapBytes = 4 << 10;
/// Where the buffer's parts begin, for vector loads.
constexpr size_t alignment = 64;

size_t align(size_t place) {
  return (place + alignment - 1) / alignment * alignment;
}

/// A range of file bytes that a unit needs. A direct one serves one run of
/// one band.
struct Need {
  uint32_t file;
  uint64_t begin, end;
  int64_t run = -1; ///< index into the direct runs; -1: to be staged
};

/// Collects what a unit reads, band by band.
class Collector {
public:
  explicit Collector(Unit &unit) : unit_(unit) {}

  void add(Move move, bool kernel);
  void addWhole(uint32_t file, uint64_t begin, uint64_t bytes) {
    needs_.push_back({file, begin, begin + bytes});
  }
  /// Merges needs to reads and lays out the staged bytes.
  void finish();

private:
  void addRuns(const Move &move, const Tile &tile);

  Unit &unit_;
  std::vector<Need> needs_;
  std::vector<Move> runs_;
  std::vector<Range> ranges_; ///< scratch
};

void Collector::addRuns(const Move &move, const Tile &tile) {
  if (tile.rank > 1) {
    for (int64_t index = 0; index != tile.storage[0].count; ++index)
      addRuns(move, tile.at(0, index));
    return;
  }
  needs_.push_back({move.file, move.byteOf(tile.source),
                    move.endOf(tile.source + tile.run()),
                    static_cast<int64_t>(runs_.size())});
  runs_.push_back(move);
  runs_.back().tile = tile;
}

void Collector::add(Move move, bool kernel) {
  if (move.tile.input < 0) {
    unit_.moves.push_back(move);
    return;
  }
  if (!kernel && move.tile.run() * move.bits >= directBytes * 8) {
    addRuns(move, move.tile);
    return;
  }
  ranges_.clear();
  sourceRanges(move.tile, gapBytes * 8 / move.bits, ranges_);
  for (Range range : ranges_) {
    uint64_t begin = move.byteOf(range.begin);
    addWhole(move.file, begin, move.endOf(range.end) - begin);
  }
  unit_.moves.push_back(move);
}

void Collector::finish() {
  std::sort(needs_.begin(), needs_.end(), [](const Need &a, const Need &b) {
    return std::tie(a.file, a.begin, a.end) < std::tie(b.file, b.begin, b.end);
  });
  size_t place = align(unit_.bytes);
  uint64_t reached = 0; // end of what earlier needs of this file cover
  bool open = false;    // the last staged read may grow
  for (size_t index = 0; index != needs_.size(); ++index) {
    const Need &need = needs_[index];
    bool newFile = index == 0 || needs_[index - 1].file != need.file;
    if (newFile) {
      reached = 0;
      open = false;
    }
    bool alone =
        need.begin >= reached &&
        (index + 1 == needs_.size() || needs_[index + 1].file != need.file ||
         needs_[index + 1].begin >= need.end);
    reached = std::max(reached, need.end);
    if (need.run >= 0 && alone) {
      const Move &run = runs_[need.run];
      const Band &band = unit_.bands[run.band];
      size_t into = (run.tile.target - band.range.begin) * band.width;
      unit_.direct.push_back(
          {need.file, need.begin, need.end - need.begin, band.place + into});
      open = false;
      continue;
    }
    if (need.run >= 0)
      unit_.moves.push_back(runs_[need.run]);
    Read *last = open ? &unit_.staged.back() : nullptr;
    if (last && need.begin <= last->offset + last->length + gapBytes) {
      uint64_t end = std::max(last->offset + last->length, need.end);
      last->length = end - last->offset;
      continue;
    }
    unit_.staged.push_back({need.file, need.begin, need.end - need.begin, 0});
    open = true;
  }
  for (Read &read : unit_.staged) {
    read.place = place;
    place = align(place + read.length);
  }
  unit_.bytes = place;
}

/// Of large outputs, bands begin where a GPU's wide stores may begin.
int64_t cutStep(int64_t elements) { return elements < 1 << 16 ? 1 : 64; }

/// The k-th of n parts of `extent`, end exclusive, cut at multiples of `step`.
/// Half of a part is a part of 2n: cuts depend on nothing but k / n.
Range fraction(int64_t extent, int64_t k, int64_t n, int64_t step = 1) {
  int64_t whole = extent / n, rest = extent % n;
  auto cut = [&](int64_t at) {
    int64_t place = whole * at + rest * at / n;
    return at == n ? place : place / step * step;
  };
  return {cut(k), cut(k + 1)};
}

/// One row of a class's instance table.
struct Instance {
  const plan::Plan &plan;
  const plan::Class &kind;
  uint32_t row;

  const plan::Source &source(size_t input) const {
    return *plan.sources()->Get(
        kind.sources()->Get(row * kind.inputs()->size() + input));
  }
  DType dtype(size_t input) const {
    return DType(kind.inputs()->Get(input)->dtype());
  }
};

/// The original of a tensor scale.
void addOriginalTensorScale(Collector &collector, const Band &codes,
                            const Instance &instance) {
  int32_t input = instance.kind.outputs()
                      ->Get(codes.output)
                      ->encoding()
                      ->original_tensor_scale();
  if (input < 0)
    return;
  const plan::Source &source = instance.source(input);
  collector.addWhole(source.file(), source.offset(), sizeof(float));
}

/// The inputs that an encoded band may be written from, as they are.
void addOriginals(Collector &collector, const Band &codes, const Band &scales,
                  const Instance &instance) {
  const plan::Encoding &encoding =
      *instance.kind.outputs()->Get(codes.output)->encoding();
  if (encoding.original_codes() < 0)
    return;
  const plan::Source &codeSource = instance.source(encoding.original_codes()),
                     &scaleSource = instance.source(encoding.original_scales());
  collector.addWhole(codeSource.file(),
                     codeSource.offset() + codes.storedOffset,
                     codes.storedBytes);
  collector.addWhole(scaleSource.file(),
                     scaleSource.offset() + scales.storedOffset,
                     scales.storedBytes);
}

void addBand(Collector &collector, uint32_t index, const Band &band,
             const Instance &instance, const std::vector<Tile> &tiles) {
  const plan::Output &output = *instance.kind.outputs()->Get(band.output);
  std::vector<Tile> parts;
  for (const Tile &tile : tiles)
    restrictTo(tile, band.range, parts);
  for (const Tile &part : parts) {
    Move move{index, 0, 0, 0, part};
    if (part.input >= 0) {
      const plan::Source &source = instance.source(part.input);
      move.file = source.file();
      move.origin = source.offset();
      move.bits = bitSize(instance.dtype(part.input));
    }
    collector.add(move, output.kernel() >= 0);
  }
  if (output.kernel() < 0 || parts.empty() || !output.scales())
    return;
  for (const plan::Scales *scales : *output.scales()) {
    const plan::Source &source = instance.source(scales->input());
    uint64_t elements =
        instance.kind.inputs()->Get(scales->input())->elements();
    collector.addWhole(source.file(), source.offset(),
                       elements * byteSize(instance.dtype(scales->input())));
    if (scales->tensor_scale() >= 0) {
      const plan::Source &one = instance.source(scales->tensor_scale());
      collector.addWhole(one.file(), one.offset(), sizeof(float));
    }
  }
}

/// A band's elements, and whether there is no smaller one.
struct Extent {
  Range range;
  bool smallest;
};

/// Band k of n of an output. Stripes of blocks stay whole, and scales are those
/// of the stripes of the output that they belong to.
Extent extentOf(const plan::Class &kind, uint32_t index, int64_t k, int64_t n) {
  const plan::Output &output = *kind.outputs()->Get(index);
  const plan::Output &values =
      *kind.outputs()->Get(index - (output.is_tensor_scale() ? 2
                                    : output.is_scales()     ? 1
                                                             : 0));
  const plan::Encoding *encoding = values.encoding();
  if (!encoding) {
    const int64_t step = cutStep(output.elements());
    Range range = fraction(output.elements(), k, n, step);
    return {range, range.end - range.begin <= step};
  }
  Range stripes = fraction(stripeCount(values), k, n);
  // Elements of the output that belong to a stripe.
  int64_t step = stripeRows(values) * encoding->columns();
  if (output.is_tensor_scale())
    step = 1;
  else if (output.is_scales())
    step = divideUp(stripeRows(values), encoding->block_rows()) *
           scaleColumns(*encoding);
  auto at = [&](int64_t stripe) {
    return std::min(stripe * step, output.elements());
  };
  return {{at(stripes.begin), at(stripes.end)},
          stripes.end - stripes.begin <= 1};
}

/// Lays a band out at the end of the unit's buffer, and behind its values, if
/// they are encoded, their codes.
void layOut(Unit &unit, const plan::Output &output, Band &band) {
  band.place = align(unit.bytes);
  unit.bytes = band.place + band.elements() * band.width;
  band.storedPlace = band.place;
  band.storedOffset = storedBytes(output, band.range.begin);
  band.storedBytes = storedBytes(output, band.elements());
  if (!output.encoding())
    return;
  band.storedPlace = align(unit.bytes);
  unit.bytes = band.storedPlace + band.storedBytes;
}

} // namespace

Unit Schedule::prepare(const UnitKey &key) const {
  const plan::Class &kind = *plan_.classes()->Get(key.kind);
  const std::vector<std::vector<Tile>> &tiles = tiles_[key.kind].outputs;
  uint32_t outputs = kind.outputs()->size();
  Unit unit;
  unit.bands.reserve(static_cast<size_t>(key.count) * outputs);
  Collector collector(unit);
  for (uint32_t row = key.first; row != key.first + key.count; ++row)
    for (uint32_t output = 0; output != outputs; ++output) {
      const plan::Output &shape = *kind.outputs()->Get(output);
      Band band;
      band.instance = order_[key.kind][row];
      if (!isWanted(kind, band.instance, output))
        continue;
      band.item = kind.items()->Get(band.instance * outputs + output);
      band.kind = key.kind;
      band.output = output;
      band.width = byteSize(DType(shape.dtype()));
      Extent extent = extentOf(kind, output, key.band, key.bands);
      band.range = extent.range;
      band.smallest = extent.smallest;
      // An empty tensor is written too, once.
      if (band.range.begin == band.range.end &&
          (shape.elements() != 0 || key.band != 0))
        continue;
      layOut(unit, shape, band);
      unit.bands.push_back(band);
      Instance instance{plan_, kind, band.instance};
      size_t bands = unit.bands.size();
      if (shape.is_tensor_scale())
        addOriginalTensorScale(collector, unit.bands[bands - 3], instance);
      else if (shape.is_scales())
        addOriginals(collector, unit.bands[bands - 2], band, instance);
      else
        addBand(collector, unit.bands.size() - 1, band, instance,
                tiles[output]);
    }
  collector.finish();
  return unit;
}

} // namespace mbc
