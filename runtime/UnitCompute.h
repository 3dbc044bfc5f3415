#pragma once

#include "runtime/Kernels.h"
#include "runtime/Plan_generated.h"
#include "runtime/Result.h"
#include "runtime/Units.h"

namespace mbc {

/// Brings a unit's bands into their final form once its reads are done:
/// gathers, kernels, fills, and each band's CRC-32 if `withCrc`. One unit is
/// computed by one thread; different units may run at once.
Result<void> compute(const plan::Plan &plan, const Kernels &kernels, Unit &unit,
                     bool withCrc);

} // namespace mbc
