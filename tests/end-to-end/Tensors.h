#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mbc::test {

using Extents = std::vector<int64_t>;

/// A tensor in memory, row-major and little-endian.
struct Tensor {
  std::string dtype; ///< as in safetensors
  Extents shape;
  std::vector<std::byte> bytes;

  friend bool operator==(const Tensor &, const Tensor &) = default;
};

using Tensors = std::map<std::string, Tensor>;

/// Bytes of one index of the outermost dimension.
uint64_t rowBytes(const Tensor &tensor);

/// Rows [begin, end) of the outermost dimension.
Tensor rows(const Tensor &tensor, int64_t begin, int64_t end);
/// Columns [begin, end) of a matrix.
Tensor columns(const Tensor &tensor, int64_t begin, int64_t end);
/// One below the other.
Tensor joinRows(const std::vector<Tensor> &parts);
/// Rows i, i + step, i + 2 * step ...
Tensor everyRow(const Tensor &tensor, int64_t i, int64_t step);
/// A matrix with rows and columns exchanged.
Tensor transposed(const Tensor &tensor);
/// Index `i` of the outermost dimension, which goes away.
Tensor pick(const Tensor &tensor, int64_t i);
/// The same bytes under another shape.
Tensor reshaped(Tensor tensor, Extents shape);
/// Zero rows appended up to a multiple of `multiple`.
Tensor padRows(const Tensor &tensor, int64_t multiple);

/// BF16 to F32, exact.
Tensor widened(const Tensor &tensor);

/// All tensors of the .safetensors files of a directory, read with no code of
/// the product. Fails the running test if a file does not parse.
Tensors readSafetensors(const std::string &directory);

/// "" if equal, else what differs first: names, then dtypes, shapes, bytes.
std::string difference(const Tensors &expected, const Tensors &found);

} // namespace mbc::test
