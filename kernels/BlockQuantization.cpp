#include "kernels/BlockQuantization.h"

#include "kernels/Reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace mbc::kernels {
namespace {

constexpr uint32_t magnitudeBits = 0x7FFFFFFF, infinityBits = 0x7F800000;

template <typename Word> Word load(const std::byte *from, int64_t index) {
  Word word;
  std::memcpy(&word, from + index * static_cast<int64_t>(sizeof(Word)),
              sizeof(Word));
  return word;
}

template <typename Word> void store(std::byte *into, int64_t index, Word word) {
  std::memcpy(into + index * static_cast<int64_t>(sizeof(Word)), &word,
              sizeof(Word));
}

int64_t bytesOf(Number number) {
  return number == Number::F32                              ? 4
         : number == Number::E8M0 || number == Number::E4M3 ? 1
                                                            : 2;
}

/// Reference.h's BF16, in a form that vectorises.
float fromBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t toBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  auto rounded =
      static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  return (bits & magnitudeBits) > infinityBits ? 0x7FC0 : rounded;
}

float numberAt(Number number, const std::byte *from, int64_t index) {
  switch (number) {
  case Number::F32:
    return load<float>(from, index);
  case Number::F16:
    return decodeF16(load<uint16_t>(from, index));
  case Number::BF16:
    return fromBF16(load<uint16_t>(from, index));
  case Number::E8M0:
    return decodeE8M0(load<uint8_t>(from, index));
  case Number::E4M3:
    return decodeE4M3(load<uint8_t>(from, index));
  }
  return 0;
}

void loadRow(Number number, const std::byte *from, std::vector<float> &row) {
  auto count = static_cast<int64_t>(row.size());
  if (number == Number::F32)
    std::memcpy(row.data(), from, row.size() * sizeof(float));
  else if (number == Number::BF16)
    for (int64_t i = 0; i != count; ++i)
      row[i] = fromBF16(load<uint16_t>(from, i));
  else
    for (int64_t i = 0; i != count; ++i)
      row[i] = numberAt(number, from, i);
}

/// The largest magnitude, or NaN if there is one: as integers, magnitudes are
/// in the order of their values, and NaN comes after infinity.
uint32_t largest(const float *values, int64_t count, uint32_t most) {
  for (int64_t i = 0; i != count; ++i)
    most = std::max(most, std::bit_cast<uint32_t>(values[i]) & magnitudeBits);
  return most;
}

/// The next power of two, as an exponent plus 127, within 0 to 254.
uint8_t powerOfTwoAbove(float scale) {
  uint32_t bits = std::bit_cast<uint32_t>(scale);
  if (bits <= 0x00400000) // 2^-127, not a normal number
    return 0;
  // Between there and the first normal number the exponent is 0 as well.
  uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0);
  return static_cast<uint8_t>(std::min<uint32_t>(exponent, 254));
}

float scaleOf(Codes codes, float amax) {
  switch (codes) {
  case Codes::E4M3:
    return amax > 0 ? amax / 448 : 1;
  case Codes::E2M1:
    return amax > 0 ? amax / 6 : 1;
  case Codes::I4:
    return std::max(amax / 7, 1e-10F); // of NaN, NaN
  }
  return 1;
}

/// Nearest, halves to even. Beyond the largest number, which a quotient can
/// only come to where its scale was too small for a float, it is the largest.
uint8_t toE4M3(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 24 & 0x80, magnitude = bits & magnitudeBits;
  uint32_t bounded = std::min(magnitude, std::bit_cast<uint32_t>(448.0F));
  // Exponents have bias 127 here and 7 there, mantissas 23 bits and 3.
  uint32_t normal =
      ((bounded + 0x7FFFF + (bounded >> 20 & 1)) >> 20) - (120U << 3);
  // Below 2^-6 codes count units of 2^-9, the last place of 2^14.
  constexpr float aligned = 0x1p14F;
  uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(bounded) + aligned) -
      std::bit_cast<uint32_t>(aligned);
  uint32_t code = bounded < std::bit_cast<uint32_t>(0x1p-6F) ? small : normal;
  return static_cast<uint8_t>(sign | (magnitude > infinityBits ? 0x7F : code));
}

/// What codes are multiplied by: a scale after its tensor scale.
float applyTensorScale(const BlockFormat &format, float scale) {
  switch (format.level) {
  case TensorScale::None:
    return scale;
  case TensorScale::Multiplies:
    return scale * format.tensorScale;
  case TensorScale::Divides:
    return scale / format.tensorScale;
  }
  return scale;
}

/// The scale of a block under a tensor scale.
float scaleUnder(const BlockFormat &format, float amax) {
  if (format.level == TensorScale::Divides)
    return format.tensorScale * (amax / 6);
  if (amax == 0)
    return 1;
  // Not NaN: the tensor's largest magnitude is finite.
  return std::max(amax / (6 * format.tensorScale), 0x1p-9F);
}

/// Writes the scale, and gives what values are divided by.
float storeScaleUnder(const BlockFormat &format, float amax, std::byte *scales,
                      int64_t index) {
  constexpr uint8_t eighth = 0x20;
  uint8_t code = toE4M3(scaleUnder(format, amax));
  if (code == 0)
    code = eighth;
  store(scales, index, code);
  return applyTensorScale(format, decodeE4M3(code));
}

/// The same where there is none.
float storeScale(const BlockFormat &format, float amax, std::byte *scales,
                 int64_t index) {
  float scale = scaleOf(format.codes, amax);
  switch (format.scale) {
  case Number::F32:
    store(scales, index, scale);
    return scale;
  case Number::F16:
    store(scales, index, encodeF16(scale));
    return scale;
  case Number::BF16:
    store(scales, index, toBF16(scale));
    return scale;
  case Number::E8M0: {
    uint8_t exponent = powerOfTwoAbove(scale);
    store(scales, index, exponent);
    return decodeE8M0(exponent);
  }
  case Number::E4M3: // only under a tensor scale
    break;
  }
  return scale;
}

/// A value on a threshold takes the lower code. NaN, which E2M1 lacks, is 0.
uint8_t toE2M1(float value) {
  float magnitude = std::fabs(value);
  int code = (magnitude > 0.25F) + (magnitude > 0.75F) + (magnitude > 1.25F) +
             (magnitude > 1.75F) + (magnitude > 2.5F) + (magnitude > 3.5F) +
             (magnitude > 5.0F);
  return static_cast<uint8_t>(code | (value < 0 ? 8 : 0));
}

/// Halves go to the even code.
uint8_t toE2M1Even(float value) {
  float magnitude = std::fabs(value);
  int code = (magnitude > 0.25F) + (magnitude >= 0.75F) + (magnitude > 1.25F) +
             (magnitude >= 1.75F) + (magnitude > 2.5F) + (magnitude >= 3.5F) +
             (magnitude > 5.0F);
  return static_cast<uint8_t>(code | (value < 0 ? 8 : 0));
}

uint8_t toI4(float value) {
  // NaN is neither below nor above, and its code is that of 0.
  float bounded = value > 7 ? 7.0F : value < -8 ? -8.0F : value;
  return static_cast<uint8_t>(
      (bounded == bounded ? static_cast<int>(std::nearbyint(bounded)) : 0) + 8);
}

/// The codes of a run of values under one scale, a byte each.
void encodeRun(const BlockFormat &format, const float *values, int64_t count,
               float scale, uint8_t *into) {
  if (format.level != TensorScale::None) {
    for (int64_t i = 0; i != count; ++i)
      into[i] = toE2M1Even(values[i] / scale);
    return;
  }
  switch (format.codes) {
  case Codes::E4M3:
    for (int64_t i = 0; i != count; ++i)
      into[i] = toE4M3(values[i] / scale);
    return;
  case Codes::E2M1:
    for (int64_t i = 0; i != count; ++i)
      into[i] = toE2M1(values[i] / scale);
    return;
  case Codes::I4:
    for (int64_t i = 0; i != count; ++i)
      into[i] = toI4(values[i] / scale);
    return;
  }
}

int64_t codeBytes(const BlockFormat &format) {
  return format.codes == Codes::E4M3 ? format.columns : format.columns / 2;
}

void storeCodes(const BlockFormat &format, const std::vector<uint8_t> &row,
                std::byte *into) {
  if (format.codes == Codes::E4M3) {
    std::memcpy(into, row.data(), row.size());
    return;
  }
  for (int64_t i = 0; i != format.columns / 2; ++i)
    into[i] = static_cast<std::byte>(row[2 * i] | row[2 * i + 1] << 4);
}

using CodeValues = std::array<float, 256>;

CodeValues makeCodeValues(Codes codes) {
  CodeValues values{};
  for (int code = 0; code != 256; ++code)
    values[code] = codes == Codes::E4M3   ? decodeE4M3(code)
                   : codes == Codes::E2M1 ? decodeE2M1(code & 15)
                                          : decodeI4(code & 15);
  return values;
}

/// What each code stands for; made once, since a stripe may be one row.
const CodeValues &codeValues(Codes codes) {
  static const std::array<CodeValues, 3> values = {makeCodeValues(Codes::E4M3),
                                                   makeCodeValues(Codes::E2M1),
                                                   makeCodeValues(Codes::I4)};
  return values[static_cast<size_t>(codes)];
}

/// The code values of a row, not yet scaled.
void loadCodes(const BlockFormat &format, const CodeValues &values,
               const std::byte *from, std::vector<float> &row) {
  if (format.codes == Codes::E4M3) {
    for (int64_t i = 0; i != format.columns; ++i)
      row[i] = values[std::to_integer<uint8_t>(from[i])];
    return;
  }
  for (int64_t i = 0; i != format.columns / 2; ++i) {
    row[2 * i] = values[std::to_integer<uint8_t>(from[i]) & 15];
    row[2 * i + 1] = values[std::to_integer<uint8_t>(from[i]) >> 4];
  }
}

/// Whether a row, rounded to the format, is `values` to the bit.
bool roundsTo(Number number, const std::vector<float> &row,
              const std::byte *values) {
  auto count = static_cast<int64_t>(row.size());
  uint32_t differing = 0;
  if (number == Number::BF16)
    for (int64_t i = 0; i != count; ++i)
      differing |= toBF16(row[i]) ^ load<uint16_t>(values, i);
  else if (number == Number::F16)
    for (int64_t i = 0; i != count; ++i)
      differing |= encodeF16(row[i]) ^ load<uint16_t>(values, i);
  else
    for (int64_t i = 0; i != count; ++i) {
      float value = load<float>(values, i);
      bool bothNaN = row[i] != row[i] && value != value;
      differing |= bothNaN ? 0
                           : std::bit_cast<uint32_t>(row[i]) ^
                                 std::bit_cast<uint32_t>(value);
    }
  return differing == 0;
}

/// Calls `visit(block, first column, columns)` for the blocks of a row.
template <typename Visit>
void forEachBlock(const BlockFormat &format, Visit visit) {
  for (int64_t block = 0; block != format.scaleColumns(); ++block) {
    int64_t first = block * format.blockColumns;
    visit(block, first, std::min(format.blockColumns, format.columns - first));
  }
}

/// The buffers of one call.
class Quantizer {
public:
  explicit Quantizer(const BlockFormat &format)
      : format_(format), row_(format.columns), codes_(format.columns),
        amax_(format.scaleColumns()), scales_(format.scaleColumns()) {}

  /// Rows that share blocks: a stripe.
  void stripe(int64_t rows, const std::byte *values, std::byte *codes,
              std::byte *scales);

private:
  const BlockFormat &format_;
  std::vector<float> row_;
  std::vector<uint8_t> codes_;
  std::vector<uint32_t> amax_; ///< bits of magnitudes, by block
  std::vector<float> scales_;
};

void Quantizer::stripe(int64_t rows, const std::byte *values, std::byte *codes,
                       std::byte *scales) {
  int64_t rowBytes = format_.columns * bytesOf(format_.value);
  std::fill(amax_.begin(), amax_.end(), 0);
  for (int64_t row = 0; row != rows; ++row) {
    loadRow(format_.value, values + row * rowBytes, row_);
    forEachBlock(format_, [&](int64_t block, int64_t first, int64_t count) {
      amax_[block] = largest(row_.data() + first, count, amax_[block]);
    });
  }
  for (size_t block = 0; block != amax_.size(); ++block)
    scales_[block] =
        (format_.level == TensorScale::None ? storeScale : storeScaleUnder)(
            format_, std::bit_cast<float>(amax_[block]), scales,
            static_cast<int64_t>(block));
  for (int64_t row = 0; row != rows; ++row) {
    loadRow(format_.value, values + row * rowBytes, row_);
    forEachBlock(format_, [&](int64_t block, int64_t first, int64_t count) {
      encodeRun(format_, row_.data() + first, count, scales_[block],
                codes_.data() + first);
    });
    storeCodes(format_, codes_, codes + row * codeBytes(format_));
  }
}

} // namespace

void quantize(const BlockFormat &format, int64_t rows, const std::byte *values,
              std::byte *codes, std::byte *scales) {
  Quantizer quantizer(format);
  int64_t scaleBytes = format.scaleColumns() * bytesOf(format.scale);
  for (int64_t row = 0; row < rows; row += format.blockRows) {
    quantizer.stripe(std::min(format.blockRows, rows - row),
                     values + row * format.columns * bytesOf(format.value),
                     codes + row * codeBytes(format),
                     scales + row / format.blockRows * scaleBytes);
  }
}

float largestMagnitude(const BlockFormat &format, int64_t rows,
                       const std::byte *values) {
  std::vector<float> row(format.columns);
  uint32_t most = 0;
  for (int64_t i = 0; i != rows; ++i) {
    loadRow(format.value, values + i * format.columns * bytesOf(format.value),
            row);
    most = largest(row.data(), format.columns, most);
  }
  return std::bit_cast<float>(most);
}

float tensorScaleFor(TensorScale level, float amax) {
  constexpr float largestValue = 6 * 448;
  if (level == TensorScale::Multiplies)
    return amax / largestValue;
  return amax > 0
             ? std::min(largestValue / amax, std::numeric_limits<float>::max())
             : 1;
}

bool standFor(const BlockFormat &format, int64_t rows, const std::byte *codes,
              const std::byte *scales, const std::byte *values) {
  const CodeValues &table = codeValues(format.codes);
  std::vector<float> decoded(format.columns);
  for (int64_t row = 0; row != rows; ++row) {
    loadCodes(format, table, codes + row * codeBytes(format), decoded);
    int64_t firstScale = row / format.blockRows * format.scaleColumns();
    forEachBlock(format, [&](int64_t block, int64_t first, int64_t count) {
      float scale = applyTensorScale(
          format, numberAt(format.scale, scales, firstScale + block));
      for (int64_t i = first; i != first + count; ++i)
        decoded[i] *= scale;
    });
    if (!roundsTo(format.value, decoded,
                  values + row * format.columns * bytesOf(format.value)))
      return false;
  }
  return true;
}

} // namespace mbc::kernels
