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
///     X            X, X_scale (E4M3), X_scale_2 (NVFP4)
///     X            X_packed, X_scale (E4M3), X_global_scale
Tensors withValues(const Tensors &stored);

/// Codes and scales of BF16 values, by the formulas of the formats: in float32,
/// one block and one code at a time, each code by trying all.
struct Encoded {
  Tensor codes, scales, tensorScale;
};
/// F8_E4M3 and F32, in blocks of rows x columns of a matrix.
Encoded fp8Blocks(const Tensor &values, int64_t rows = 128,
                  int64_t columns = 128);
/// U8 and U8, in groups of 32 values of a row: codes [.., N / 2].
Encoded mxfp4(const Tensor &values);
/// U8, F8_E4M3 and F32, in groups of 16 values of a row, for a tensor whose
/// largest magnitude, or that of the tensors that share a scale, is `largest`.
/// By ModelOpt's formula, where the tensor scale [] multiplies, or that of
/// compressed-tensors, where it is [1] and divides.
Encoded nvfp4(const Tensor &values, float largest, bool divides = false);
float largestMagnitude(const Tensor &values);

} // namespace mbc::test
