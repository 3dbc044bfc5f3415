#pragma once

#include "runtime/Checkpoint.h"

#include <string_view>
#include <unordered_map>
#include <vector>

namespace mbc::compiler {

/// Tensors of a checkpoint by name. Per-rank checkpoints hold one name several
/// times; those follow each other through `next`.
class TensorsByName {
public:
  static constexpr uint32_t none = UINT32_MAX;
  explicit TensorsByName(const Checkpoint &checkpoint);
  uint32_t find(std::string_view name) const;
  uint32_t next(uint32_t tensor) const { return next_[tensor]; }

private:
  std::unordered_map<std::string_view, uint32_t> first_;
  std::vector<uint32_t> next_;
};

} // namespace mbc::compiler
