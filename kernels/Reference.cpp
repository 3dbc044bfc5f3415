#include "kernels/Reference.h"

#include <bit>
#include <cmath>
#include <limits>

namespace mbc::kernels {
namespace {

/// The value of a format with `mantissaBits` and exponent `bias`, given its
/// fields; infinities and NaNs are the caller's.
float fromFields(bool negative, int exponent, int mantissa, int mantissaBits,
                 int bias) {
  double fraction = std::ldexp(mantissa, -mantissaBits);
  double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                   : std::ldexp(1 + fraction, exponent - bias);
  return static_cast<float>(negative ? -magnitude : magnitude);
}

/// The code of 0 to `last` whose number is nearest; `isFirst(a, b)` of two
/// neighbours says which one half way between them is.
template <typename Decode, typename IsFirst>
int nearest(double value, int last, Decode decode, IsFirst isFirst) {
  int best = 0;
  for (int code = 1; code <= last; ++code) {
    double here = std::fabs(decode(code) - value);
    double there = std::fabs(decode(best) - value);
    if (here < there || (here == there && isFirst(code, best)))
      best = code;
  }
  return best;
}

bool isEven(int code, int /*other*/) { return code % 2 == 0; }

} // namespace

float decodeE4M3(uint8_t code) {
  if ((code & 0x7F) == 0x7F)
    return std::numeric_limits<float>::quiet_NaN();
  return fromFields(code >> 7, code >> 3 & 0xF, code & 7, 3, 7);
}

float decodeE2M1(uint8_t code) {
  return fromFields(code >> 3, code >> 1 & 3, code & 1, 1, 1);
}

float decodeI4(uint8_t code) { return static_cast<float>(code - 8); }

float decodeE8M0(uint8_t code) {
  if (code == 0xFF)
    return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, code - 127);
}

float decodeBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float decodeF16(uint16_t bits) {
  int exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent != 0x1F)
    return fromFields(bits >> 15, exponent, mantissa, 10, 15);
  if (mantissa != 0)
    return std::numeric_limits<float>::quiet_NaN();
  float infinity = std::numeric_limits<float>::infinity();
  return bits >> 15 ? -infinity : infinity;
}

uint16_t encodeBF16(float value) {
  if (std::isnan(value))
    return 0x7FC0;
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rest = bits & 0xFFFF;
  uint32_t kept = bits >> 16;
  bool up = rest > 0x8000 || (rest == 0x8000 && (kept & 1));
  return static_cast<uint16_t>(kept + (up ? 1 : 0));
}

uint16_t encodeF16(float value) {
  if (std::isnan(value))
    return 0x7E00;
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) // half way between the largest half and 2^16
    return sign | 0x7C00;
  // The spacing of halves here; below 2^-14 it is that of the subnormals.
  int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  double units = std::ldexp(magnitude, 10 - exponent); // exact
  double whole = std::floor(units), rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1))
    whole += 1;
  auto count = static_cast<int>(whole); // 1024..2048 of normal numbers
  // Adding carries a full mantissa into the exponent.
  return static_cast<uint16_t>(sign | (count + ((exponent + 14) << 10)));
}

uint8_t encodeE4M3(float value) {
  int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value))
    return static_cast<uint8_t>(sign | 0x7F);
  double magnitude = std::fmin(std::fabs(value), 448);
  return static_cast<uint8_t>(sign |
                              nearest(magnitude, 0x7E, decodeE4M3, isEven));
}

uint8_t encodeE2M1(float value) {
  if (std::isnan(value))
    return 0;
  int sign = value < 0 ? 8 : 0;
  double magnitude = std::fmin(std::fabs(value), 6);
  // Codes ascend with their numbers: the first that is met is the smaller.
  auto never = [](int, int) { return false; };
  return static_cast<uint8_t>(sign | nearest(magnitude, 7, decodeE2M1, never));
}

uint8_t encodeE2M1Even(float value) {
  if (std::isnan(value))
    return 0;
  int sign = value < 0 ? 8 : 0;
  double magnitude = std::fmin(std::fabs(value), 6);
  return static_cast<uint8_t>(sign | nearest(magnitude, 7, decodeE2M1, isEven));
}

uint8_t encodeI4(float value) {
  if (std::isnan(value))
    return 8;
  double bounded = std::fmin(std::fmax(value, -8), 7);
  return static_cast<uint8_t>(nearest(bounded, 15, decodeI4, isEven));
}

uint8_t encodeE8M0(float value) {
  int code = 0;
  while (code != 254 && decodeE8M0(static_cast<uint8_t>(code)) < value)
    ++code;
  return static_cast<uint8_t>(code);
}

} // namespace mbc::kernels
