#include "compiler/Binding/AffectedTensors.h"

#include "compiler/Binding/InferShapes.h"

#include <algorithm>
#include <set>

namespace mbc::compiler {
namespace {

using dsl::Node;
using dsl::OpKind;

/// Elements from `begin` to before `end` along an axis of a node's tensor.
struct Span {
  size_t axis = 0;
  int64_t begin = 0, end = 0;
};

/// Follows elements of the whole down to the tensors that hold them.
class Walk {
public:
  Walk(const std::vector<Node> &side, std::vector<Shape> leaves,
       const std::vector<std::string> &names)
      : side(side), leaves(std::move(leaves)), names(names) {}

  void visit(uint32_t index, const Span &span) {
    const Node &node = side[index];
    const bool along = static_cast<size_t>(node.dim) == span.axis;
    switch (node.kind) {
    case OpKind::Concat:
      if (along)
        return pieces(node, span);
      break;
    case OpKind::Stack:
      return stacked(node, span);
    case OpKind::Transpose:
      return visit(node.children[0], {static_cast<size_t>(node.ints[span.axis]),
                                      span.begin, span.end});
    case OpKind::Slice:
      return visit(node.children[0],
                   {span.axis, span.begin + (along ? node.ints[0] : 0),
                    span.end + (along ? node.ints[0] : 0)});
    case OpKind::Tensor:
      found.insert(node.operand);
      return;
    case OpKind::Fill:
      return;
    case OpKind::Add:
    case OpKind::Scale:
      break;
    case OpKind::Reshape:
    case OpKind::Repeat:
    case OpKind::Deinterleave: // other axes or another order of the rows
      return all(index);
    }
    for (uint32_t child : node.children)
      visit(child, span);
  }

  std::set<uint32_t> found; ///< operands

private:
  void pieces(const Node &node, const Span &span) {
    int64_t at = 0;
    for (uint32_t child : node.children) {
      const int64_t extent = extentOf(child, span.axis);
      const int64_t begin = std::max(span.begin - at, int64_t{0});
      const int64_t end = std::min(span.end - at, extent);
      if (begin < end)
        visit(child, {span.axis, begin, end});
      at += extent;
    }
  }

  void stacked(const Node &node, const Span &span) {
    const auto axis = static_cast<size_t>(node.dim);
    for (size_t i = 0; i != node.children.size(); ++i)
      if (span.axis != axis)
        visit(node.children[i],
              {span.axis - (span.axis > axis), span.begin, span.end});
      else if (auto k = static_cast<int64_t>(i);
               k >= span.begin && k < span.end)
        all(node.children[i]);
  }

  void all(uint32_t index) {
    if (side[index].kind == OpKind::Tensor)
      found.insert(side[index].operand);
    for (uint32_t child : side[index].children)
      all(child);
  }

  int64_t extentOf(uint32_t index, size_t axis) const {
    // Children come first: the nodes up to this one are a side of their own.
    std::vector<Node> part(side.begin(), side.begin() + index + 1);
    auto shape = inferUp(part, leaves, names);
    return shape && axis < shape->rank() ? (*shape)[axis] : 0;
  }

  const std::vector<Node> &side;
  std::vector<Shape> leaves;
  const std::vector<std::string> &names;
};

} // namespace

std::vector<std::string> affectedTensors(const dsl::Mapping &mapping,
                                         const dsl::RuleInstance &instance,
                                         const Shape &stored,
                                         const StoredHole &hole) {
  if (!hole.axis || mapping.megatron.back().kind != OpKind::Tensor)
    return instance.hf;
  auto leaves = inferDown(mapping.hf, stored, instance.hf);
  if (!leaves)
    return instance.hf;
  Walk walk(mapping.hf, std::move(*leaves), instance.hf);
  walk.visit(static_cast<uint32_t>(mapping.hf.size() - 1),
             {*hole.axis, hole.begin, hole.end});
  std::vector<std::string> names;
  for (uint32_t operand : walk.found)
    names.push_back(instance.hf[operand]);
  return names;
}

} // namespace mbc::compiler
