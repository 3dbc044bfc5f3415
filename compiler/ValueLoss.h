#pragma once

#include "compiler/RuleClass.h"

#include <string>
#include <vector>

namespace mbc::compiler {

/// What arithmetic does to the values of one Hugging Face tensor of a rule.
struct ConstantLoss {
  DType dtype = DType::BF16;         ///< of the tensor; 16 bits
  int64_t finite = 0;                ///< finite values of that dtype
  int64_t lost = 0;                  ///< those that export after import changes
  uint16_t example = 0, becomes = 0; ///< bits of the largest of them
};

/// The tensors of a rule with `add` or `scale` whose values do not all come
/// back, found by trying every value. Tensors of more than 16 bits are left
/// out: `roundsUnseen` says that there is one.
std::vector<ConstantLoss> constantLosses(const RuleClass &rule);
bool roundsUnseen(const RuleClass &rule);

std::string toString(const ConstantLoss &loss);

/// Why values of a class may not come back bit by bit, one reason a line of
/// `mbc check --proof`; empty if every value does.
std::vector<std::string> valueLosses(const RuleClass &rule);

} // namespace mbc::compiler
