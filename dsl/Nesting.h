#pragma once

#include <cstddef>

namespace mbc::dsl {

// Parsing, checking and evaluating a spec recurse over its tree; these bounds
// keep stack and memory small whatever the file holds (R22). Shipped specs need
// less than a tenth of them.

/// How deep operators and brackets nest: each bracket is one level, and so is
/// each operator of a chain, `a + b + c` being `(a + b) + c`.
inline constexpr size_t maxNesting = 200;

/// How deep blocks, defs and lets use one another.
inline constexpr size_t maxUses = 50;

/// Tensors on one side of a rule. Experts to stack are a few hundred.
inline constexpr size_t maxOperands = 1 << 16;
/// Slices of one side of a rule; equal expressions below them are searched for.
inline constexpr size_t maxSlices = 1 << 10;

} // namespace mbc::dsl
