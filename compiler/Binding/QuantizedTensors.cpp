#include "compiler/Binding/QuantizedTensors.h"

#include "compiler/Binding/DeclaredWeights.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace mbc::compiler {
namespace {

constexpr int64_t mxGroup = 32, ///< values under one scale in the MX formats
    nvGroup = 16,               ///< and in NVFP4
    valuesOfWord = 8;           ///< INT4 codes in an I32

/// The ends of the names of codes that the file does not call as their values,
/// and of their scales.
struct PackedEnding {
  std::string_view codes, scales;
};
constexpr std::array<PackedEnding, 2> packedEndings = {
    {{"_packed", "_scale"}, {"_blocks", "_scales"}}};
constexpr std::array<std::string_view, 2> scaleEndings = {"_scale_inv",
                                                          "_scale"};
/// Scales of what goes into a module, beside its weight, and of the keys and
/// values that come out of one, for a cache of FP8.
constexpr std::array<std::string_view, 5> activationEndings = {
    ".input_scale", ".input_global_scale", ".activation_scale", ".k_scale",
    ".v_scale"};
constexpr std::string_view shapeEnding = "_shape", weight = ".weight",
                           scale = ".scale";
/// What ModelOpt puts behind the name of a parameter that is no module's
/// `weight`, as those of stacked experts, before it says which scale follows.
constexpr std::string_view ofWeight = "_weight", ofInput = "_input_scale";
/// What the scales of NVFP4 are multiplied by, and divided by.
constexpr std::string_view multiplier = "_scale_2", divisor = "_global_scale";
/// What else compressed-tensors stores beside codes, and mbc does not read.
constexpr std::string_view zeroPoints = "_zero_point", columnOrder = "_g_idx";

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

/// ModelOpt's name of the scales of stacked experts.
std::string stackedName(std::string_view values, std::string_view ending) {
  return std::string(values).append(ofWeight).append(ending);
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
  return checkpoint.find(stem.empty() ? stackedName(values, scaleEndings[1])
                                      : name.assign(stem).append(scale));
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

/// Values of a row under one scale, in the formats where that is fixed.
int64_t fixedGroup(DType scale) {
  return scale == DType::F8_E4M3 ? nvGroup : mxGroup;
}

/// How scales of these codes may lie.
struct ScaleForms {
  DType element, scale;
  bool byShape; ///< S.scale: its shape decides, whatever block is declared
};

/// Whether two rows of codes share the bytes of one: then scales are as wide.
bool pairsRows(const StoredTensor &codes, const StoredTensor &scales) {
  const Shape &bytes = *codes.shape, &factors = *scales.shape;
  const size_t rank = bytes.rank();
  return codes.dtype == DType::U8 && scales.dtype == DType::F8_E4M3 &&
         rank > 2 && factors.rank() == rank &&
         factors == withLast(bytes, {bytes[rank - 2] / (nvGroup / 2),
                                     bytes[rank - 1]}) &&
         bytes[rank - 2] % (nvGroup / 2) == 0 &&
         bytes[rank - 2] <= INT64_MAX / 2;
}

BlockScale pairedRows(const Shape &scales) {
  const Matrix matrix(scales);
  return BlockScale{DType::F8_E4M3,
                    {matrix.leading * matrix.rows, matrix.columns},
                    nvGroup / 2,
                    2};
}

/// The matrix of scales and the block of each, if the shapes fit.
std::optional<BlockScale> geometry(const Shape &values, const Shape &scales,
                                   const ScaleForms &forms,
                                   const Quantization &declared) {
  Matrix matrix(values);
  int64_t rows = matrix.leading * matrix.rows, columns = matrix.columns;
  auto made = [&](Shape shape, int64_t blockRows, int64_t blockColumns) {
    return BlockScale{forms.scale, shape, blockRows, blockColumns};
  };
  bool ofBlocks = forms.element == DType::F8_E4M3;
  if (ofBlocks && scales == blockScales(values, declared)) {
    auto [blockRows, blockColumns] = blockOf(declared);
    // Blocks of one matrix do not reach into the next.
    if (matrix.leading == 1 || matrix.rows % blockRows == 0)
      return made({matrix.leading * blocks(matrix.rows, blockRows),
                   blocks(columns, blockColumns)},
                  blockRows, blockColumns);
  }
  if (ofBlocks && declared.block && !forms.byShape)
    return std::nullopt;
  if (ofBlocks && scales.elements() == 1)
    return made({1, 1}, wholeAxis, wholeAxis);
  if (ofBlocks && (scales == rowsOf(values) || scales == withLast(values, {1})))
    return made({rows, 1}, 1, wholeAxis);
  int64_t stripe = blockOf(declared)[0];
  if (forms.byShape && matrix.leading == 1 &&
      scales == Shape{blocks(rows, stripe)})
    return made({scales[0], 1}, stripe, wholeAxis);
  if (scales.rank() != values.rank() || columns == 0)
    return std::nullopt;
  int64_t groups = scales[scales.rank() - 1];
  if (groups < 1 || columns % groups != 0 ||
      scales != withLast(values, {groups}))
    return std::nullopt;
  int64_t group = columns / groups;
  if (forms.element == DType::F4_E2M1 && group != fixedGroup(forms.scale))
    return std::nullopt;
  // Another group is one of a row that was filled up to whole words.
  if (forms.element == DType::I4 && group % valuesOfWord != 0)
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

/// The dtype of the scales of such codes as numbers; bytes are exponents.
std::optional<DType> scaleDType(DType element, DType stored) {
  DType scale = stored == DType::U8 ? DType::F8_E8M0 : stored;
  bool ofFP4 = scale == DType::F8_E8M0 || scale == DType::F8_E4M3;
  bool ofOthers = scale == DType::F8_E8M0 || scale == DType::F32 ||
                  scale == DType::F16 || scale == DType::BF16;
  bool reads = element == DType::F4_E2M1 ? ofFP4 : ofOthers;
  return reads ? std::optional(scale) : std::nullopt;
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
  std::string_view stem = without(values, weight);
  names.push_back(stem.empty() ? stackedName(values, scaleEndings[1])
                               : std::string(stem).append(scale));
  return names;
}

std::vector<std::string> tensorScaleNames(std::string_view values) {
  std::vector<std::string> names = {std::string(values).append(multiplier),
                                    std::string(values).append(divisor)};
  if (without(values, weight).empty())
    names.push_back(stackedName(values, multiplier));
  return names;
}

bool isUnreadFloat8(DType dtype) {
  return dtype == DType::F8_E5M2 || dtype == DType::F8_E4M3FNUZ ||
         dtype == DType::F8_E5M2FNUZ;
}

bool mayBeCodes(DType dtype) {
  return dtype == DType::F8_E4M3 || dtype == DType::U8 || dtype == DType::I8 ||
         dtype == DType::I32;
}

std::string valuesOfActivation(std::string_view name) {
  for (std::string_view ending : activationEndings)
    if (std::string_view stem = without(name, ending); !stem.empty())
      return std::string(stem).append(weight);
  return std::string(without(name, ofInput));
}

std::string valuesOfCompanion(std::string_view name) {
  if (std::string values = valuesOfActivation(name); !values.empty())
    return values;
  for (std::string_view ending : {multiplier, scaleEndings[1]})
    if (std::string_view stem = without(without(name, ending), ofWeight);
        !stem.empty())
      return std::string(stem);
  // `_global_scale` also ends in `_scale`.
  for (std::string_view ending :
       {multiplier, divisor, scaleEndings[0], scaleEndings[1],
        packedEndings[1].scales, shapeEnding, zeroPoints, columnOrder})
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

uint32_t tensorScaleOf(const Checkpoint &checkpoint,
                       const StoredTensor &codes) {
  if (elementOf(codes) == DType::F4_E2M1)
    for (const std::string &name : tensorScaleNames(codes.name))
      if (uint32_t found = checkpoint.find(name); found != Checkpoint::none)
        return found;
  return Checkpoint::none;
}

uint32_t shapeTensorOf(const Checkpoint &checkpoint,
                       const StoredTensor &codes) {
  return codes.key.empty() // not packed
             ? Checkpoint::none
             : checkpoint.find(std::string(codes.name).append(shapeEnding));
}

std::vector<uint32_t> besideCodes(const Checkpoint &checkpoint,
                                  const StoredTensor &codes) {
  std::vector<uint32_t> found = {shapeTensorOf(checkpoint, codes)};
  if (std::string_view stem = without(codes.name, weight); !stem.empty())
    for (std::string_view ending : activationEndings)
      found.push_back(checkpoint.find(std::string(stem).append(ending)));
  else
    found.push_back(checkpoint.find(std::string(codes.name).append(ofInput)));
  std::erase(found, Checkpoint::none);
  return found;
}

std::vector<uint32_t> companionsOf(const Checkpoint &checkpoint,
                                   const StoredTensor &codes) {
  std::vector<std::string> names = scaleNames(codes.name);
  for (const std::string &name : tensorScaleNames(codes.name))
    names.push_back(name);
  for (std::string_view ending : {shapeEnding, zeroPoints, columnOrder})
    names.push_back(std::string(codes.name).append(ending));
  std::vector<uint32_t> found;
  for (const std::string &name : names)
    if (uint32_t tensor = checkpoint.find(name); tensor != Checkpoint::none)
      found.push_back(tensor);
  return found;
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

static std::string expectedScales(const Shape &values, DType element,
                                  DType scale, const Quantization &declared) {
  if (values.rank() < 2)
    return "those of a matrix";
  if (element == DType::F4_E2M1)
    return groupScales(values, fixedGroup(scale));
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
    return valuesOf(*codes.shape, valuesOfWord);
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
  return expectedScales(values.value_or(Shape()), elementOf(codes),
                        DType::F8_E8M0, declared);
}

/// The tensor scale of NVFP4, or why it is not what it should be.
static std::expected<std::pair<uint32_t, TensorScale>, std::string>
tensorScale(const Checkpoint &checkpoint, const StoredTensor &codes,
            const StoredTensor &scales) {
  uint32_t found = tensorScaleOf(checkpoint, codes);
  if (found == Checkpoint::none)
    return std::unexpected(wrong(
        scales, fmt::format(": scales of NVFP4 have one F32 for the "
                            "tensor, {} or {}, which is not in {}: add "
                            "the file that holds it",
                            tensorScaleNames(codes.name)[0],
                            tensorScaleNames(codes.name)[1], checkpoint.root)));
  const StoredTensor &one = checkpoint.tensors[found];
  if (one.dtype != DType::F32 || one.shape->elements() != 1)
    return std::unexpected(
        wrong(one, fmt::format("; beside the scales {} {} it has to be one F32 "
                               "for the whole tensor, [] or [1]",
                               scales.name, toString(*scales.shape))));
  return std::pair(found, one.name.ends_with(multiplier)
                              ? TensorScale::Multiplies
                              : TensorScale::Divides);
}

/// What mbc does not undo, by a tensor beside the codes or by config.json.
static std::string unreadForm(const Checkpoint &checkpoint,
                              const StoredTensor &codes,
                              const Quantization &declared) {
  // Nobody shifts or sorts these; models have hundreds of thousands of them.
  if (elementOf(codes) == DType::F4_E2M1)
    return {};
  auto beside = [&](std::string_view ending) {
    return checkpoint.find(std::string(codes.name).append(ending));
  };
  if (uint32_t found = beside(zeroPoints); found != Checkpoint::none)
    return wrong(checkpoint.tensors[found],
                 fmt::format(": {} has zero points, which mbc does not read{}; "
                             "quantise it symmetrically, or take the "
                             "checkpoint that is not quantised",
                             codes.name,
                             declared.symmetric == true
                                 ? " and config.json denies (symmetric: true)"
                                 : ""));
  if (uint32_t found = beside(columnOrder); found != Checkpoint::none)
    return wrong(checkpoint.tensors[found],
                 fmt::format(": the groups of {} are of columns in another "
                             "order, which mbc does not undo{}; quantise it "
                             "without actorder, or with actorder weight",
                             codes.name,
                             declared.actorder == "weight"
                                 ? " and config.json denies (actorder: weight)"
                                 : ""));
  return {};
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
  if (std::string why = unreadForm(checkpoint, codes, declared); !why.empty())
    return std::unexpected(why);
  std::optional<DType> factor = scaleDType(type.dtype, factors.dtype);
  if (!factor)
    return std::unexpected(wrong(
        factors, fmt::format("; mbc reads scales of {} for the {} codes of {}",
                             type.dtype == DType::F4_E2M1
                                 ? "F8_E8M0 or U8 (MXFP4) or F8_E4M3 (NVFP4)"
                                 : "F32, BF16, F16, F8_E8M0 or U8",
                             safetensorsName(codes.dtype), codes.name)));
  const bool paired = pairsRows(codes, factors);
  if (paired) {
    type.shape = *codes.shape;
    type.shape[type.shape.rank() - 2] *= 2;
  }
  type.scale =
      paired ? pairedRows(*factors.shape)
             : geometry(type.shape, *factors.shape,
                        {type.dtype, *factor, factors.name.ends_with(scale)},
                        declared);
  if (!type.scale)
    return std::unexpected(
        wrong(factors, fmt::format("; the scales of {} {} are {}", codes.name,
                                   toString(type.shape),
                                   expectedScales(type.shape, type.dtype,
                                                  *factor, declared))));
  if (factor == DType::F8_E4M3) {
    auto one = tensorScale(checkpoint, codes, factors);
    if (!one)
      return std::unexpected(one.error());
    std::tie(quantized.tensorScale, type.scale->tensor) = *one;
  }
  if (std::string why =
          contradiction(checkpoint, {codes, factors, type}, declared);
      !why.empty())
    return std::unexpected(why);
  quantized.shape = shapeTensorOf(checkpoint, codes);
  if (quantized.shape != Checkpoint::none) {
    // Its numbers repeat what the codes' shape says; loaders ignore them.
    const StoredTensor &shape = checkpoint.tensors[quantized.shape];
    if ((shape.dtype != DType::I64 && shape.dtype != DType::I32) ||
        *shape.shape != Shape{static_cast<int64_t>(type.shape.rank())})
      return std::unexpected(
          wrong(shape, fmt::format("; the shape of {} {} is {} integers, I64 "
                                   "or I32: take the tensors of one checkpoint",
                                   codes.name, toString(type.shape),
                                   type.shape.rank())));
  }
  return quantized;
}

} // namespace mbc::compiler
