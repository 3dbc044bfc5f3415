#pragma once

#include "runtime/Device.h"
#include "runtime/DeviceTable.h"
#include "runtime/Kernels.h"

#include <vector>

namespace mbc {

/// Bits of an element on both sides of a kernel, and bytes of a scale (0:
/// none).
struct KernelFormat {
  uint32_t sourceBits = 0, targetBits = 0, scaleBytes = 0;
};

/// What one CPU call would do, with device addresses.
struct DevicePiece {
  uint64_t source = 0, scales = 0, target = 0;
  KernelGeometry geometry{};
};

/// Rows of an instance table, their tiles, and where each came from.
struct DeviceRows {
  /// The piece, and its element that is the table row's first. `width` is the
  /// step in the piece from a row to the next.
  struct Origin {
    uint32_t piece = 0;
    int64_t first = 0, width = 0;
  };
  std::vector<device::Row> rows;
  std::vector<uint32_t> rowsOfTiles; ///< for each tile its row
  std::vector<Origin> origins;

  void add(const device::Row &row, uint32_t width, Origin origin);
  /// How many tiles each row has, 0 if they differ.
  uint32_t tilesOfRow() const;
};

/// The pieces of one launch of a kernel class: those in whole aligned vectors,
/// and what is left.
class DeviceBatch {
public:
  explicit DeviceBatch(KernelFormat format) : format_(format) {}

  /// Element (r, c) of the piece follows the geometry as on the CPU. Extents
  /// and places in a weight have to be below 2^31.
  Result<void> add(const DevicePiece &piece);

  DeviceRows vectors, elements;

private:
  void split(const DevicePiece &piece, uint32_t number);
  void fold(const DevicePiece &piece, DeviceRows::Origin at);
  void place(const DevicePiece &piece, DeviceRows::Origin at);
  bool inVectors(const DevicePiece &piece) const;
  DevicePiece part(const DevicePiece &piece, int64_t row, int64_t column,
                   int64_t rows, int64_t columns) const;

  KernelFormat format_;
  uint32_t pieces_ = 0;
};

/// `x / d` for x below 2^31 as a product and a shift.
struct Divider {
  explicit Divider(uint32_t divisor);
  uint32_t multiplier, shift;
};

/// The first element, by piece and then by place, that an exact cast changed.
struct LostElement {
  uint32_t piece = 0;
  int64_t index = -1; ///< row * columns + column in the piece; -1: none
};

/// The kernels that a plan carries, for one GPU.
class DeviceKernels {
public:
  static Result<DeviceKernels> load(const Device &device,
                                    const plan::Plan &plan);

  /// Bytes of a batch's tables. They are written on the host, copied to the
  /// device, and after an exact kernel copied back, all in stream order.
  static size_t tableBytes(const DeviceBatch &batch);
  static void writeTables(const DeviceBatch &batch, std::byte *host);
  /// Starts a kernel; `tables` is where the batch's tables are on the device.
  Result<void> launch(size_t kernel, const DeviceBatch &batch, uint64_t tables,
                      const DeviceStream &stream) const;
  /// What an exact kernel found, by the tables that came back.
  static LostElement lost(const DeviceBatch &batch, const std::byte *host);

private:
  struct Entries {
    cuda::Function vectors = nullptr, elements = nullptr;
  };
  std::vector<DeviceCode> modules_;
  std::vector<Entries> kernels_;
};

} // namespace mbc
