#pragma once

#include "runtime/DeviceDriver.h"
#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace mbc {

/// Memory of a GPU, or pinned memory of the host, which a GPU copies to and
/// from by itself. Freed with the last copy of the value.
class DeviceMemory {
public:
  DeviceMemory() = default;
  uint64_t address() const { return address_; }
  /// Of pinned memory.
  std::byte *host() const { return reinterpret_cast<std::byte *>(address_); }
  size_t bytes() const { return bytes_; }

private:
  friend class Device;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

/// Work in order. Copies and launches return before they are done; `wait` gives
/// the first failure.
class DeviceStream {
public:
  Result<void> upload(uint64_t target, std::span<const std::byte> source) const;
  Result<void> download(std::span<std::byte> target, uint64_t source) const;
  Result<void> copy(uint64_t target, uint64_t source, size_t bytes) const;
  Result<void> fill(uint64_t target, uint8_t value, size_t bytes) const;
  Result<void> launch(cuda::Function function, uint32_t blocks,
                      uint32_t threads, void **arguments) const;
  Result<void> wait() const;
  /// Seconds that `work` takes, by the device's own clock.
  Result<double> time(const std::function<Result<void>()> &work) const;

private:
  friend class Device;
  Result<void> check(int code, const char *what) const;

  std::shared_ptr<const DeviceDriver> driver_;
  std::shared_ptr<void> stream_, event_;
};

/// PTX that the driver has compiled.
class DeviceCode {
public:
  bool holds(const std::string &name) const;
  /// Null if the driver does not find it.
  cuda::Function find(const std::string &name) const;

private:
  friend class Device;
  std::shared_ptr<const DeviceDriver> driver_;
  std::shared_ptr<void> module_;
  std::string ptx_;
};

/// One NVIDIA GPU by its driver, which is loaded at run time: a machine without
/// one gets an error that says so. Any number of threads may use it after
/// `enter`. Whatever was made by a device keeps its driver alive.
class Device {
public:
  static Result<Device> open(int ordinal = 0,
                             const std::string &library = "libcuda.so.1");

  /// Makes the calling thread one that uses this device.
  Result<void> enter() const;
  const std::string &name() const { return name_; }
  uint32_t capability() const { return capability_; } ///< 90 for 9.0
  uint32_t driver() const { return version_; } ///< CUDA version: 12010 for 12.1

  size_t freeMemory() const; ///< bytes
  Result<DeviceMemory> allocate(size_t bytes) const;
  Result<DeviceMemory> pin(size_t bytes) const;
  Result<DeviceStream> makeStream() const;
  Result<DeviceCode> compile(const std::string &ptx) const;

private:
  std::shared_ptr<const DeviceDriver> driver_;
  std::shared_ptr<void> context_;
  std::string name_;
  uint32_t capability_ = 0, version_ = 0;
};

} // namespace mbc
