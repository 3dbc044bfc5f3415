#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mbc {

/// Element types, with the names and widths of safetensors. From F4_E2M1 on
/// they are codes that quantised weights pack in pairs, the first in the low
/// half of a byte; no tensor is stored as such.
enum class DType : uint8_t {
  F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL,
  F8_E4M3, F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ, F8_E8M0, C64,
  F4_E2M1, ///< sign, 2 exponent bits, 1 mantissa bit
  I4,      ///< -8 to 7, stored plus 8
};
constexpr DType lastDType = DType::I4;

/// A second level of scales (NVFP4): one number in F32, by which all scales of
/// a tensor are multiplied or divided before they multiply codes.
enum class TensorScale : uint8_t { None, Multiplies, Divides };
constexpr TensorScale lastTensorScale = TensorScale::Divides;

constexpr bool isPacked(DType dtype) { return dtype >= DType::F4_E2M1; }

uint64_t bitSize(DType dtype);
/// Bytes of one element that is not packed.
uint64_t byteSize(DType dtype);

/// The name in a safetensors header: "BF16", "F8_E4M3" ...
/// (of packed codes: in messages alone).
std::string_view safetensorsName(DType dtype);
std::optional<DType> dtypeFromSafetensors(std::string_view name);

/// The name in module `torch`: "bfloat16", "float8_e4m3fn" ...
std::string_view torchName(DType dtype);
std::optional<DType> dtypeFromTorch(std::string_view name);

/// All safetensors names, comma separated, for error messages.
std::string_view knownDTypes();

} // namespace mbc
