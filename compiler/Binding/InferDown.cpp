#include "compiler/Binding/InferNodes.h"

namespace mbc::compiler {

using dsl::Node;
using dsl::OpKind;

namespace {
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

std::expected<std::vector<Shape>, ShapeError>
inferDown(const std::vector<Node> &side, const Shape &whole,
          std::span<const std::string> names) {
  Down down(side, names);
  if (std::optional<ShapeError> error = down.infer(side.back(), whole))
    return std::unexpected(*error);
  return down.takeLeaves();
}

} // namespace mbc::compiler
