#include "runtime/DeviceKernels.h"
#include "runtime/Plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

namespace mbc {
namespace {

/// Extents of a table row at most, so that its places fit into 31 bits.
constexpr int64_t longest = int64_t{1} << 30;
/// A long run is cut into rows of this length, so that the rows of a tile are
/// all used.
constexpr int64_t rowOfRun = 8192;

uint64_t tilesAlong(uint64_t extent, uint64_t tile) {
  return (extent + tile - 1) / tile;
}

/// How many threads stand side by side (as a power of two): the widest tile
/// that wastes few threads, since long runs of bytes are what memory is fast
/// at. Threads behind the end of a row cost next to nothing.
uint32_t chooseColumnThreads(uint64_t rows, uint64_t columns, uint32_t width) {
  constexpr uint32_t widest = std::bit_width(device::threads) - 1;
  auto tiles = [&](uint32_t shift) {
    uint64_t tileRows = (device::threads >> shift) * device::rowsPerThread;
    return tilesAlong(tilesAlong(columns, width), uint64_t{1} << shift) *
           tilesAlong(rows, tileRows);
  };
  uint64_t least = UINT64_MAX;
  for (uint32_t shift = 0; shift <= widest; ++shift)
    least = std::min(least, tiles(shift));
  uint32_t shift = widest;
  while (tiles(shift) > least + least / 12)
    --shift;
  return shift;
}

} // namespace

Divider::Divider(uint32_t divisor) {
  uint32_t bits = std::bit_width(divisor - 1);
  shift = 31 + bits;
  multiplier = static_cast<uint32_t>((uint64_t{1} << shift) / divisor + 1);
}

void DeviceRows::add(const device::Row &added, uint32_t width, Origin origin) {
  device::Row &row = rows.emplace_back(added);
  row.columnThreads = chooseColumnThreads(row.rows, row.columns, width);
  uint64_t tileColumns = uint64_t{width} << row.columnThreads;
  uint64_t tileRows =
      (device::threads >> row.columnThreads) * device::rowsPerThread;
  row.columnTiles = tilesAlong(row.columns, tileColumns);
  row.firstTile = rowsOfTiles.size();
  rowsOfTiles.resize(row.firstTile +
                         row.columnTiles * tilesAlong(row.rows, tileRows),
                     rows.size() - 1);
  origins.push_back(origin);
}

uint32_t DeviceRows::tilesOfRow() const {
  uint32_t each = rowsOfTiles.size() / std::max<size_t>(1, rows.size());
  for (size_t index = 0; index != rows.size(); ++index)
    if (rows[index].firstTile != index * each)
      return 0;
  return rows.size() * each == rowsOfTiles.size() ? each : 0;
}

Result<void> DeviceBatch::add(const DevicePiece &piece) {
  const KernelGeometry &g = piece.geometry;
  if (format_.scaleBytes != 0 &&
      std::max({g.row0 + g.rows, g.column0 + g.columns, g.scaleColumns,
                g.blockRows, g.blockColumns}) > longest)
    return fail("a scaled weight has rows or columns behind {}, which GPU "
                "kernels do not count: leave out --device",
                longest);
  if (piece.target * 8 % format_.targetBits != 0)
    return fail("a piece's target at {:#x} is not aligned to its elements of "
                "{} bits",
                piece.target, format_.targetBits);
  split(piece, pieces_++);
  return {};
}

DevicePiece DeviceBatch::part(const DevicePiece &piece, int64_t row,
                              int64_t column, int64_t rows,
                              int64_t columns) const {
  DevicePiece made = piece;
  KernelGeometry &g = made.geometry;
  int64_t source =
      g.sourcePhase + row * g.sourceRowStride + column * g.sourceColumnStride;
  int64_t target = row * g.targetRowStride + column * g.targetColumnStride;
  int64_t bits = source * format_.sourceBits;
  made.source += bits / 8;
  made.target += target * format_.targetBits / 8;
  g.sourcePhase = bits % 8 / 4;
  g.row0 += row;
  g.column0 += column;
  g.rows = rows;
  g.columns = columns;
  return made;
}

/// Cuts what is too long for one table row.
void DeviceBatch::split(const DevicePiece &piece, uint32_t number) {
  const KernelGeometry &g = piece.geometry;
  for (int64_t row = 0; row < g.rows; row += longest)
    for (int64_t column = 0; column < g.columns; column += longest) {
      DevicePiece box =
          part(piece, row, column, std::min(longest, g.rows - row),
               std::min(longest, g.columns - column));
      DeviceRows::Origin at = {number, row * g.columns + column, g.columns};
      if (box.geometry.rows == 1 && format_.scaleBytes == 0)
        fold(box, at);
      else
        place(box, at);
    }
}

/// A single row, as several shorter ones.
void DeviceBatch::fold(const DevicePiece &piece, DeviceRows::Origin at) {
  const KernelGeometry &g = piece.geometry;
  int64_t rows = g.columns / rowOfRun, whole = rows * rowOfRun;
  if (rows != 0) {
    DevicePiece folded = part(piece, 0, 0, rows, rowOfRun);
    folded.geometry.sourceRowStride = rowOfRun * g.sourceColumnStride;
    folded.geometry.targetRowStride = rowOfRun * g.targetColumnStride;
    place(folded, {at.piece, at.first, rowOfRun});
  }
  if (whole != g.columns)
    place(part(piece, 0, whole, 1, g.columns - whole),
          {at.piece, at.first + whole, at.width});
}

/// Whether whole vectors of the piece are aligned on both sides and have one
/// scale each.
bool DeviceBatch::inVectors(const DevicePiece &piece) const {
  const KernelGeometry &g = piece.geometry;
  int64_t vectorWidth = device::vectorWidth(format_.targetBits);
  if (g.sourceColumnStride != 1 || g.targetColumnStride != 1 ||
      g.sourcePhase != 0 || g.columns < vectorWidth)
    return false;
  uint64_t sourceBytes = format_.sourceBits * vectorWidth / 8;
  uint64_t targetBytes = format_.targetBits * vectorWidth / 8;
  if (piece.source % std::min<uint64_t>(16, sourceBytes) != 0 ||
      piece.target % std::min<uint64_t>(16, targetBytes) != 0)
    return false;
  if (g.rows > 1 && (g.sourceRowStride % vectorWidth != 0 ||
                     g.targetRowStride % vectorWidth != 0))
    return false;
  if (format_.scaleBytes == 0)
    return true;
  if (piece.scales % format_.scaleBytes != 0)
    return false;
  bool oneBlock = g.column0 / g.blockColumns ==
                  (g.column0 + g.columns - 1) / g.blockColumns;
  return oneBlock ||
         (g.blockColumns % vectorWidth == 0 && g.column0 % vectorWidth == 0);
}

void DeviceBatch::place(const DevicePiece &piece, DeviceRows::Origin at) {
  const KernelGeometry &g = piece.geometry;
  auto rowOf = [&](const DevicePiece &box) {
    device::Row row;
    row.source = box.source;
    row.scales = box.scales;
    row.target = box.target;
    row.sourceRowStride = g.sourceRowStride;
    row.sourceColumnStride = g.sourceColumnStride;
    row.targetRowStride = g.targetRowStride;
    row.targetColumnStride = g.targetColumnStride;
    row.rows = box.geometry.rows;
    row.columns = box.geometry.columns;
    row.sourcePhase = box.geometry.sourcePhase;
    if (format_.scaleBytes != 0) {
      row.row0 = box.geometry.row0;
      row.column0 = box.geometry.column0;
      row.scaleColumns = g.scaleColumns;
      row.tensorScale = g.tensorScale;
      Divider rows(g.blockRows), columns(g.blockColumns);
      row.blockRowsMultiplier = rows.multiplier;
      row.blockRowsShift = rows.shift;
      row.blockColumnsMultiplier = columns.multiplier;
      row.blockColumnsShift = columns.shift;
    }
    return row;
  };
  int64_t vectorWidth = device::vectorWidth(format_.targetBits);
  int64_t whole = inVectors(piece) ? g.columns / vectorWidth * vectorWidth : 0;
  if (whole != 0)
    vectors.add(rowOf(part(piece, 0, 0, g.rows, whole)), vectorWidth, at);
  if (whole != g.columns)
    elements.add(rowOf(part(piece, 0, whole, g.rows, g.columns - whole)), 1,
                 {at.piece, at.first + whole, at.width});
}

Result<DeviceKernels> DeviceKernels::load(const Device &device,
                                          const plan::Plan &plan) {
  DeviceKernels kernels;
  for (size_t index = 0; index != length(plan.device_modules()); ++index) {
    const plan::DeviceModule &module = *plan.device_modules()->Get(index);
    if (module.capability() > device.capability() ||
        module.driver() > device.driver())
      continue;
    Result<DeviceCode> code = device.compile(module.ptx()->str());
    if (!code)
      return std::unexpected(code.error());
    kernels.modules_.push_back(std::move(*code));
  }
  if (kernels.modules_.empty() && length(plan.kernels()) != 0)
    return fail("the plan has no kernels for {} (compute capability {}.{}, "
                "driver for CUDA {}.{}): compile it again, or leave out "
                "--device",
                device.name(), device.capability() / 10,
                device.capability() % 10, device.driver() / 1000,
                device.driver() % 1000 / 10);
  for (size_t index = 0; index != length(plan.kernels()); ++index) {
    std::string name = plan.kernels()->Get(index)->symbol()->str();
    Entries entries;
    for (const DeviceCode &code : kernels.modules_)
      if (code.holds(name)) {
        entries.vectors = code.find(name);
        entries.elements = code.find(name + device::anySuffix);
      }
    if (!entries.vectors || !entries.elements)
      return fail(
          "the plan's GPU kernels lack '{}': compile it again, or leave "
          "out --device",
          name);
    kernels.kernels_.push_back(entries);
  }
  return kernels;
}

// A batch's tables: rows, their lost elements, and the rows of all tiles, for
// both entries.
namespace {

struct TablePlaces {
  size_t rows, rowsOfTiles, lost, end;
};

size_t roundUp(size_t bytes) { return (bytes + 127) / 128 * 128; }

TablePlaces placesOf(const DeviceRows &rows, size_t begin) {
  size_t count = rows.rows.size();
  TablePlaces places{};
  places.rows = begin;
  places.lost = places.rows + count * sizeof(device::Row);
  places.rowsOfTiles = places.lost + count * sizeof(uint64_t);
  places.end =
      roundUp(places.rowsOfTiles + rows.rowsOfTiles.size() * sizeof(uint32_t));
  return places;
}

std::pair<TablePlaces, TablePlaces> placesOf(const DeviceBatch &batch) {
  TablePlaces vectors = placesOf(batch.vectors, 0);
  return {vectors, placesOf(batch.elements, vectors.end)};
}

void writeTable(const DeviceRows &rows, const TablePlaces &places,
                std::byte *host) {
  size_t count = rows.rows.size();
  if (count == 0)
    return;
  std::memcpy(host + places.rows, rows.rows.data(),
              count * sizeof(device::Row));
  std::memcpy(host + places.rowsOfTiles, rows.rowsOfTiles.data(),
              rows.rowsOfTiles.size() * sizeof(uint32_t));
  std::memset(host + places.lost, 0xFF, count * sizeof(uint64_t));
}

Result<void> launchTable(const DeviceRows &rows, const TablePlaces &places,
                         uint64_t device, cuda::Function function,
                         const DeviceStream &stream) {
  if (rows.rows.empty())
    return {};
  uint64_t table = device + places.rows;
  uint64_t rowsOfTiles = device + places.rowsOfTiles;
  uint64_t lost = device + places.lost;
  uint32_t tilesOfRow = rows.tilesOfRow();
  void *arguments[] = {&table, &rowsOfTiles, &tilesOfRow, &lost};
  return stream.launch(function, rows.rowsOfTiles.size(), device::threads,
                       arguments);
}

void findLost(const DeviceRows &rows, const TablePlaces &places,
              const std::byte *host, LostElement &least) {
  for (size_t index = 0; index != rows.rows.size(); ++index) {
    uint64_t place = 0;
    std::memcpy(&place, host + places.lost + index * sizeof(uint64_t),
                sizeof(place));
    if (place == UINT64_MAX)
      continue;
    const DeviceRows::Origin &origin = rows.origins[index];
    uint64_t columns = rows.rows[index].columns;
    int64_t element =
        origin.first + place / columns * origin.width + place % columns;
    if (least.index < 0 ||
        std::tie(origin.piece, element) < std::tie(least.piece, least.index))
      least = {origin.piece, element};
  }
}

} // namespace

size_t DeviceKernels::tableBytes(const DeviceBatch &batch) {
  return placesOf(batch).second.end;
}

void DeviceKernels::writeTables(const DeviceBatch &batch, std::byte *host) {
  auto [vectors, elements] = placesOf(batch);
  writeTable(batch.vectors, vectors, host);
  writeTable(batch.elements, elements, host);
}

Result<void> DeviceKernels::launch(size_t kernel, const DeviceBatch &batch,
                                   uint64_t tables,
                                   const DeviceStream &stream) const {
  auto [vectors, elements] = placesOf(batch);
  const Entries &entries = kernels_[kernel];
  Result<void> done =
      launchTable(batch.vectors, vectors, tables, entries.vectors, stream);
  if (!done)
    return done;
  return launchTable(batch.elements, elements, tables, entries.elements,
                     stream);
}

LostElement DeviceKernels::lost(const DeviceBatch &batch,
                                const std::byte *host) {
  auto [vectors, elements] = placesOf(batch);
  LostElement least;
  findLost(batch.vectors, vectors, host, least);
  findLost(batch.elements, elements, host, least);
  return least;
}

} // namespace mbc
