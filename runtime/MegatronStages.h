#pragma once

#include "runtime/Checkpoint.h"

#include <optional>

namespace mbc {

/// Which pipeline stages hold a parameter.
class StageMap {
public:
  /// The stages of `whole` over `pp` stages.
  static Result<StageMap> make(const Checkpoint &whole, int64_t pp);

  bool holds(int64_t stage, std::string_view name) const;
  /// Whether the last stage needs a copy of the embedding as its output layer.
  bool copiesOutputLayer() const { return tied_ && pp_ > 1; }
  std::string_view embedding() const { return embedding_; }

private:
  int64_t pp_ = 1;
  std::vector<int64_t> first_; ///< layer of each stage, and the end
  bool mtp_ = false, tied_ = false;
  std::string embedding_;
};

} // namespace mbc
