#include "runtime/DType.h"

#include <array>
#include <string>

namespace mbc {
namespace {

struct Entry {
  DType dtype;
  uint8_t bytes;
  std::string_view safetensors, torch;
};

constexpr std::array<Entry, 19> table = {{
    {DType::F64, 8, "F64", "float64"},
    {DType::F32, 4, "F32", "float32"},
    {DType::F16, 2, "F16", "float16"},
    {DType::BF16, 2, "BF16", "bfloat16"},
    {DType::I64, 8, "I64", "int64"},
    {DType::I32, 4, "I32", "int32"},
    {DType::I16, 2, "I16", "int16"},
    {DType::I8, 1, "I8", "int8"},
    {DType::U64, 8, "U64", "uint64"},
    {DType::U32, 4, "U32", "uint32"},
    {DType::U16, 2, "U16", "uint16"},
    {DType::U8, 1, "U8", "uint8"},
    {DType::BOOL, 1, "BOOL", "bool"},
    {DType::F8_E4M3, 1, "F8_E4M3", "float8_e4m3fn"},
    {DType::F8_E5M2, 1, "F8_E5M2", "float8_e5m2"},
    {DType::F8_E4M3FNUZ, 1, "F8_E4M3FNUZ", "float8_e4m3fnuz"},
    {DType::F8_E5M2FNUZ, 1, "F8_E5M2FNUZ", "float8_e5m2fnuz"},
    {DType::F8_E8M0, 1, "F8_E8M0", "float8_e8m0fnu"},
    {DType::C64, 8, "C64", "complex64"},
}};

constexpr bool inOrderOfTheEnum() {
  for (size_t i = 0; i != table.size(); ++i)
    if (static_cast<size_t>(table[i].dtype) != i)
      return false;
  return true;
}
static_assert(inOrderOfTheEnum());

const Entry &entry(DType dtype) { return table[static_cast<size_t>(dtype)]; }

} // namespace

uint64_t byteSize(DType dtype) { return entry(dtype).bytes; }
std::string_view safetensorsName(DType dtype) {
  return entry(dtype).safetensors;
}
std::string_view torchName(DType dtype) { return entry(dtype).torch; }

std::optional<DType> dtypeFromSafetensors(std::string_view name) {
  for (const Entry &entry : table)
    if (entry.safetensors == name)
      return entry.dtype;
  return std::nullopt;
}

std::optional<DType> dtypeFromTorch(std::string_view name) {
  for (const Entry &entry : table)
    if (entry.torch == name)
      return entry.dtype;
  return std::nullopt;
}

std::string_view knownDTypes() {
  static const std::string names = [] {
    std::string list;
    for (const Entry &entry : table)
      (list += list.empty() ? "" : ", ") += entry.safetensors;
    return list;
  }();
  return names;
}

} // namespace mbc
