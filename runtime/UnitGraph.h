#pragma once

#include "runtime/BandSink.h"
#include "runtime/BufferPool.h"
#include "runtime/DeviceCompute.h"
#include "runtime/Kernels.h"
#include "runtime/Progress.h"
#include "runtime/SourceFiles.h"
#include "runtime/Units.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

namespace mbc {

/// What the units of a run share. References outlive the graph.
struct UnitServices {
  const plan::Plan &plan;
  const Kernels &kernels;
  SourceFiles &sources;
  BandSink &sink;
  bool crc;
  DeviceCompute *device; ///< null: kernels run on the CPU
  Progress *progress;    ///< may be null
};

/// Whether the bound on buffers has room for each tensor that is held whole.
Result<void> holdWholeTensors(const plan::Plan &plan, uint64_t memory,
                              bool onDevice);

/// Takes all units of a schedule through read -> compute -> write, with no more
/// than `budget` bytes of buffers alive. The first failure stops the rest. Run
/// inside the arena whose threads do the work.
class UnitGraph {
public:
  UnitGraph(const Schedule &schedule, const UnitServices &services,
            uint64_t budget, unsigned threads);

  Result<void> run();
  uint64_t bytesRead() const { return bytesRead_; }
  /// Tensors of which something was quantised; after the run.
  uint64_t quantizedAnew() const { return anew_.size(); }

private:
  struct Nodes;
  using UnitPointer = std::shared_ptr<Unit>;

  void admit();
  std::optional<Unit> next();
  Result<void> read(Unit &unit);
  void finish(const UnitPointer &unit);
  void stop(Error error);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
  template <typename Step> UnitPointer step(const UnitPointer &unit, Step step);

  UnitServices services_;
  const Schedule &schedule_;
  BufferPool pool_;
  Nodes *nodes_ = nullptr;
  uint64_t budget_; ///< bytes in flight at most
  unsigned most_;   ///< units in flight at most

  std::mutex admission_; ///< guards the members up to `failure_`
  size_t nextKey_ = 0;
  std::deque<UnitKey> halves_;        ///< of units that were too large
  std::optional<Unit> waiting_;       ///< prepared, does not fit yet
  uint64_t flying_ = 0;               ///< bytes
  unsigned units_ = 0;                ///< in flight
  std::unordered_set<uint32_t> anew_; ///< items
  std::optional<Error> failure_;

  std::atomic<bool> stopped_ = false;
  std::atomic<uint64_t> bytesRead_ = 0;
};

} // namespace mbc
