#include "compiler/Binding/QuantizedTensors.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace mbc::compiler {
namespace {

constexpr int64_t mxGroup = 32; ///< values under one scale in the MX formats

/// The ends of the names of codes that the file does not call as their values,
/// and of their scales.
struct PackedEnding {
  std::string_view codes, scales;
};
constexpr std::array<PackedEnding, 2> packedEndings = {
    {{"_packed", "_scale"}, {"_blocks", "_scales"}}};
constexpr std::array<std::string_view, 2> scaleEndings = {"_scale_inv",
                                                          "_scale"};
/// Scales of what goes into a module, beside its weight.
constexpr std::array<std::string_view, 2> activationEndings = {
    ".input_scale", ".activation_scale"};
constexpr std::string_view shapeEnding = "_shape", weight = ".weight",
                           scale = ".scale";

std::string_view without(std::string_view name, std::string_view ending) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size())
                                : std::string_view();
}

/// How codes are called that the file does not call as their values.
const PackedEnding *packedEnding(std::string_view name) {
  for (const PackedEnding &ending : packedEndings)
    if (!without(name, ending.codes).empty())
      return &ending;
  return nullptr;
}

uint32_t findScales(const Checkpoint &checkpoint, std::string_view values,
                    const PackedEnding *packed) {
  std::string name;
  auto find = [&](std::string_view stem, std::string_view ending) {
    return checkpoint.find(name.assign(stem).append(ending));
  };
  if (packed)
    return find(values, packed->scales);
  for (std::string_view ending : scaleEndings)
    if (uint32_t found = find(values, ending); found != Checkpoint::none)
      return found;
  std::string_view stem = without(values, weight);
  return stem.empty() ? Checkpoint::none : find(stem, scale);
}

int64_t blocks(int64_t extent, int64_t block) {
  return extent / block + (extent % block != 0);
}

/// Values [.., M, N] as a matrix of all rows.
struct Matrix {
  int64_t leading = 1, rows = 1, columns = 1; ///< M and N are the last two

  explicit Matrix(const Shape &values) {
    columns = values[values.rank() - 1];
    rows = values[values.rank() - 2];
    for (size_t axis = 0; axis + 2 != values.rank(); ++axis)
      leading *= values[axis];
  }
};

Shape withLast(Shape shape, std::initializer_list<int64_t> extents) {
  size_t at = shape.rank() - extents.size();
  for (int64_t extent : extents)
    shape[at++] = extent;
  return shape;
}

/// The extents of the values' rows: [.., M].
Shape rowsOf(const Shape &values) {
  Shape rows;
  for (size_t axis = 0; axis + 1 != values.rank(); ++axis)
    rows.push_back(values[axis]);
  return rows;
}

std::array<int64_t, 2> blockOf(const Quantization &declared) {
  return declared.block.value_or(std::array<int64_t, 2>{128, 128});
}

Shape blockScales(const Shape &values, const Quantization &declared) {
  auto [rows, columns] = blockOf(declared);
  Matrix matrix(values);
  return withLast(values,
                  {blocks(matrix.rows, rows), blocks(matrix.columns, columns)});
}

/// The matrix of scales and the block of each, if the shapes fit.
std::optional<BlockScale> geometry(const Shape &values, const Shape &scales,
                                   DType element,
                                   const Quantization &declared) {
  Matrix matrix(values);
  int64_t rows = matrix.leading * matrix.rows, columns = matrix.columns;
  auto made = [](Shape shape, int64_t blockRows, int64_t blockColumns) {
    return BlockScale{DType::F32, shape, blockRows, blockColumns};
  };
  bool ofBlocks = element == DType::F8_E4M3;
  if (ofBlocks && scales == blockScales(values, declared)) {
    auto [blockRows, blockColumns] = blockOf(declared);
    // Blocks of one matrix do not reach into the next.
    if (matrix.leading == 1 || matrix.rows % blockRows == 0)
      return made({matrix.leading * blocks(matrix.rows, blockRows),
                   blocks(columns, blockColumns)},
                  blockRows, blockColumns);
  }
  if (ofBlocks && declared.block)
    return std::nullopt;
  if (ofBlocks && scales.elements() == 1)
    return made({1, 1}, wholeAxis, wholeAxis);
  if (ofBlocks && (scales == rowsOf(values) || scales == withLast(values, {1})))
    return made({rows, 1}, 1, wholeAxis);
  if (scales.rank() != values.rank() || columns == 0)
    return std::nullopt;
  int64_t groups = scales[scales.rank() - 1];
  if (groups < 1 || columns % groups != 0 ||
      scales != withLast(values, {groups}))
    return std::nullopt;
  int64_t group = columns / groups;
  int64_t wanted =
      element == DType::F4_E2M1 ? mxGroup : declared.group.value_or(group);
  if (group != wanted)
    return std::nullopt;
  return made({rows, groups}, 1, group);
}

/// The shape of the values of codes [.., n], of which `perCode` are in one.
std::optional<Shape> valuesOf(Shape codes, int64_t perCode) {
  int64_t &last = codes[codes.rank() - 1];
  if (__builtin_mul_overflow(last, perCode, &last))
    return std::nullopt;
  return codes;
}

/// Blocks [.., G, 16] of bytes are groups of 32 values.
std::optional<Shape> valuesOfBlocks(const Shape &blocks) {
  if (blocks.rank() < 3 || blocks[blocks.rank() - 1] != mxGroup / 2)
    return std::nullopt;
  Shape groups = rowsOf(blocks);
  return valuesOf(groups, mxGroup);
}

DType elementOf(const StoredTensor &codes) {
  return codes.dtype == DType::F8_E4M3 ? DType::F8_E4M3
         : codes.dtype == DType::I32   ? DType::I4
                                       : DType::F4_E2M1;
}

std::string wrong(const StoredTensor &tensor, std::string_view why) {
  return fmt::format(
      "{} is {} {}{}", tensor.key.empty() ? tensor.name : tensor.key,
      safetensorsName(tensor.dtype), toString(*tensor.shape), why);
}

/// The dtype of scales as numbers; bytes are exponents.
std::optional<DType> scaleDType(DType stored) {
  switch (stored) {
  case DType::F32:
  case DType::F16:
  case DType::BF16:
  case DType::F8_E8M0:
    return stored;
  case DType::U8:
    return DType::F8_E8M0;
  default:
    return std::nullopt;
  }
}

} // namespace

void nameValues(Checkpoint &checkpoint) {
  bool any = false;
  for (StoredTensor &tensor : checkpoint.tensors) {
    const PackedEnding *packed = packedEnding(tensor.name);
    if (!packed || !mayBeCodes(tensor.dtype))
      continue;
    std::string_view values = without(tensor.name, packed->codes);
    if (checkpoint.find(values) != Checkpoint::none)
      continue;
    tensor.key = tensor.name;
    tensor.name = values;
    any = true;
  }
  if (any)
    checkpoint.indexNames();
}

std::vector<std::string> scaleNames(std::string_view values) {
  std::vector<std::string> names;
  for (std::string_view ending : scaleEndings)
    names.push_back(std::string(values).append(ending));
  names.push_back(std::string(values).append(packedEndings[1].scales));
  if (std::string_view stem = without(values, weight); !stem.empty())
    names.push_back(std::string(stem).append(scale));
  return names;
}

bool mayBeCodes(DType dtype) {
  return dtype == DType::F8_E4M3 || dtype == DType::U8 || dtype == DType::I8 ||
         dtype == DType::I32;
}

std::string valuesOfActivation(std::string_view name) {
  for (std::string_view ending : activationEndings)
    if (std::string_view stem = without(name, ending); !stem.empty())
      return std::string(stem).append(weight);
  return {};
}

std::string valuesOfCompanion(std::string_view name) {
  if (std::string values = valuesOfActivation(name); !values.empty())
    return values;
  for (std::string_view ending :
       {scaleEndings[0], scaleEndings[1], packedEndings[1].scales, shapeEnding})
    if (std::string_view values = without(name, ending); !values.empty())
      return std::string(values);
  if (std::string_view stem = without(name, scale); !stem.empty())
    return std::string(stem).append(weight);
  return {};
}

bool isCompanion(const Checkpoint &checkpoint, std::string_view name) {
  std::string values = valuesOfCompanion(name);
  if (values.empty())
    return false;
  uint32_t tensor = checkpoint.find(values);
  return tensor != Checkpoint::none &&
         mayBeCodes(checkpoint.tensors[tensor].dtype);
}

uint32_t scalesOf(const Checkpoint &checkpoint, const StoredTensor &codes) {
  return mayBeCodes(codes.dtype)
             ? findScales(checkpoint, codes.name, packedEnding(codes.key))
             : Checkpoint::none;
}

uint32_t shapeTensorOf(const Checkpoint &checkpoint,
                       const StoredTensor &codes) {
  return codes.key.empty() // not packed
             ? Checkpoint::none
             : checkpoint.find(std::string(codes.name).append(shapeEnding));
}

Shape shapeOfValues(const Checkpoint &checkpoint, const StoredTensor &tensor) {
  uint32_t scales = scalesOf(checkpoint, tensor);
  if (scales != Checkpoint::none)
    if (auto values = quantizedTensor(checkpoint, tensor, scales, {}))
      return values->type.shape;
  return *tensor.shape;
}

std::string missingScales(const StoredTensor &codes) {
  const PackedEnding *packed = packedEnding(codes.key);
  return std::string(codes.name)
      .append(packed ? packed->scales : scaleEndings[0]);
}

/// One scale for each group of a row, or why there is none.
static std::string groupScales(const Shape &values, int64_t group) {
  int64_t columns = values[values.rank() - 1];
  if (columns % group != 0)
    return fmt::format("one for each {} values of a row, which {} values do "
                       "not divide into",
                       group, columns);
  return fmt::format("one for each {} values of a row, {}", group,
                     toString(withLast(values, {columns / group})));
}

std::string expectedScales(const Shape &values, DType element,
                           const Quantization &declared) {
  if (values.rank() < 2)
    return "those of a matrix";
  if (element == DType::F4_E2M1)
    return groupScales(values, mxGroup);
  if (element == DType::I4)
    return declared.group ? groupScales(values, *declared.group)
                          : "one for each group of values of a row";
  Matrix matrix(values);
  auto [rows, columns] = blockOf(declared);
  std::string ofBlocks =
      fmt::format("one for each block of {} x {}, {}", rows, columns,
                  toString(blockScales(values, declared)));
  if (matrix.leading != 1 && matrix.rows % rows != 0)
    ofBlocks += fmt::format(" (if {} rows were whole blocks)", matrix.rows);
  if (declared.block)
    return ofBlocks;
  return fmt::format("one, one a row, {}, one for each group of a row, or {}",
                     toString(rowsOf(values)), ofBlocks);
}

/// What the codes of a tensor stand for; nothing if its shape is none of codes.
static std::optional<Shape> shapeOfCodes(const StoredTensor &codes) {
  if (codes.key.ends_with("_blocks"))
    return valuesOfBlocks(*codes.shape);
  switch (elementOf(codes)) {
  case DType::I4:
    return valuesOf(*codes.shape, 8);
  case DType::F4_E2M1:
    return valuesOf(*codes.shape, 2);
  default:
    return *codes.shape;
  }
}

std::string expectedScales(const StoredTensor &codes,
                           const Quantization &declared) {
  std::optional<Shape> values;
  if (codes.shape->rank() > 1)
    values = shapeOfCodes(codes);
  return expectedScales(values.value_or(Shape()), elementOf(codes), declared);
}

std::expected<Quantized, std::string>
quantizedTensor(const Checkpoint &checkpoint, const StoredTensor &codes,
                uint32_t scales, const Quantization &declared) {
  const StoredTensor &factors = checkpoint.tensors[scales];
  Quantized quantized;
  OperandType &type = quantized.type;
  quantized.scales = scales;
  type.dtype = elementOf(codes);
  if (codes.shape->rank() < 2)
    return std::unexpected(
        wrong(codes, fmt::format(" and has scales, {}: quantised weights have "
                                 "rows and columns",
                                 factors.name)));
  std::optional<Shape> values = shapeOfCodes(codes);
  if (!values)
    return std::unexpected(wrong(
        codes, ": 4-bit codes lie along the last axis, blocks of them as [.., "
               "groups, 16]"));
  type.shape = *values;
  std::optional<DType> factor = scaleDType(factors.dtype);
  bool exponents = factor == DType::F8_E8M0;
  if (!factor || (type.dtype == DType::F4_E2M1 && !exponents))
    return std::unexpected(
        wrong(factors,
              fmt::format("; mbc reads scales of {} for the {} codes of {}{}",
                          type.dtype == DType::F4_E2M1
                              ? "F8_E8M0 or U8 (MXFP4)"
                              : "F32, BF16, F16, F8_E8M0 or U8",
                          safetensorsName(codes.dtype), codes.name,
                          factors.dtype == DType::F8_E4M3
                              ? ", not those of two levels (NVFP4)"
                              : "")));
  type.scale = geometry(type.shape, *factors.shape, type.dtype, declared);
  if (!type.scale)
    return std::unexpected(
        wrong(factors,
              fmt::format("; the scales of {} {} are {}", codes.name,
                          toString(type.shape),
                          expectedScales(type.shape, type.dtype, declared))));
  type.scale->dtype = *factor;
  quantized.shape = shapeTensorOf(checkpoint, codes);
  return quantized;
}

} // namespace mbc::compiler
