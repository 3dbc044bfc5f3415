#pragma once

#include "compiler/RuleClass.h"

#include <memory>
#include <string>
#include <vector>

namespace mbc::compiler::test {

/// One side of a rule, written as nested calls; each call returns its node.
class SideBuilder {
public:
  uint32_t tensor(uint32_t operand, std::optional<int64_t> extent = {}) {
    dsl::Node node;
    node.operand = operand;
    node.extent = extent;
    return add(std::move(node));
  }
  uint32_t fill(double value, std::vector<int64_t> shape) {
    dsl::Node node = made(dsl::OpKind::Fill, {});
    node.value = value;
    node.ints = std::move(shape);
    return add(std::move(node));
  }
  uint32_t concat(std::vector<uint32_t> parts, int64_t dim = 0) {
    dsl::Node node = made(dsl::OpKind::Concat, std::move(parts));
    node.dim = dim;
    return add(std::move(node));
  }
  uint32_t stack(std::vector<uint32_t> parts, int64_t dim = 0) {
    dsl::Node node = made(dsl::OpKind::Stack, std::move(parts));
    node.dim = dim;
    return add(std::move(node));
  }
  uint32_t reshape(uint32_t input, std::vector<int64_t> shape,
                   bool rest = false) {
    dsl::Node node = made(dsl::OpKind::Reshape, {input});
    node.ints = std::move(shape);
    node.rest = rest;
    return add(std::move(node));
  }
  uint32_t transpose(uint32_t input, std::vector<int64_t> axes) {
    dsl::Node node = made(dsl::OpKind::Transpose, {input});
    node.ints = std::move(axes);
    return add(std::move(node));
  }
  uint32_t repeat(uint32_t input, int64_t times) {
    dsl::Node node = made(dsl::OpKind::Repeat, {input});
    node.ints = {times};
    return add(std::move(node));
  }
  uint32_t deinterleave(uint32_t input, std::vector<int64_t> groupsAndRows) {
    dsl::Node node = made(dsl::OpKind::Deinterleave, {input});
    node.ints = std::move(groupsAndRows);
    return add(std::move(node));
  }
  uint32_t constant(dsl::OpKind kind, uint32_t input, double value) {
    dsl::Node node = made(kind, {input});
    node.value = value;
    return add(std::move(node));
  }

  std::vector<dsl::Node> nodes;

private:
  static dsl::Node made(dsl::OpKind kind, std::vector<uint32_t> children) {
    dsl::Node node;
    node.kind = kind;
    node.children = std::move(children);
    return node;
  }
  uint32_t add(dsl::Node node) {
    nodes.push_back(std::move(node));
    return nodes.size() - 1;
  }
};

inline OperandType typed(Shape shape, DType dtype = DType::BF16) {
  OperandType operand;
  operand.dtype = dtype;
  operand.shape = shape;
  return operand;
}

/// A class and the mapping that it points to.
struct Rule {
  std::unique_ptr<dsl::Mapping> mapping = std::make_unique<dsl::Mapping>();
  RuleClass type;
};

/// `operands <- hf` with one Megatron tensor unless the caller changes it. The
/// rule stands in line 3 of a spec.
inline Rule makeRule(OperandType megatron, std::vector<OperandType> hf,
                     SideBuilder side,
                     dsl::ShardKind shard = dsl::ShardKind::Replicated) {
  static const auto file = std::make_shared<const dsl::SourceFile>(
      "test.mbspec", "mbspec 1\n\na <- b\n");
  Rule rule;
  rule.mapping->hf = std::move(side.nodes);
  rule.mapping->megatron.emplace_back();
  rule.mapping->shard.kind = shard;
  rule.mapping->where = {file, 3, 1, 6};
  rule.mapping->label = "decoder.layers.{i}.a";
  rule.type.mapping = rule.mapping.get();
  rule.type.megatron = {std::move(megatron)};
  rule.type.hf = std::move(hf);
  return rule;
}

/// `a <- b` for tensors of one shape.
inline Rule copyRule(Shape shape, dsl::ShardKind shard,
                     DType megatron = DType::BF16, DType hf = DType::BF16) {
  SideBuilder side;
  side.tensor(0);
  return makeRule(typed(shape, megatron), {typed(shape, hf)}, std::move(side),
                  shard);
}

/// Runs boxes one element at a time. Constants appear as their bits, negated
/// and less one, so that no input's value can be mistaken for them.
inline std::vector<int64_t>
applyBoxes(int64_t elements, const std::vector<Box> &boxes,
           const std::vector<std::vector<int64_t>> &inputs) {
  constexpr int64_t unwritten = INT64_MIN;
  std::vector<int64_t> result(elements, unwritten);
  for (const Box &box : boxes) {
    std::vector<int64_t> index(box.dims.size(), 0);
    for (bool more = true; more;) {
      int64_t source = box.sourceOffset, target = box.targetOffset;
      for (size_t dim = 0; dim != index.size(); ++dim) {
        source += index[dim] * box.dims[dim].source;
        target += index[dim] * box.dims[dim].target;
      }
      if (result.at(target) != unwritten)
        result.at(target) = unwritten + 1; // written twice: equal to nothing
      else
        result.at(target) = box.input < 0 ? -1 - static_cast<int64_t>(box.fill)
                                          : inputs.at(box.input).at(source);
      more = false;
      for (size_t dim = index.size(); dim-- > 0 && !more;) {
        more = ++index[dim] < box.dims[dim].count;
        if (!more)
          index[dim] = 0;
      }
    }
  }
  return result;
}

/// Different numbers for all elements of all inputs: 1000000 * operand + index.
inline std::vector<std::vector<int64_t>> numbered(const FusedClass &fused) {
  std::vector<std::vector<int64_t>> inputs;
  for (const FusedInput &input : fused.inputs) {
    std::vector<int64_t> values(input.elements);
    for (int64_t index = 0; index != input.elements; ++index)
      values[index] = 1000000 * input.operand + index;
    inputs.push_back(std::move(values));
  }
  return inputs;
}

} // namespace mbc::compiler::test
