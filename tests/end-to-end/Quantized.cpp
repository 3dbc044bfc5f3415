#include "tests/end-to-end/Quantized.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace mbc::test {
namespace {

uint8_t byteAt(const Tensor &tensor, int64_t at) {
  return std::to_integer<uint8_t>(tensor.bytes[static_cast<size_t>(at)]);
}

/// Sign, 4 exponent bits with bias 7, 3 mantissa bits; all ones are NaN.
float fromE4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7F) == 0x7F)
    return std::numeric_limits<float>::quiet_NaN();
  const float value = exponent == 0
                          ? std::ldexp(float(mantissa), -9)
                          : std::ldexp(8.0F + mantissa, exponent - 10);
  return code >> 7 ? -value : value;
}

float fromE2m1(int nibble) {
  constexpr std::array magnitudes = {0.0F, 0.5F, 1.0F, 1.5F,
                                     2.0F, 3.0F, 4.0F, 6.0F};
  return nibble & 8 ? -magnitudes[nibble & 7] : magnitudes[nibble & 7];
}

/// Half `at` of the packed bytes, the low one first.
int nibbleAt(const Tensor &tensor, int64_t at) {
  return byteAt(tensor, at / 2) >> (at % 2 * 4) & 15;
}

float codeAt(const Tensor &codes, int64_t at) {
  if (codes.dtype == "F8_E4M3")
    return fromE4m3(byteAt(codes, at));
  return codes.dtype == "I32" ? nibbleAt(codes, at) - 8
                              : fromE2m1(nibbleAt(codes, at));
}

float scaleAt(const Tensor &scales, int64_t at) {
  if (scales.dtype == "U8" || scales.dtype == "F8_E8M0")
    return std::ldexp(1.0F, byteAt(scales, at) - 127);
  if (scales.dtype == "F8_E4M3")
    return fromE4m3(byteAt(scales, at));
  uint32_t bits = 0;
  if (scales.dtype == "F32") {
    std::memcpy(&bits, scales.bytes.data() + 4 * at, 4);
  } else { // BF16
    uint16_t half = 0;
    std::memcpy(&half, scales.bytes.data() + 2 * at, 2);
    bits = uint32_t(half) << 16;
  }
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint16_t toBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value))
    return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

int64_t elementsOf(const Extents &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

/// Where the scale of element (row, column) of [rows, columns] values stands:
/// one for all, one a row, one for a group of a row, or one for a block.
int64_t scaleIndex(const Tensor &scales, int64_t row, int64_t column,
                   int64_t rows, int64_t columns) {
  const int64_t count = elementsOf(scales.shape);
  if (count == 1)
    return 0;
  const int64_t groups = scales.shape.size() > 1 ? scales.shape.back() : 1;
  if (count == rows * groups)
    return row * groups + column / (columns / groups);
  return row / 128 * scales.shape.back() + column / 128;
}

/// A scale under the tensor scale of NVFP4, if there is one.
struct SecondLevel {
  std::optional<float> multiplier, divisor;

  float of(float scale) const {
    return multiplier ? scale * *multiplier
           : divisor  ? scale / *divisor
                      : scale;
  }
};

Tensor valuesOf(const Tensor &codes, const Tensor &scales,
                const SecondLevel &second, Extents shape) {
  const int64_t columns = shape.back(), rows = elementsOf(shape) / columns;
  Tensor result{"BF16", std::move(shape), {}};
  result.bytes.resize(static_cast<size_t>(rows * columns * 2));
  for (int64_t i = 0; i != rows; ++i)
    for (int64_t j = 0; j != columns; ++j) {
      const uint16_t value = toBf16(
          codeAt(codes, i * columns + j) *
          second.of(scaleAt(scales, scaleIndex(scales, i, j, rows, columns))));
      std::memcpy(result.bytes.data() + 2 * (i * columns + j), &value, 2);
    }
  return result;
}

std::optional<std::string> withoutEnd(const std::string &name,
                                      const std::string &end) {
  if (!name.ends_with(end))
    return std::nullopt;
  return name.substr(0, name.size() - end.size());
}

/// Replaces the codes of these scales, if `scaleName` names such.
void replace(Tensors &tensors, const std::string &scaleName) {
  auto put = [&](const std::string &values, const std::string &codes,
                 Extents shape) {
    SecondLevel second;
    if (auto one = tensors.find(values + "_scale_2"); one != tensors.end())
      second.multiplier = scaleAt(one->second, 0);
    if (auto one = tensors.find(values + "_global_scale"); one != tensors.end())
      second.divisor = scaleAt(one->second, 0);
    Tensor made =
        valuesOf(tensors.at(codes), tensors.at(scaleName), second, shape);
    tensors.erase(codes);
    tensors.erase(values + "_scale_2");
    tensors.erase(values + "_global_scale");
    tensors.erase(scaleName);
    tensors.erase(values + "_shape");
    tensors[values] = std::move(made);
  };
  if (auto x = withoutEnd(scaleName, "_scales");
      x && tensors.contains(*x + "_blocks")) {
    Extents shape = tensors.at(*x + "_blocks").shape;
    shape.pop_back();
    shape.back() *= 32;
    return put(*x, *x + "_blocks", shape);
  }
  auto x = withoutEnd(scaleName, "_scale_inv");
  if (!x)
    x = withoutEnd(scaleName, "_scale");
  if (auto stem = withoutEnd(scaleName, ".scale"))
    x = *stem + ".weight";
  if (!x)
    return;
  const bool packed = tensors.contains(*x + "_packed");
  const std::string codes = packed ? *x + "_packed" : *x;
  if (!tensors.contains(codes))
    return;
  const Tensor &stored = tensors.at(codes);
  Extents shape = stored.shape;
  if (stored.dtype == "I32")
    shape.back() *= 8;
  else if (stored.dtype == "U8" || stored.dtype == "I8")
    shape.back() *= 2;
  else if (stored.dtype != "F8_E4M3")
    return;
  put(*x, codes, shape);
}

float bf16At(const Tensor &values, int64_t at) {
  uint16_t half = 0;
  std::memcpy(&half, values.bytes.data() + 2 * at, 2);
  const uint32_t bits = uint32_t(half) << 16;
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// The magnitude's code whose number is nearest. Halfway the even code is
/// taken (E4M3), or the lower (E2M1).
template <typename Number>
uint8_t nearestCode(double magnitude, int last, Number number, bool even) {
  int best = 0;
  for (int code = 1; code <= last; ++code) {
    const double here = std::abs(number(code) - magnitude),
                 there = std::abs(number(best) - magnitude);
    if (here < there || (here == there && even && code % 2 == 0))
      best = code;
  }
  return static_cast<uint8_t>(best);
}

/// Calls `visit(elements)` for the blocks of a matrix, in row-major order.
template <typename Visit>
void forEachBlock(int64_t rows, int64_t columns, int64_t blockRows,
                  int64_t blockColumns, Visit visit) {
  for (int64_t top = 0; top < rows; top += blockRows)
    for (int64_t left = 0; left < columns; left += blockColumns) {
      std::vector<int64_t> elements;
      for (int64_t i = top; i < std::min(rows, top + blockRows); ++i)
        for (int64_t j = left; j < std::min(columns, left + blockColumns); ++j)
          elements.push_back(i * columns + j);
      visit(elements);
    }
}

float largestOf(const Tensor &values, const std::vector<int64_t> &elements) {
  float largest = 0;
  for (int64_t at : elements)
    largest = std::max(largest, std::abs(bf16At(values, at)));
  return largest;
}

} // namespace

Encoded fp8Blocks(const Tensor &values, int64_t blockRows,
                  int64_t blockColumns) {
  const int64_t rows = values.shape[0], columns = values.shape[1];
  Encoded made;
  made.codes = {"F8_E4M3", values.shape, {}};
  made.codes.bytes.resize(static_cast<size_t>(rows * columns));
  made.scales = {"F32",
                 {(rows + blockRows - 1) / blockRows,
                  (columns + blockColumns - 1) / blockColumns},
                 {}};
  forEachBlock(rows, columns, blockRows, blockColumns, [&](const auto &block) {
    const float largest = largestOf(values, block);
    const float scale = largest > 0 ? largest / 448.0F : 1.0F;
    const auto *bytes = reinterpret_cast<const std::byte *>(&scale);
    made.scales.bytes.insert(made.scales.bytes.end(), bytes, bytes + 4);
    for (int64_t at : block) {
      const float quotient = bf16At(values, at) / scale;
      const uint8_t code = nearestCode(
          std::abs(quotient), 0x7E, [](int c) { return fromE4m3(c); }, true);
      made.codes.bytes[at] =
          static_cast<std::byte>(code | (std::signbit(quotient) ? 0x80 : 0));
    }
  });
  return made;
}

Encoded mxfp4(const Tensor &values) {
  const int64_t columns = values.shape.back(),
                rows = elementsOf(values.shape) / columns;
  Encoded made;
  made.codes = {"U8", values.shape, {}};
  made.codes.shape.back() /= 2;
  made.codes.bytes.resize(static_cast<size_t>(rows * columns / 2));
  made.scales = {"U8", values.shape, {}};
  made.scales.shape.back() /= 32;
  forEachBlock(rows, columns, 1, 32, [&](const auto &group) {
    const float largest = largestOf(values, group);
    const float least = largest > 0 ? largest / 6.0F : 1.0F;
    int exponent = -127;
    while (exponent < 127 && std::ldexp(1.0F, exponent) < least)
      ++exponent;
    made.scales.bytes.push_back(static_cast<std::byte>(exponent + 127));
    for (int64_t at : group) {
      const float quotient = bf16At(values, at) / std::ldexp(1.0F, exponent);
      const int code = nearestCode(std::abs(quotient), 7, fromE2m1, false) |
                       (quotient < 0 ? 8 : 0);
      made.codes.bytes[at / 2] |= static_cast<std::byte>(code << at % 2 * 4);
    }
  });
  return made;
}

float largestMagnitude(const Tensor &values) {
  float largest = 0;
  for (int64_t at = 0; at != elementsOf(values.shape); ++at)
    largest = std::max(largest, std::abs(bf16At(values, at)));
  return largest;
}

Encoded nvfp4(const Tensor &values, float largest, bool divides) {
  const int64_t columns = values.shape.back(),
                rows = elementsOf(values.shape) / columns;
  Encoded made;
  made.codes = {"U8", values.shape, {}};
  made.codes.shape.back() /= 2;
  made.codes.bytes.resize(static_cast<size_t>(rows * columns / 2));
  made.scales = {"F8_E4M3", values.shape, {}};
  made.scales.shape.back() /= 16;
  const float one = divides ? 2688.0F / largest : largest / 2688.0F;
  made.tensorScale = {"F32", divides ? Extents{1} : Extents{}, {}};
  const auto *bytes = reinterpret_cast<const std::byte *>(&one);
  made.tensorScale.bytes.assign(bytes, bytes + 4);
  forEachBlock(rows, columns, 1, 16, [&](const auto &group) {
    const float most = largestOf(values, group);
    float scale = divides     ? one * (most / 6.0F)
                  : most == 0 ? 1.0F
                              : std::max(most / (6.0F * one), 0.001953125F);
    uint8_t stored = nearestCode(
        scale, 0x7E, [](int c) { return fromE4m3(c); }, true);
    if (divides && stored == 0)
      stored = 0x20; // 1/8
    made.scales.bytes.push_back(static_cast<std::byte>(stored));
    const float divisor =
        divides ? fromE4m3(stored) / one : fromE4m3(stored) * one;
    for (int64_t at : group) {
      const float quotient = bf16At(values, at) / divisor;
      const int code = nearestCode(std::abs(quotient), 7, fromE2m1, true) |
                       (quotient < 0 ? 8 : 0);
      made.codes.bytes[at / 2] |= static_cast<std::byte>(code << at % 2 * 4);
    }
  });
  return made;
}

Tensors withValues(const Tensors &stored) {
  Tensors result = stored;
  for (const auto &[name, tensor] : stored)
    replace(result, name);
  return result;
}

} // namespace mbc::test
