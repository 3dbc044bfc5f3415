#pragma once

#include "runtime/Kernels.h"
#include "runtime/Plan_generated.h"
#include "runtime/Result.h"
#include "runtime/Units.h"

#include <functional>
#include <optional>

namespace mbc {

/// A kernel's work on a part of a move, in the unit's buffer.
struct KernelCall {
  const std::byte *source, *scales;
  std::byte *target;
  KernelGeometry geometry;
  const Move *move;
  int64_t element; ///< of the input: the one at `source`
};

/// The kernel that a move needs, by its index in the plan.
std::optional<size_t> kernelOf(const plan::Plan &plan, const Unit &unit,
                               const Move &move);

/// All calls of a move that needs a kernel; stops when `visit` returns false.
Result<void>
forEachKernelCall(const plan::Plan &plan, const Unit &unit, const Move &move,
                  const std::function<bool(const KernelCall &)> &visit);

/// What there is to say when an exact kernel found element `at` of a call.
Error lossOf(const plan::Plan &plan, const Unit &unit, const KernelCall &call,
             int64_t at);

/// The parts of `compute`: all moves (without kernels, those that need none);
/// then what is encoded, and the checksums.
Result<void> computeMoves(const plan::Plan &plan, const Kernels *kernels,
                          Unit &unit);
Result<void> finishBands(const plan::Plan &plan, Unit &unit, bool withCrc);

/// Brings a unit's bands into their final form once its reads are done:
/// gathers, kernels, fills, and each band's CRC-32 if `withCrc`. One unit is
/// computed by one thread; different units may run at once.
Result<void> compute(const plan::Plan &plan, const Kernels &kernels, Unit &unit,
                     bool withCrc);

} // namespace mbc
