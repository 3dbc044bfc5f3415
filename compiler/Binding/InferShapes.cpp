#include "compiler/Binding/InferShapes.h"

#include <fmt/format.h>
#include <optional>

namespace mbc::compiler {

using dsl::Node;
using dsl::OpKind;
template <typename T> using Inferred = std::expected<T, ShapeError>;

static std::unexpected<ShapeError> wrong(const Node &node, std::string text) {
  return std::unexpected(ShapeError{node.where, std::move(text)});
}

static int64_t product(const std::vector<int64_t> &extents) {
  int64_t all = 1;
  for (int64_t extent : extents)
    all *= extent;
  return all;
}

/// Rows of a tensor whose sections alternate: groups times the sections' rows.
static int64_t deinterleavedRows(const Node &node) {
  int64_t inGroup = 0;
  for (size_t i = 1; i != node.ints.size(); ++i)
    inGroup += node.ints[i];
  return node.ints[0] * inGroup;
}

namespace {
/// A tensor's shape against the first extents that the spec writes for it.
std::optional<ShapeError> againstWritten(const Node &node, const Shape &shape,
                                         std::span<const std::string> names) {
  if (shape.rank() >= node.ints.size() &&
      std::equal(node.ints.begin(), node.ints.end(), shape.begin()))
    return std::nullopt;
  return ShapeError{node.where,
                    fmt::format("{} has shape {}, but the spec gives it {}",
                                names[node.operand], toString(shape),
                                toString(Shape(node.ints)))};
}

/// Shapes from the tensors of a side to its root.
class Up {
public:
  Up(const std::vector<Node> &side, std::span<const Shape> leaves,
     std::span<const std::string> names)
      : side(side), leaves(leaves), names(names) {}

  Inferred<Shape> infer(const Node &node) {
    switch (node.kind) {
    case OpKind::Tensor:
      return tensor(node);
    case OpKind::Fill:
      return Shape(node.ints);
    case OpKind::Concat:
      return concat(node);
    case OpKind::Stack:
      return stack(node);
    case OpKind::Reshape:
      return reshape(node);
    case OpKind::Transpose:
      return transpose(node);
    case OpKind::Slice:
      return slice(node);
    case OpKind::Repeat:
      return repeat(node);
    case OpKind::Deinterleave:
      return deinterleave(node);
    case OpKind::Add:
    case OpKind::Scale:
      return child(node.children[0], 0);
    }
    return wrong(node, "unknown operation");
  }

private:
  Inferred<Shape> tensor(const Node &node) {
    if (auto error = againstWritten(node, leaves[node.operand], names))
      return std::unexpected(*error);
    return leaves[node.operand];
  }

  /// The child's shape; its written extent, if any, is that along `dim`.
  Inferred<Shape> child(uint32_t index, size_t dim) {
    const Node &node = side[index];
    Inferred<Shape> shape = infer(node);
    if (!shape || !node.extent)
      return shape;
    if (dim >= shape->rank() || (*shape)[dim] != *node.extent)
      return wrong(node,
                   fmt::format("{} has shape {}, but the spec gives it {} "
                               "along dimension {}",
                               describe(node), toString(*shape), *node.extent,
                               dim));
    return shape;
  }

  std::string describe(const Node &node) const {
    return node.kind == OpKind::Tensor ? names[node.operand] : "this piece";
  }

  Inferred<Shape> concat(const Node &node) {
    Shape whole;
    size_t dim = node.dim;
    for (size_t i = 0; i != node.children.size(); ++i) {
      Inferred<Shape> part = child(node.children[i], dim);
      if (!part)
        return part;
      const Node &piece = side[node.children[i]];
      if (dim >= part->rank())
        return wrong(piece,
                     fmt::format("{} has shape {}: it has no dimension {} "
                                 "to concatenate along",
                                 describe(piece), toString(*part), dim));
      if (i == 0) {
        whole = *part;
        continue;
      }
      Shape expected = whole;
      expected[dim] = (*part)[dim];
      if (expected != *part)
        return wrong(piece, fmt::format("{} has shape {}, the pieces before it "
                                        "{}; only dimension {} may differ",
                                        describe(piece), toString(*part),
                                        toString(whole), dim));
      whole[dim] += (*part)[dim];
    }
    return whole;
  }

  Inferred<Shape> stack(const Node &node) {
    Shape first;
    for (size_t i = 0; i != node.children.size(); ++i) {
      Inferred<Shape> part = child(node.children[i], 0);
      if (!part)
        return part;
      if (i == 0)
        first = *part;
      else if (*part != first)
        return wrong(node,
                     fmt::format("{} has shape {}, the first of the stack {}",
                                 describe(side[node.children[i]]),
                                 toString(*part), toString(first)));
    }
    if (first.rank() == Shape::maxRank ||
        static_cast<size_t>(node.dim) > first.rank())
      return wrong(node, fmt::format("cannot stack tensors of shape {} along "
                                     "dimension {}",
                                     toString(first), node.dim));
    Shape whole;
    for (size_t dim = 0; dim <= first.rank(); ++dim) {
      if (dim == static_cast<size_t>(node.dim))
        whole.push_back(node.children.size());
      if (dim < first.rank())
        whole.push_back(first[dim]);
    }
    return whole;
  }

  Inferred<Shape> reshape(const Node &node) {
    Inferred<Shape> from = child(node.children[0], 0);
    if (!from)
      return from;
    int64_t wanted = product(node.ints), have = 1;
    size_t consumed = 0;
    while (consumed < from->rank() && (consumed == 0 || have < wanted))
      have *= (*from)[consumed++];
    if (have != wanted || (!node.rest && consumed != from->rank()))
      return wrong(node, fmt::format("{} has shape {}, which cannot become {}: "
                                     "{} and {} elements",
                                     describe(side[node.children[0]]),
                                     toString(*from),
                                     toString(Shape(node.ints)), have, wanted));
    Shape shape(node.ints);
    for (size_t dim = consumed; dim < from->rank(); ++dim) {
      if (shape.rank() == Shape::maxRank)
        return wrong(node,
                     "the result has more dimensions than a tensor can have");
      shape.push_back((*from)[dim]);
    }
    return shape;
  }

  Inferred<Shape> transpose(const Node &node) {
    Inferred<Shape> from = child(node.children[0], 0);
    if (!from)
      return from;
    if (from->rank() != node.ints.size())
      return wrong(node, fmt::format("{} has shape {}, the order has {} axes",
                                     describe(side[node.children[0]]),
                                     toString(*from), node.ints.size()));
    Shape shape;
    for (int64_t axis : node.ints)
      shape.push_back((*from)[axis]);
    return shape;
  }

  Inferred<Shape> slice(const Node &node) {
    size_t dim = node.dim;
    Inferred<Shape> whole = child(node.children[0], dim);
    if (!whole)
      return whole;
    int64_t from = node.ints[0], width = node.ints[1];
    if (dim >= whole->rank() || from < 0 || width < 1 ||
        from + width > (*whole)[dim])
      return wrong(node, fmt::format("{} has shape {}; {} from {} on along "
                                     "dimension {} is not in it",
                                     describe(side[node.children[0]]),
                                     toString(*whole), width, from, dim));
    (*whole)[dim] = width;
    return whole;
  }

  Inferred<Shape> repeat(const Node &node) {
    Inferred<Shape> shape = child(node.children[0], 0);
    if (shape && shape->empty())
      return wrong(node,
                   fmt::format("{} is one number; it has no rows to repeat",
                               describe(side[node.children[0]])));
    if (shape)
      (*shape)[0] *= node.ints[0];
    return shape;
  }

  Inferred<Shape> deinterleave(const Node &node) {
    Inferred<Shape> from = child(node.children[0], 0);
    if (from && (from->empty() || (*from)[0] != deinterleavedRows(node)))
      return wrong(node,
                   fmt::format("{} has shape {}; {} groups of {} need {} rows",
                               describe(side[node.children[0]]),
                               toString(*from), node.ints[0],
                               deinterleavedRows(node) / node.ints[0],
                               deinterleavedRows(node)));
    return from;
  }

  const std::vector<Node> &side;
  std::span<const Shape> leaves;
  std::span<const std::string> names;
};

/// Shapes from the root of a side to its tensors.
class Down {
public:
  Down(const std::vector<Node> &side, std::span<const std::string> names)
      : side(side), names(names), leaves(names.size()) {}

  std::optional<ShapeError> infer(const Node &node, const Shape &shape) {
    switch (node.kind) {
    case OpKind::Tensor:
      leaves[node.operand] = shape;
      return againstWritten(node, shape, names);
    case OpKind::Fill:
      if (shape != Shape(node.ints))
        return ShapeError{node.where,
                          fmt::format("the constant has shape {}, its place {}",
                                      toString(Shape(node.ints)),
                                      toString(shape))};
      return std::nullopt;
    case OpKind::Concat:
      return concat(node, shape);
    case OpKind::Stack:
      return stack(node, shape);
    case OpKind::Reshape:
      return reshape(node, shape);
    case OpKind::Transpose:
      return transpose(node, shape);
    case OpKind::Slice:
      return slice(node, shape);
    case OpKind::Repeat:
      return repeat(node, shape);
    case OpKind::Deinterleave:
      return deinterleave(node, shape);
    case OpKind::Add:
    case OpKind::Scale:
      return infer(side[node.children[0]], shape);
    }
    return std::nullopt;
  }

  std::vector<Shape> takeLeaves() { return std::move(leaves); }

private:
  /// The leading extents of a node that the spec itself writes. A tensor's
  /// written extent counts as its first one if `extentDim` is 0.
  std::optional<std::vector<int64_t>> prefix(const Node &node,
                                             int64_t extentDim = 0) const {
    switch (node.kind) {
    case OpKind::Tensor:
      if (!node.ints.empty())
        return node.ints;
      if (node.extent && extentDim == 0)
        return std::vector{*node.extent};
      return std::nullopt;
    case OpKind::Fill:
    case OpKind::Reshape:
      return node.ints;
    case OpKind::Repeat: {
      auto once = prefix(side[node.children[0]]);
      if (once && !once->empty())
        once->front() *= node.ints[0];
      return once;
    }
    case OpKind::Deinterleave:
      return std::vector{deinterleavedRows(node)};
    case OpKind::Add:
    case OpKind::Scale:
      return prefix(side[node.children[0]], extentDim);
    case OpKind::Concat:
      return concatPrefix(node);
    case OpKind::Stack: {
      if (node.dim == 0)
        return std::vector<int64_t>{static_cast<int64_t>(node.children.size())};
      return std::nullopt;
    }
    case OpKind::Transpose:
      return transposedPrefix(node);
    case OpKind::Slice:
      return slicePrefix(node);
    }
    return std::nullopt;
  }

  std::optional<std::vector<int64_t>> slicePrefix(const Node &node) const {
    auto from = prefix(side[node.children[0]], node.dim);
    auto dim = static_cast<size_t>(node.dim);
    if (!from && dim == 0)
      return std::vector{node.ints[1]};
    if (from && dim < from->size())
      (*from)[dim] = node.ints[1];
    return from;
  }

  /// Known only if all axes of the child are.
  std::optional<std::vector<int64_t>> transposedPrefix(const Node &node) const {
    std::optional<std::vector<int64_t>> from = prefix(side[node.children[0]]);
    if (!from || from->size() != node.ints.size())
      return std::nullopt;
    std::vector<int64_t> to;
    for (int64_t axis : node.ints)
      to.push_back((*from)[axis]);
    return to;
  }

  std::optional<std::vector<int64_t>> concatPrefix(const Node &node) const {
    std::optional<std::vector<int64_t>> whole;
    int64_t sum = 0;
    for (uint32_t index : node.children) {
      std::optional<int64_t> extent = extentAlong(side[index], node.dim);
      std::optional<std::vector<int64_t>> part = prefix(side[index], node.dim);
      if (!extent || !part)
        return std::nullopt;
      sum += *extent;
      whole = part;
    }
    if (whole && static_cast<size_t>(node.dim) < whole->size())
      (*whole)[node.dim] = sum;
    return whole;
  }

  std::optional<int64_t> extentAlong(const Node &node, int64_t dim) const {
    if (node.extent)
      return node.extent;
    if (node.kind == OpKind::Slice && node.dim == dim)
      return node.ints[1];
    std::optional<std::vector<int64_t>> known = prefix(node);
    if (known && static_cast<size_t>(dim) < known->size())
      return (*known)[dim];
    return std::nullopt;
  }

  std::string describe(const Node &node) const {
    return node.kind == OpKind::Tensor ? names[node.operand] : "this piece";
  }

  std::optional<ShapeError> concat(const Node &node, const Shape &shape) {
    size_t dim = node.dim;
    if (dim >= shape.rank())
      return ShapeError{node.where,
                        fmt::format("shape {} has no dimension {} to "
                                    "take pieces from",
                                    toString(shape), dim)};
    int64_t sum = 0;
    for (uint32_t index : node.children) {
      std::optional<int64_t> extent = extentAlong(side[index], node.dim);
      if (!extent)
        return unknownExtent(side[index], dim);
      Shape part = shape;
      part[dim] = *extent;
      sum += *extent;
      if (auto error = infer(side[index], part))
        return error;
    }
    if (sum != shape[dim])
      return ShapeError{
          node.where, fmt::format("the pieces add up to {} along dimension {}, "
                                  "the whole has {}",
                                  sum, dim, shape[dim])};
    return std::nullopt;
  }

  std::optional<ShapeError> stack(const Node &node, const Shape &shape) {
    size_t axis = node.dim;
    if (axis >= shape.rank() ||
        shape[axis] != static_cast<int64_t>(node.children.size()))
      return ShapeError{
          node.where, fmt::format("a stack of {} along dimension {} does not "
                                  "fit shape {}",
                                  node.children.size(), axis, toString(shape))};
    Shape part;
    for (size_t dim = 0; dim != shape.rank(); ++dim)
      if (dim != axis)
        part.push_back(shape[dim]);
    for (uint32_t index : node.children)
      if (auto error = infer(side[index], part))
        return error;
    return std::nullopt;
  }

  std::optional<ShapeError> slice(const Node &node, const Shape &shape) {
    const Node &child = side[node.children[0]];
    size_t dim = node.dim;
    std::optional<int64_t> extent = extentAlong(child, node.dim);
    if (!extent)
      return unknownExtent(child, dim);
    if (dim >= shape.rank() || shape[dim] != node.ints[1])
      return ShapeError{node.where,
                        fmt::format("the slice is {} wide along dimension {}, "
                                    "its place has shape {}",
                                    node.ints[1], dim, toString(shape))};
    Shape whole = shape;
    whole[dim] = *extent;
    return infer(child, whole);
  }

  ShapeError unknownExtent(const Node &node, size_t dim) const {
    return ShapeError{node.where,
                      fmt::format("the extent of {} along dimension {} is not "
                                  "known; write it as `{}:n`",
                                  describe(node), dim, describe(node))};
  }

  std::optional<ShapeError> reshape(const Node &node, const Shape &shape) {
    Shape leading(node.ints);
    bool fits = shape.rank() >= leading.rank() &&
                (node.rest || shape.rank() == leading.rank()) &&
                std::equal(leading.begin(), leading.end(), shape.begin());
    if (!fits)
      return ShapeError{
          node.where, fmt::format("the spec reshapes to {}{}, the tensor here "
                                  "has shape {}",
                                  toString(leading), node.rest ? " ..." : "",
                                  toString(shape))};
    const Node &child = side[node.children[0]];
    std::vector<int64_t> from =
        prefix(child).value_or(std::vector{product(node.ints)});
    if (product(from) != product(node.ints))
      return ShapeError{
          node.where,
          fmt::format("{} has {} elements in its leading axes, the "
                      "reshape {}",
                      describe(child), product(from), product(node.ints))};
    Shape inner(from);
    for (size_t dim = leading.rank(); dim < shape.rank(); ++dim)
      inner.push_back(shape[dim]);
    return infer(child, inner);
  }

  std::optional<ShapeError> transpose(const Node &node, const Shape &shape) {
    if (shape.rank() != node.ints.size())
      return ShapeError{node.where,
                        fmt::format("shape {} does not have {} axes",
                                    toString(shape), node.ints.size())};
    Shape from = shape;
    for (size_t dim = 0; dim != node.ints.size(); ++dim)
      from[node.ints[dim]] = shape[dim];
    return infer(side[node.children[0]], from);
  }

  std::optional<ShapeError> repeat(const Node &node, Shape shape) {
    if (shape.empty() || shape[0] % node.ints[0] != 0)
      return ShapeError{node.where,
                        fmt::format("shape {} is not {} times the same rows",
                                    toString(shape), node.ints[0])};
    shape[0] /= node.ints[0];
    return infer(side[node.children[0]], shape);
  }

  std::optional<ShapeError> deinterleave(const Node &node, const Shape &shape) {
    if (shape.empty() || shape[0] != deinterleavedRows(node))
      return ShapeError{
          node.where,
          fmt::format("the spec has {} rows in {} groups, the tensor here has "
                      "shape {}",
                      deinterleavedRows(node), node.ints[0], toString(shape))};
    return infer(side[node.children[0]], shape);
  }

  const std::vector<Node> &side;
  std::span<const std::string> names;
  std::vector<Shape> leaves;
};
} // namespace

std::expected<Shape, ShapeError> inferUp(const std::vector<Node> &side,
                                         std::span<const Shape> leaves,
                                         std::span<const std::string> names) {
  Inferred<Shape> whole = Up(side, leaves, names).infer(side.back());
  if (!whole || !side.back().extent || side.back().kind != OpKind::Tensor)
    return whole;
  if (whole->empty() || (*whole)[0] != *side.back().extent)
    return wrong(side.back(),
                 fmt::format("{} has shape {}, but the spec gives it {} along "
                             "dimension 0",
                             names[side.back().operand], toString(*whole),
                             *side.back().extent));
  return whole;
}

std::expected<std::vector<Shape>, ShapeError>
inferDown(const std::vector<Node> &side, const Shape &whole,
          std::span<const std::string> names) {
  Down down(side, names);
  if (std::optional<ShapeError> error = down.infer(side.back(), whole))
    return std::unexpected(*error);
  return down.takeLeaves();
}

std::vector<int64_t> sectionExtents(const std::vector<Node> &side,
                                    std::span<const Shape> leaves,
                                    std::span<const std::string> names) {
  const Node &root = side.back();
  const bool joined = root.kind == OpKind::Concat && root.dim == 0;
  std::vector<uint32_t> pieces = root.children;
  if (!joined)
    pieces = {static_cast<uint32_t>(side.size() - 1)};
  std::vector<int64_t> extents;
  Up up(side, leaves, names);
  for (uint32_t index : pieces) {
    const Node &piece = side[index];
    if (piece.kind == OpKind::Deinterleave)
      for (size_t i = 1; i != piece.ints.size(); ++i)
        extents.push_back(piece.ints[0] * piece.ints[i]);
    else if (Inferred<Shape> shape = up.infer(piece);
             joined && shape && !shape->empty())
      extents.push_back((*shape)[0]);
  }
  return extents;
}

} // namespace mbc::compiler
