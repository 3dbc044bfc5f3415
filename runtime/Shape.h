#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace mbc {

/// Extents of a tensor (or an index into one), outermost first. At most
/// `maxRank` dimensions, stored in place: a checkpoint has 500,000 of them.
class Shape {
public:
  static constexpr size_t maxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(dims.size()) {
    assert(dims.size() <= maxRank);
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }

  /// The first index of a tensor of this rank.
  static Shape zeros(size_t rank) {
    assert(rank <= maxRank);
    Shape shape;
    shape.rank_ = static_cast<uint8_t>(rank);
    return shape;
  }

  size_t rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t operator[](size_t dim) const { return dims_[dim]; }
  int64_t &operator[](size_t dim) { return dims_[dim]; }
  const int64_t *begin() const { return dims_.data(); }
  const int64_t *end() const { return dims_.data() + rank_; }
  std::span<const int64_t> dims() const { return {dims_.data(), rank_}; }
  void push_back(int64_t extent) {
    assert(rank_ < maxRank);
    dims_[rank_++] = extent;
  }

  /// Number of elements; 1 for a scalar. Readers have checked that it fits.
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t extent : *this)
      count *= extent;
    return count;
  }

  friend bool operator==(const Shape &a, const Shape &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

private:
  std::array<int64_t, maxRank> dims_{};
  uint8_t rank_ = 0;
};

/// "[7168, 18432]".
std::string toString(const Shape &shape);

} // namespace mbc
