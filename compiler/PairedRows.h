#pragma once

#include "compiler/RuleClass.h"

/// NVFP4 of stacked experts [.., in, out] as ModelOpt writes it: 16 values of a
/// column have a scale, and a byte has the codes of two rows, one column. So
/// the codes lie as [.., in / 2, out, 2], a matrix with 2 * out columns, whose
/// blocks are 8 x 2. No other tensor has such blocks.
namespace mbc::compiler {

inline bool pairsRows(const BlockScale &scale) {
  return scale.blockRows == 8 && scale.blockColumns == 2;
}

/// Columns of the matrix that codes are.
inline int64_t codeColumns(const Shape &values, const BlockScale &scale) {
  return values[values.rank() - 1] * (pairsRows(scale) ? 2 : 1);
}

} // namespace mbc::compiler
