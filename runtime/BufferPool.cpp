#include "runtime/BufferPool.h"

namespace mbc {

Buffer BufferPool::take(size_t bytes) {
  bytes = sizeFor(bytes);
  {
    std::lock_guard lock(mutex_);
    Buffer *best = nullptr;
    for (Buffer &candidate : free_)
      if (candidate.capacity >= bytes && candidate.capacity / 2 <= bytes &&
          (!best || candidate.capacity < best->capacity))
        best = &candidate;
    if (best) {
      Buffer taken = std::move(*best);
      *best = std::move(free_.back());
      free_.pop_back();
      held_ -= taken.capacity;
      return taken;
    }
  }
  if (allocate_)
    return {allocate_(bytes), bytes};
  return {BufferBytes(new std::byte[bytes],
                      [](std::byte *block) { delete[] block; }),
          bytes};
}

void BufferPool::give(Buffer buffer) {
  std::lock_guard lock(mutex_);
  if (!buffer.bytes || held_ + buffer.capacity > keep_)
    return;
  held_ += buffer.capacity;
  free_.push_back(std::move(buffer));
}

} // namespace mbc
