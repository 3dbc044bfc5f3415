#pragma once

#include "runtime/Plan_generated.h"
#include "runtime/Result.h"

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace mbc {

/// Arguments of a kernel besides its pointers. Strides are in elements and
/// relative to the first element handed over; row0, column0 say where that
/// element stands in the weight, for its block of the scales. Packed elements
/// come in pairs; `sourcePhase` is 1 if the first is the second of its byte.
struct KernelGeometry {
  int64_t rows, columns;
  int64_t sourceRowStride, sourceColumnStride;
  int64_t targetRowStride, targetColumnStride;
  int64_t row0, column0;
  int64_t scaleColumns, blockRows, blockColumns;
  int64_t sourcePhase;
  float tensorScale; ///< of a weight that has one

  std::array<int64_t, 13> packed() const {
    return {rows,
            columns,
            sourceRowStride,
            sourceColumnStride,
            targetRowStride,
            targetColumnStride,
            row0,
            column0,
            scaleColumns,
            blockRows,
            blockColumns,
            sourcePhase,
            std::bit_cast<uint32_t>(tensorScale)};
  }
};

/// `scales` points at the first element of the whole scale tensor, or is null.
/// Returns -1, or row * columns + column of the first element whose cast would
/// lose bits where the kernel's cast has to be exact.
using KernelFunction = int64_t (*)(const void *source, const void *scales,
                                   void *target, const int64_t *geometry);

/// The kernels that a plan carries, loaded from memory without LLVM.
/// Immutable after `load`: any number of threads may call them.
class Kernels {
public:
  static Result<Kernels> load(const plan::Plan &plan);
  KernelFunction operator[](size_t index) const { return functions_[index]; }

private:
  std::shared_ptr<void> object_; ///< handle of dlopen
  std::vector<KernelFunction> functions_;
};

} // namespace mbc
