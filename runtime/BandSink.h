#pragma once

#include "runtime/Result.h"
#include "runtime/Units.h"

#include <cstdint>

namespace mbc {

/// Where the computed bands of a run stay: files, or memory. Any number of
/// threads may call it at once.
class BandSink {
public:
  virtual ~BandSink() = default;
  /// Takes the bands of a unit, but for those that are `placed`.
  virtual Result<void> write(const Unit &unit) = 0;
  /// The byte of a GPU's memory where a band's elements stay, so that a kernel
  /// writes them there; 0 if they have to pass through the host.
  virtual uint64_t deviceAddress(const Band &) const { return 0; }
};

} // namespace mbc
