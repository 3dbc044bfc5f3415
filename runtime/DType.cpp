#include "runtime/DType.h"

#include <array>
#include <span>
#include <string>

namespace mbc {
namespace {

struct Entry {
  DType dtype;
  uint8_t bits;
  std::string_view safetensors, torch;
};

constexpr std::array<Entry, 21> table = {{
    {DType::F64, 64, "F64", "float64"},
    {DType::F32, 32, "F32", "float32"},
    {DType::F16, 16, "F16", "float16"},
    {DType::BF16, 16, "BF16", "bfloat16"},
    {DType::I64, 64, "I64", "int64"},
    {DType::I32, 32, "I32", "int32"},
    {DType::I16, 16, "I16", "int16"},
    {DType::I8, 8, "I8", "int8"},
    {DType::U64, 64, "U64", "uint64"},
    {DType::U32, 32, "U32", "uint32"},
    {DType::U16, 16, "U16", "uint16"},
    {DType::U8, 8, "U8", "uint8"},
    {DType::BOOL, 8, "BOOL", "bool"},
    {DType::F8_E4M3, 8, "F8_E4M3", "float8_e4m3fn"},
    {DType::F8_E5M2, 8, "F8_E5M2", "float8_e5m2"},
    {DType::F8_E4M3FNUZ, 8, "F8_E4M3FNUZ", "float8_e4m3fnuz"},
    {DType::F8_E5M2FNUZ, 8, "F8_E5M2FNUZ", "float8_e5m2fnuz"},
    {DType::F8_E8M0, 8, "F8_E8M0", "float8_e8m0fnu"},
    {DType::C64, 64, "C64", "complex64"},
    {DType::F4_E2M1, 4, "F4_E2M1", ""},
    {DType::I4, 4, "I4", ""},
}};

constexpr bool inOrderOfTheEnum() {
  for (size_t i = 0; i != table.size(); ++i)
    if (static_cast<size_t>(table[i].dtype) != i)
      return false;
  return true;
}
static_assert(inOrderOfTheEnum());

constexpr std::span stored(table.begin(), static_cast<size_t>(DType::F4_E2M1));

const Entry &entry(DType dtype) { return table[static_cast<size_t>(dtype)]; }

} // namespace

uint64_t bitSize(DType dtype) { return entry(dtype).bits; }
uint64_t byteSize(DType dtype) { return entry(dtype).bits / 8; }
std::string_view safetensorsName(DType dtype) {
  return entry(dtype).safetensors;
}
std::string_view torchName(DType dtype) { return entry(dtype).torch; }

std::optional<DType> dtypeFromSafetensors(std::string_view name) {
  for (const Entry &entry : stored)
    if (entry.safetensors == name)
      return entry.dtype;
  return std::nullopt;
}

std::optional<DType> dtypeFromTorch(std::string_view name) {
  for (const Entry &entry : stored)
    if (entry.torch == name)
      return entry.dtype;
  return std::nullopt;
}

std::string_view knownDTypes() {
  static const std::string names = [] {
    std::string list;
    for (const Entry &entry : stored)
      (list += list.empty() ? "" : ", ") += entry.safetensors;
    return list;
  }();
  return names;
}

} // namespace mbc
