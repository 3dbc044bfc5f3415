#pragma once

#include <cstdint>

/// The number formats by their definitions, one element at a time. Slow and
/// plain on purpose: tests compare every other implementation with these.
/// Pure; any number of threads.
namespace mbc::kernels {

/// FP8 E4M3 (finite, no infinities): sign, 4 exponent bits with bias 7, 3
/// mantissa bits; 0x7F and 0xFF are NaN.
float decodeE4M3(uint8_t code);

/// FP4 E2M1: sign, 2 exponent bits with bias 1, 1 mantissa bit; every code is a
/// number, from -6 to 6. `code` has four bits.
float decodeE2M1(uint8_t code);
/// Four bits that hold a number from -8 to 7 plus 8.
float decodeI4(uint8_t code);
/// E8M0: 2^(code - 127); 0xFF is NaN. The scale of the MX formats.
float decodeE8M0(uint8_t code);

/// bfloat16 is the upper half of a float.
float decodeBF16(uint16_t bits);
/// IEEE half: 5 exponent bits with bias 15, 10 mantissa bits.
float decodeF16(uint16_t bits);

/// Round to nearest, ties to even. Every NaN becomes 0x7FC0.
uint16_t encodeBF16(float value);
/// Round to nearest, ties to even, overflow to infinity. Every NaN becomes
/// 0x7E00.
uint16_t encodeF16(float value);

/// The nearest E4M3 number: of two, the one whose last bit is 0; beyond 448,
/// 448 with its sign. NaN keeps its sign.
uint8_t encodeE4M3(float value);
/// The nearest E2M1 number: of two, the one of smaller magnitude; beyond 6, 6.
/// Negative numbers have a sign, also where they become 0. NaN becomes 0.
uint8_t encodeE2M1(float value);
/// The same, but of two numbers the one whose last bit is 0, as NVFP4 has it.
uint8_t encodeE2M1Even(float value);
/// The nearest of -8 to 7, of two the even one, plus 8. NaN becomes that of 0.
uint8_t encodeI4(float value);
/// The smallest power of two that is no less than a positive number, from
/// 2^-127 to 2^127.
uint8_t encodeE8M0(float value);

} // namespace mbc::kernels
