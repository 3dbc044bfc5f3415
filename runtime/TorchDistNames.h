#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mbc {

/// A torch_dist key taken apart: the inverse of `torchDistKey`.
struct KeyForm {
  std::string name;        ///< parameter's name; the layer's place is marked
  std::string section;     ///< "query" of `in_proj.weight.query`, else empty
  bool layerAxis = false;  ///< the first leading axis counts layers
  bool expertAxis = false; ///< the next one counts experts

  /// The name with the numbers of the leading axes.
  std::string numbered(int64_t layer, int64_t expert) const;
};
KeyForm parseTorchDistKey(std::string_view key);

/// Place of a section (KeyForm::section) among those of its parameter: their
/// rows join in ascending order of it. Nothing for a section that is not
/// known, whose place can only be guessed.
std::optional<size_t> sectionRank(std::string_view section);

} // namespace mbc
