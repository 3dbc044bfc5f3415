#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace mbc {

/// Memory of a unit. Not cleared.
struct Buffer {
  std::unique_ptr<std::byte[]> bytes;
  size_t capacity = 0;
};

/// Keeps released buffers for later units, as fresh pages cost as much as a
/// copy. Holds `keep` bytes at most. May be used from any number of threads.
class BufferPool {
public:
  explicit BufferPool(uint64_t keep) : keep_(keep) {}

  /// A buffer of `bytes` bytes or more.
  Buffer take(size_t bytes);
  void give(Buffer buffer);

private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
  uint64_t keep_, held_ = 0;
};

} // namespace mbc
