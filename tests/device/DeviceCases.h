#pragma once

#include "runtime/DType.h"
#include "runtime/DeviceKernels.h"

#include <string>
#include <vector>

namespace mbc::device::test {

/// A kernel of the test plan (WriteKernels.cpp): what its notes say.
struct KernelCase {
  std::string name;
  DType from = DType::BF16, to = DType::BF16;
  int scale = -1; ///< dtype, -1: none
  bool exact = false;
  float added = 0, factor = 1;
  int tensor = 0; ///< the tensor scale multiplies (1) or divides (2) scales

  KernelFormat format() const;
};

/// The test plan and, if there is one, the GPU.
class Fixture {
public:
  /// Made at the first call. Throws if the plan cannot be read, or if the
  /// environment has MBC_REQUIRE_DEVICE and there is no GPU.
  static const Fixture &get();

  std::vector<KernelCase> cases;
  const plan::Plan *plan = nullptr;
  Kernels cpu;
  bool hasDevice = false;
  std::string whyNot; ///< there is no GPU
  Device device;
  DeviceKernels gpu;
  DeviceStream stream;

private:
  Fixture();
  std::vector<uint8_t> bytes;
};

/// Memory on both sides: what is put in goes up, what comes out came down.
class Arena {
public:
  explicit Arena(const Device &device, size_t bytes);
  std::byte *host() const { return host_.host(); }
  uint64_t device() const { return device_.address(); }
  void upload(const DeviceStream &stream) const;
  void download(const DeviceStream &stream) const;

private:
  DeviceMemory host_, device_;
};

/// The first failure ends the test run: nothing after it can be trusted.
template <typename T> T must(Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

/// Runs a batch to its end and gives what an exact kernel found.
LostElement runBatch(const Fixture &fixture, size_t kernel,
                     const DeviceBatch &batch);

} // namespace mbc::device::test
