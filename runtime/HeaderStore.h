#pragma once

#include "runtime/Shape.h"

#include <cstring>
#include <memory_resource>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_set>

namespace mbc {

/// Holds what the tensors of a checkpoint point to, which may be half a million
/// names: one after the other in large blocks that go all at once. Nothing
/// moves before. Not thread-safe.
class HeaderStore {
public:
  template <typename T> std::span<T> keep(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (values.empty())
      return {};
    void *at = memory_.allocate(values.size_bytes(), alignof(T));
    std::memcpy(at, values.data(), values.size_bytes());
    return {static_cast<T *>(at), values.size()};
  }

  std::string_view keep(std::string_view text) {
    std::span<char> kept = keep(std::span(text));
    return {kept.data(), kept.size()};
  }

  /// Equal shapes are kept once: a checkpoint has few different ones.
  const Shape *keep(const Shape &shape) {
    return &*shapes_.insert(shape).first;
  }

private:
  struct Hash {
    size_t operator()(const Shape &shape) const {
      size_t hash = shape.rank();
      for (int64_t extent : shape)
        hash = (hash ^ static_cast<size_t>(extent)) * 0x9E3779B97F4A7C15;
      return hash ^ (hash >> 32);
    }
  };

  std::pmr::monotonic_buffer_resource memory_{64 << 10};
  std::unordered_set<Shape, Hash> shapes_;
};

} // namespace mbc
