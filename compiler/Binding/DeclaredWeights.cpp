#include "compiler/Binding/DeclaredWeights.h"

#include "compiler/PairedRows.h"

#include <algorithm>
#include <fmt/format.h>

namespace mbc::compiler {
namespace {

/// The values as a matrix of all rows.
struct Extents {
  int64_t rows, columns;
};

Extents matrixOf(const OperandType &type) {
  int64_t columns = type.shape[type.shape.rank() - 1];
  return {columns == 0 ? 0 : type.shape.elements() / columns, columns};
}

/// The values of a row that share a scale; 0 if a scale is for more rows.
int64_t groupOf(const OperandType &type) {
  if (pairsRows(*type.scale))
    return type.scale->blockRows * type.scale->blockColumns;
  return type.scale->blockRows == 1 || matrixOf(type).rows == 1
             ? std::min(type.scale->blockColumns, matrixOf(type).columns)
             : 0;
}

/// Whether the scales lie as a strategy of compressed-tensors says. A word that
/// is none of them says nothing.
bool follows(const OperandType &type, const Quantization &declared) {
  const BlockScale &scale = *type.scale;
  const Extents matrix = matrixOf(type);
  if (declared.strategy == "tensor")
    return scale.shape.elements() == 1;
  if (declared.strategy == "channel")
    return scale.shape == Shape{matrix.rows, 1};
  if (declared.strategy == "group" || declared.strategy == "tensor_group")
    return groupOf(type) != 0;
  if (declared.strategy == "block" && declared.block)
    return scale.blockRows == (*declared.block)[0] &&
           scale.blockColumns == (*declared.block)[1];
  return true;
}

/// The scales that the declared strategy lets expect.
std::string expected(const OperandType &type, const Quantization &declared) {
  const Extents matrix = matrixOf(type);
  if (declared.strategy == "tensor")
    return "one for the tensor";
  if (declared.strategy == "channel")
    return fmt::format("one a row, [{}, 1]", matrix.rows);
  if (declared.strategy == "block")
    return fmt::format("one for each block of {} x {}", (*declared.block)[0],
                       (*declared.block)[1]);
  return declared.group
             ? fmt::format("one for each {} values of a row", *declared.group)
             : "one for each group of values of a row";
}

std::string_view typeOf(DType codes) {
  return codes == DType::I4 ? "int" : "float";
}

std::string stored(const StoredTensor &tensor) {
  return fmt::format("{} is {} {}",
                     tensor.key.empty() ? tensor.name : tensor.key,
                     safetensorsName(tensor.dtype), toString(*tensor.shape));
}

} // namespace

std::string contradiction(const Checkpoint &checkpoint,
                          const QuantizedHeaders &headers,
                          const Quantization &declared) {
  const auto &[codes, scales, type] = headers;
  auto differ = [&](const std::string &says, const std::string &is) {
    return fmt::format("{}/config.json: quantization_config declares {}, but "
                       "{}: correct config.json, or take the tensors that "
                       "belong to it",
                       checkpoint.root, says, is);
  };
  const auto bits = static_cast<int64_t>(bitSize(type.dtype));
  if (declared.bits && *declared.bits != bits)
    return differ(fmt::format("num_bits {} of weights", *declared.bits),
                  fmt::format("{}, codes of {} bits", stored(codes), bits));
  if (!declared.type.empty() && declared.type != typeOf(type.dtype))
    return differ(
        fmt::format("type {} of weights", declared.type),
        fmt::format("{}, codes of type {}", stored(codes), typeOf(type.dtype)));
  if (declared.symmetric == false)
    return differ("symmetric: false", fmt::format("{}, without {}_zero_point",
                                                  stored(codes), codes.name));
  if (declared.actorder == "group")
    return differ("actorder group", fmt::format("{}, without {}_g_idx",
                                                stored(codes), codes.name));
  if (!follows(type, declared))
    return differ(fmt::format("strategy {} of weights, scales {}",
                              declared.strategy, expected(type, declared)),
                  fmt::format("{} for {} {}", stored(scales), codes.name,
                              toString(type.shape)));
  int64_t group = groupOf(type);
  if (declared.group && group != 0 && group != *declared.group &&
      declared.strategy != "channel")
    return differ(fmt::format("group_size {}", *declared.group),
                  fmt::format("{} for {} {}, one for {} values", stored(scales),
                              codes.name, toString(type.shape), group));
  return {};
}

} // namespace mbc::compiler
