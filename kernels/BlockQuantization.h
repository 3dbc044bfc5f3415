#pragma once

#include <cstddef>
#include <cstdint>

/// Weights as codes and scales, whole stripes of blocks at a time. Value =
/// code * scale, in float32. Pure; any number of threads.
namespace mbc::kernels {

/// E4M3: a byte each. E2M1 and I4 (-8 to 7, stored plus 8): two in a byte, the
/// first in its low half.
enum class Codes : uint8_t { E4M3, E2M1, I4 };
enum class Number : uint8_t { F32, F16, BF16, E8M0, E4M3 };
/// One number for the whole tensor that multiplies or divides its scales.
enum class TensorScale : uint8_t { None, Multiplies, Divides };

/// A row-major matrix in blocks of blockRows x blockColumns, those at its right
/// and lower edge cut off; scales are the row-major matrix of one a block.
struct BlockFormat {
  Codes codes = Codes::E4M3;
  Number scale = Number::F32;
  Number value = Number::BF16; ///< F32, F16 or BF16
  int64_t columns = 0; ///< of packed codes, a multiple of what a byte holds
  int64_t blockRows = 128, blockColumns = 128;
  TensorScale level = TensorScale::None;
  float tensorScale = 1; ///< where there is one; scales are E4M3, codes E2M1

  int64_t scaleColumns() const {
    return columns / blockColumns + (columns % blockColumns != 0);
  }
};

/// Codes and scales of `rows` rows, the first of which begins a block. With
/// amax the largest magnitude of a block, a scale s is
///
///     E4M3  amax / 448      E2M1  amax / 6      (1 for a block of zeros)
///     I4    amax / 7, at least 1e-10
///
/// of scales in E8M0 the next power of two from 2^-127 to 2^127, and a code
/// what is nearest to value / s. Halves go to the even code; of E2M1, to the
/// smaller magnitude. F16 and BF16 round s when it is stored, after that.
///
/// With a tensor scale t, s is the nearest E4M3 (halves to even) to
///
///     Multiplies  amax / (6 * t), from 2^-9 to 448   (1 for a block of zeros)
///     Divides     t * (amax / 6), up to 448          (1/8 where that gives 0)
///
/// and a code what is nearest to value / (s * t), or value / (s / t). Halves go
/// to the even code.
void quantize(const BlockFormat &format, int64_t rows, const std::byte *values,
              std::byte *codes, std::byte *scales);

/// The largest magnitude of `rows` rows; infinite or NaN if one of the values
/// is.
float largestMagnitude(const BlockFormat &format, int64_t rows,
                       const std::byte *values);

/// The tensor scale of values of this largest magnitude: amax / 2688 where it
/// multiplies, 2688 / amax where it divides (1 if amax is 0). 2688 is the
/// product of the largest code and the largest scale.
float tensorScaleFor(TensorScale level, float amax);

/// Whether codes and scales stand for exactly these values: their products,
/// rounded to the values' format, are the same bits (or both NaN).
bool standFor(const BlockFormat &format, int64_t rows, const std::byte *codes,
              const std::byte *scales, const std::byte *values);

} // namespace mbc::kernels
