#pragma once

#include <span>
#include <string>
#include <vector>

namespace mbc::compiler {

/// Names that differ only in their numbers, written as one:
/// "model.layers.{24..27}.mlp.up_proj.weight (4 tensors)".
struct NameGroup {
  std::string names; ///< without the number of tensors
  std::string text;
  size_t first = 0; ///< index of the first name of the group
  size_t count = 0;
};

/// Groups names over layers and experts, in the order of their first names.
std::vector<NameGroup> groupNames(std::span<const std::string> names);

} // namespace mbc::compiler
