#pragma once

#include "compiler/Binding/InferShapes.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>

/// What InferUp.cpp and InferDown.cpp share; for these two only.
namespace mbc::compiler {

/// Rows of a tensor whose sections alternate: groups times the sections' rows.
inline int64_t deinterleavedRows(const dsl::Node &node) {
  return node.ints[0] *
         std::accumulate(node.ints.begin() + 1, node.ints.end(), int64_t{0});
}

/// A tensor's shape against the first extents that the spec writes for it.
inline std::optional<ShapeError>
againstWritten(const dsl::Node &node, const Shape &shape,
               std::span<const std::string> names) {
  if (shape.rank() >= node.ints.size() &&
      std::equal(node.ints.begin(), node.ints.end(), shape.begin()))
    return std::nullopt;
  return ShapeError{node.where,
                    fmt::format("{} has shape {}, but the spec gives it {}",
                                names[node.operand], toString(shape),
                                toString(Shape(node.ints)))};
}

inline int64_t product(const std::vector<int64_t> &extents) {
  int64_t all = 1;
  for (int64_t extent : extents)
    all *= extent;
  return all;
}

} // namespace mbc::compiler
