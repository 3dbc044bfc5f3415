#pragma once

#include "compiler/Map/MapOps.h"

namespace mbc::compiler {

/// Erases the operations of a rule whose results nothing uses.
inline void eraseDead(map::RuleOp rule) {
  for (mlir::Operation &op :
       llvm::make_early_inc_range(llvm::reverse(rule.getBody().front())))
    if (op.getNumResults() != 0 && op.use_empty())
      op.erase();
}

} // namespace mbc::compiler
