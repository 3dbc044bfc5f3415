#pragma once

#include "dsl/Ast.h"
#include "dsl/Model.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace mbc::dsl {

/// One side of a rule, as it is evaluated: the names, and the operations as a
/// flat postorder of numbers. Two uses of a rule with equal numbers share a
/// mapping, so most uses build no tree at all.
struct RuleSide {
  std::vector<int64_t> code;
  std::vector<std::string> names;
  size_t optional = 0; ///< names marked `?`
  size_t slices = 0;     ///< so far
  size_t openSlices = 0; ///< around: several of them may read one tensor

  void clear() {
    code.clear();
    names.clear();
    optional = slices = openSlices = 0;
  }

  // An entry of `code` is: kind, place, extent flag, extent, dim (of a tensor:
  // its place in `names`), rest, bits of the value, number of children, number
  // of ints, the ints.
  void emit(OpKind kind, const SourceRange &where,
            std::optional<int64_t> extent, int64_t dim, bool rest, double value,
            size_t children, std::span<const int64_t> ints);
};

/// The tree that `code` describes.
std::vector<Node> decodeSide(std::span<const int64_t> code);

/// Finds the mapping of a rule with the same numbers on both sides.
class MappingTable {
public:
  /// The index of an equal mapping that was added before.
  std::optional<uint32_t> find(std::span<const int64_t> key);
  /// Adds the key that was looked up last.
  void add(std::span<const int64_t> key, uint32_t mapping);

private:
  struct Entry {
    std::vector<int64_t> key;
    uint32_t mapping;
  };
  std::unordered_multimap<uint64_t, Entry> entries;
  uint64_t lastHash = 0;
};

} // namespace mbc::dsl
