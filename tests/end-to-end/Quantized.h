#pragma once

#include "tests/end-to-end/Tensors.h"

namespace mbc::test {

/// The tensors of a checkpoint with values, in BF16, in place of each pair of
/// codes and scales, by the formulas of the formats, in float32, rounded to
/// nearest even. Names:
///
///     X            X, X_scale_inv or X_scale or (X is S.weight) S.scale
///     X            X_packed, X_scale and perhaps X_shape
///     X            X_blocks [.., G, 16], X_scales [.., G]
Tensors withValues(const Tensors &stored);

} // namespace mbc::test
