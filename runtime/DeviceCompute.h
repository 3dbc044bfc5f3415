#pragma once

#include "runtime/BandSink.h"
#include "runtime/DeviceKernels.h"
#include "runtime/Units.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace mbc {

/// What `compute` (UnitCompute.h) does, with the kernels on a GPU: a unit's
/// staged bytes go up, all its kernels run in a launch a class, its bands come
/// down, or are made where the sink keeps them. Movement and fills stay on the host, where the bytes are. Any number
/// of threads may compute units; each has a stream, so that one's copies run
/// beside another's kernels.
class DeviceCompute {
public:
  /// `memory`: bytes of device memory at most, 0: half of what is free.
  static Result<std::unique_ptr<DeviceCompute>>
  make(const plan::Plan &plan, int ordinal, uint64_t memory);

  uint64_t memory() const { return memory_; } ///< the bound, in bytes
  const Device &device() const { return device_; }
  Result<void> compute(Unit &unit, bool withCrc, const BandSink &sink);
  /// Host memory that the GPU copies from by itself; throws if there is none.
  BufferBytes pin(size_t bytes) const;

private:
  /// What a unit needs while it is on the device; kept for later ones.
  struct Workspace {
    DeviceMemory unit, tables, hostTables;
    DeviceStream stream;
  };
  struct Launch;

  explicit DeviceCompute(const plan::Plan &plan) : plan_(plan) {}
  Result<std::unique_ptr<Workspace>> take(size_t unitBytes);
  Result<std::unique_ptr<Workspace>> allocate(size_t unitBytes) const;
  Result<void> growTables(Workspace &space, size_t bytes) const;
  void give(std::unique_ptr<Workspace> space);
  void place(Unit &unit, const BandSink &sink) const;
  Result<std::vector<Launch>> plan(const Unit &unit) const;
  Result<void> run(Unit &unit, std::vector<Launch> &launches,
                   Workspace &space, const BandSink &sink) const;

  const plan::Plan &plan_;
  Device device_;
  DeviceKernels kernels_;
  std::vector<bool> exact_; ///< by kernel: whether it may find a lost element
  uint64_t memory_ = 0;

  std::mutex mutex_; ///< guards what follows
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Workspace>> free_;
  uint64_t held_ = 0; ///< bytes of all workspaces
};

} // namespace mbc
