#include "compiler/ValueLoss.h"

#include "kernels/Reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace mbc::compiler {
namespace {

/// `add` and `scale` between a tensor and the root of its side.
using Chain = std::vector<const dsl::Node *>;

bool isArithmetic(const dsl::Node &node) {
  return node.kind == dsl::OpKind::Add || node.kind == dsl::OpKind::Scale;
}

/// The chain of each tensor of a side, from the tensor to the root, in the
/// order of the operands.
std::vector<Chain> chains(const std::vector<dsl::Node> &side) {
  std::vector<Chain> result;
  std::vector<uint32_t> parent(side.size(), UINT32_MAX);
  for (uint32_t at = 0; at != side.size(); ++at)
    for (uint32_t child : side[at].children)
      parent[child] = at;
  for (uint32_t at = 0; at != side.size(); ++at) {
    if (side[at].kind != dsl::OpKind::Tensor)
      continue;
    Chain chain;
    for (uint32_t up = at; up != UINT32_MAX; up = parent[up])
      if (isArithmetic(side[up]))
        chain.push_back(&side[up]);
    result.resize(std::max<size_t>(result.size(), side[at].operand + 1));
    result[side[at].operand] = std::move(chain);
  }
  return result;
}

bool hasArithmetic(const dsl::Mapping &mapping) {
  return std::ranges::any_of(mapping.hf, isArithmetic) ||
         std::ranges::any_of(mapping.megatron, isArithmetic);
}

bool isHalf(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

float decode(DType dtype, uint16_t bits) {
  return dtype == DType::BF16 ? kernels::decodeBF16(bits)
                              : kernels::decodeF16(bits);
}
uint16_t encode(DType dtype, float value) {
  return dtype == DType::BF16 ? kernels::encodeBF16(value)
                              : kernels::encodeF16(value);
}
/// As a tensor of this dtype holds it; wider ones hold every float.
float stored(DType dtype, float value) {
  return isHalf(dtype) ? decode(dtype, encode(dtype, value)) : value;
}

float forwards(const Chain &chain, float value) {
  for (const dsl::Node *node : chain) {
    auto constant = static_cast<float>(node->value);
    value =
        node->kind == dsl::OpKind::Add ? value + constant : value * constant;
  }
  return value;
}
float backwards(const Chain &chain, float value) {
  for (auto node = chain.rbegin(); node != chain.rend(); ++node) {
    auto constant = static_cast<float>((*node)->value);
    value = (*node)->kind == dsl::OpKind::Add ? value - constant
                                              : value * (1 / constant);
  }
  return value;
}

/// Every value of `dtype` by way of a Megatron tensor of dtype `middle`.
ConstantLoss tryAll(DType dtype, DType middle, const Chain &hf,
                    const Chain &megatron) {
  ConstantLoss loss{.dtype = dtype};
  float largest = -1;
  for (uint32_t bits = 0; bits != 1 << 16; ++bits) {
    float value = decode(dtype, static_cast<uint16_t>(bits));
    if (!std::isfinite(value))
      continue;
    ++loss.finite;
    float there = stored(middle, backwards(megatron, forwards(hf, value)));
    uint16_t back = encode(dtype, backwards(hf, forwards(megatron, there)));
    if (back == bits)
      continue;
    ++loss.lost;
    if (std::fabs(value) > largest) {
      largest = std::fabs(value);
      loss.example = static_cast<uint16_t>(bits);
      loss.becomes = back;
    }
  }
  return loss;
}

} // namespace

std::vector<ConstantLoss> constantLosses(const RuleClass &rule) {
  std::vector<ConstantLoss> losses;
  if (!rule.mapping || !hasArithmetic(*rule.mapping) || rule.megatron.empty())
    return losses;
  std::vector<Chain> megatron = chains(rule.mapping->megatron);
  std::vector<Chain> hf = chains(rule.mapping->hf);
  for (size_t k = 0; k != std::min(hf.size(), rule.hf.size()); ++k) {
    // Arithmetic above a concat on the left would differ by piece: no rule has
    // it, and the first piece stands for all.
    const Chain &left = megatron.empty() ? Chain() : megatron.front();
    if (!isHalf(rule.hf[k].dtype) || (hf[k].empty() && left.empty()))
      continue;
    ConstantLoss loss =
        tryAll(rule.hf[k].dtype, rule.megatron.front().dtype, hf[k], left);
    if (loss.lost != 0)
      losses.push_back(loss);
  }
  return losses;
}

bool roundsUnseen(const RuleClass &rule) {
  return rule.mapping && hasArithmetic(*rule.mapping) &&
         std::ranges::any_of(rule.hf, [](const OperandType &operand) {
           return !isHalf(operand.dtype);
         });
}

std::string toString(const ConstantLoss &loss) {
  return fmt::format(
      "{} of the {} finite {} values do not come back after the sum is rounded "
      "to the tensor's dtype, none larger than {:.9g}: 0x{:04X} becomes "
      "0x{:04X}",
      loss.lost, loss.finite, safetensorsName(loss.dtype),
      std::fabs(decode(loss.dtype, loss.example)), loss.example, loss.becomes);
}

std::vector<std::string> valueLosses(const RuleClass &rule) {
  std::vector<std::string> losses;
  for (const ConstantLoss &loss : constantLosses(rule))
    losses.push_back(toString(loss));
  if (roundsUnseen(rule))
    losses.push_back(
        "the constant rounds in float32: the last bits of a value may change");
  for (const OperandType &hf : rule.hf) {
    DType megatron = rule.megatron.front().dtype;
    if (hf.scale)
      losses.push_back(fmt::format("{} times its block's scale is rounded to "
                                   "{} once; neither codes nor scales return",
                                   safetensorsName(hf.dtype),
                                   safetensorsName(megatron)));
    else if (byteSize(hf.dtype) > byteSize(megatron))
      losses.push_back(fmt::format(
          "{} narrows to {}{}", safetensorsName(hf.dtype),
          safetensorsName(megatron),
          rule.exactCasts ? ": a value that does not fit is refused"
                          : ", as --dtype asks"));
  }
  std::ranges::sort(losses);
  losses.erase(std::ranges::unique(losses).begin(), losses.end());
  return losses;
}

} // namespace mbc::compiler
