#pragma once

#include "dsl/Model.h"
#include "runtime/Result.h"
#include "runtime/Shape.h"

#include <span>
#include <string>
#include <vector>

namespace mbc::compiler {

/// A shape that does not fit its rule: what is wrong, and where in the spec.
struct ShapeError {
  dsl::SourceRange where;
  std::string text;
};

/// The shape of one side of a rule from the shapes of its tensors. `names` are
/// the tensors' names, for messages.
std::expected<Shape, ShapeError> inferUp(const std::vector<dsl::Node> &side,
                                         std::span<const Shape> leaves,
                                         std::span<const std::string> names);

/// The shapes of one side's tensors from the shape of the whole: the inverse
/// of `inferUp`. Extents of pieces are those that the spec writes; none is
/// guessed.
std::expected<std::vector<Shape>, ShapeError>
inferDown(const std::vector<dsl::Node> &side, const Shape &whole,
          std::span<const std::string> names);

/// The rows of the sections of a side: the pieces of a concat along dimension
/// 0, those of a deinterleave one by one; empty for any other root.
std::vector<int64_t> sectionExtents(const std::vector<dsl::Node> &side,
                                    std::span<const Shape> leaves,
                                    std::span<const std::string> names);

} // namespace mbc::compiler
