#include "dsl/MappingTable.h"

#include <algorithm>
#include <bit>

namespace mbc::dsl {

void RuleSide::emit(OpKind kind, const SourceRange &where,
                    std::optional<int64_t> extent, int64_t dim, bool rest,
                    double value, size_t children,
                    std::span<const int64_t> ints) {
  code.insert(code.end(),
              {static_cast<int64_t>(kind), std::bit_cast<int64_t>(&where),
               extent.has_value(), extent.value_or(0), dim, rest,
               std::bit_cast<int64_t>(value), static_cast<int64_t>(children),
               static_cast<int64_t>(ints.size())});
  code.insert(code.end(), ints.begin(), ints.end());
}

std::vector<Node> decodeSide(std::span<const int64_t> code) {
  constexpr size_t head = 9;
  std::vector<Node> nodes;
  std::vector<uint32_t> open; // nodes without a parent yet
  for (size_t at = 0; at != code.size();) {
    Node node;
    node.kind = static_cast<OpKind>(code[at]);
    node.where = *std::bit_cast<const SourceRange *>(code[at + 1]);
    if (code[at + 2])
      node.extent = code[at + 3];
    if (node.kind == OpKind::Tensor)
      node.operand = static_cast<uint32_t>(code[at + 4]);
    else
      node.dim = code[at + 4];
    node.rest = code[at + 5] != 0;
    node.value = std::bit_cast<double>(code[at + 6]);
    auto children = static_cast<std::ptrdiff_t>(code[at + 7]);
    auto ints = static_cast<size_t>(code[at + 8]);
    node.children.assign(open.end() - children, open.end());
    open.resize(open.size() - static_cast<size_t>(children));
    node.ints.assign(code.begin() + static_cast<std::ptrdiff_t>(at + head),
                     code.begin() +
                         static_cast<std::ptrdiff_t>(at + head + ints));
    open.push_back(static_cast<uint32_t>(nodes.size()));
    nodes.push_back(std::move(node));
    at += head + ints;
  }
  return nodes;
}

std::optional<uint32_t> MappingTable::find(std::span<const int64_t> key) {
  lastHash = 0x9E3779B97F4A7C15;
  for (int64_t number : key) {
    lastHash = (lastHash ^ static_cast<uint64_t>(number)) * 0xFF51AFD7ED558CCD;
    lastHash ^= lastHash >> 32;
  }
  auto [first, last] = entries.equal_range(lastHash);
  for (auto entry = first; entry != last; ++entry)
    if (std::equal(key.begin(), key.end(), entry->second.key.begin(),
                   entry->second.key.end()))
      return entry->second.mapping;
  return std::nullopt;
}

void MappingTable::add(std::span<const int64_t> key, uint32_t mapping) {
  entries.emplace(lastHash, Entry{{key.begin(), key.end()}, mapping});
}

} // namespace mbc::dsl
