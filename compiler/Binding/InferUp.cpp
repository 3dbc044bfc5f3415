#include "compiler/Binding/InferNodes.h"

namespace mbc::compiler {

using dsl::Node;
using dsl::OpKind;
template <typename T> using Inferred = std::expected<T, ShapeError>;

static std::unexpected<ShapeError> wrong(const Node &node, std::string text) {
  return std::unexpected(ShapeError{node.where, std::move(text)});
}

namespace {
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
