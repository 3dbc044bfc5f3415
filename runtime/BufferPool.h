#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace mbc {

/// Bytes and what frees them.
using BufferBytes =
    std::unique_ptr<std::byte[], std::function<void(std::byte *)>>;

/// Memory of a unit. Not cleared.
struct Buffer {
  BufferBytes bytes;
  size_t capacity = 0;
};

/// Keeps released buffers for later units, as fresh pages cost as much as a
/// copy. Holds `keep` bytes at most. May be used from any number of threads.
class BufferPool {
public:
  using Allocate = std::function<BufferBytes(size_t bytes)>;

  /// `allocate`: where new buffers come from; empty: from the heap. What is
  /// dear to make is made in multiples of `step`, so that it fits other units.
  explicit BufferPool(uint64_t keep, Allocate allocate = {}, size_t step = 1)
      : allocate_(std::move(allocate)), keep_(keep), step_(step) {}

  /// Bytes of the buffer that `take` gives for so many.
  size_t sizeFor(size_t bytes) const {
    return (bytes + step_ - 1) / step_ * step_;
  }
  /// A buffer of `bytes` bytes or more.
  Buffer take(size_t bytes);
  void give(Buffer buffer);

private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
  Allocate allocate_;
  uint64_t keep_, held_ = 0;
  size_t step_;
};

} // namespace mbc
