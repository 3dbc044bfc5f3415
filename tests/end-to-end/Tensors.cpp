#include "tests/end-to-end/Tensors.h"

#include "tests/end-to-end/Scratch.h"
#include "tests/fixtures/Manifest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mbc::test {

uint64_t rowBytes(const Tensor &tensor) {
  uint64_t bytes = fixtures::elementSize(tensor.dtype);
  for (size_t dim = 1; dim < tensor.shape.size(); ++dim)
    bytes *= static_cast<uint64_t>(tensor.shape[dim]);
  return bytes;
}

Tensor rows(const Tensor &tensor, int64_t begin, int64_t end) {
  const auto row = static_cast<int64_t>(rowBytes(tensor));
  Tensor part{tensor.dtype, tensor.shape, {}};
  part.shape[0] = end - begin;
  part.bytes.assign(tensor.bytes.begin() + begin * row,
                    tensor.bytes.begin() + end * row);
  return part;
}

Tensor columns(const Tensor &tensor, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(fixtures::elementSize(tensor.dtype));
  const int64_t width = tensor.shape[1];
  Tensor part{tensor.dtype, {tensor.shape[0], end - begin}, {}};
  for (int64_t row = 0; row != tensor.shape[0]; ++row) {
    auto first = tensor.bytes.begin() + row * width * size;
    part.bytes.insert(part.bytes.end(), first + begin * size,
                      first + end * size);
  }
  return part;
}

Tensor joinRows(const std::vector<Tensor> &parts) {
  Tensor whole = parts.front();
  for (size_t i = 1; i != parts.size(); ++i) {
    whole.shape[0] += parts[i].shape[0];
    whole.bytes.insert(whole.bytes.end(), parts[i].bytes.begin(),
                       parts[i].bytes.end());
  }
  return whole;
}

Tensor everyRow(const Tensor &tensor, int64_t i, int64_t step) {
  std::vector<Tensor> parts;
  for (; i < tensor.shape[0]; i += step)
    parts.push_back(rows(tensor, i, i + 1));
  return joinRows(parts);
}

Tensor transposed(const Tensor &tensor) {
  Tensor turned{tensor.dtype, {tensor.shape[1], tensor.shape[0]}, {}};
  for (int64_t column = 0; column != tensor.shape[1]; ++column) {
    const Tensor part = columns(tensor, column, column + 1);
    turned.bytes.insert(turned.bytes.end(), part.bytes.begin(),
                        part.bytes.end());
  }
  return turned;
}

Tensor pick(const Tensor &tensor, int64_t i) {
  Tensor part = rows(tensor, i, i + 1);
  part.shape.erase(part.shape.begin());
  return part;
}

Tensor reshaped(Tensor tensor, Extents shape) {
  tensor.shape = std::move(shape);
  return tensor;
}

Tensor padRows(const Tensor &tensor, int64_t multiple) {
  Tensor padded = tensor;
  padded.shape[0] = (tensor.shape[0] + multiple - 1) / multiple * multiple;
  padded.bytes.resize(rowBytes(tensor) *
                      static_cast<uint64_t>(padded.shape[0]));
  return padded;
}

Tensor widened(const Tensor &tensor) {
  Tensor result{"F32", tensor.shape, {}};
  for (size_t i = 0; i != tensor.bytes.size(); i += 2) {
    result.bytes.insert(result.bytes.end(), 2, std::byte{0});
    result.bytes.insert(result.bytes.end(), tensor.bytes.begin() + i,
                        tensor.bytes.begin() + i + 2);
  }
  return result;
}

Tensors readSafetensors(const std::string &directory) {
  Tensors tensors;
  for (const auto &entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors")
      continue;
    const std::string text = readText(entry.path());
    uint64_t length = 0;
    std::memcpy(&length, text.data(), std::min<size_t>(8, text.size()));
    if (text.size() < 8 || length > text.size() - 8) {
      ADD_FAILURE() << entry.path() << ": a header of " << length << " bytes";
      continue;
    }
    const auto header =
        nlohmann::json::parse(text.substr(8, length), nullptr, false);
    if (header.is_discarded()) {
      ADD_FAILURE() << entry.path() << ": the header is no JSON";
      continue;
    }
    const auto *data =
        reinterpret_cast<const std::byte *>(text.data()) + 8 + length;
    for (const auto &[name, value] : header.items()) {
      if (name == "__metadata__")
        continue;
      const uint64_t begin = value["data_offsets"][0],
                     end = value["data_offsets"][1];
      EXPECT_LE(end, text.size() - 8 - length) << name;
      const bool added = tensors
                             .emplace(name, Tensor{value["dtype"],
                                                   value["shape"],
                                                   {data + begin, data + end}})
                             .second;
      EXPECT_TRUE(added) << name << " is in two files";
    }
  }
  return tensors;
}

std::string difference(const Tensors &expected, const Tensors &found) {
  for (const auto &[name, tensor] : expected) {
    auto other = found.find(name);
    if (other == found.end())
      return fmt::format("{} is missing", name);
    const Tensor &is = other->second;
    if (is.dtype != tensor.dtype || is.shape != tensor.shape)
      return fmt::format("{} is {} {}, expected {} {}", name, is.dtype,
                         is.shape, tensor.dtype, tensor.shape);
    auto [a, b] = std::ranges::mismatch(tensor.bytes, is.bytes);
    if (a != tensor.bytes.end())
      return fmt::format("{} differs from byte {} of {} on", name,
                         std::distance(tensor.bytes.begin(), a),
                         tensor.bytes.size());
  }
  for (const auto &[name, tensor] : found)
    if (!expected.contains(name))
      return fmt::format("{} is there, and nothing asks for it", name);
  return {};
}

} // namespace mbc::test
