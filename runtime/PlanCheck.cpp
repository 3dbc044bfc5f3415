#include "runtime/PlanCheck.h"
#include "runtime/Plan.h"
#include "runtime/Shape.h"
#include "runtime/Tiles.h"

#include <algorithm>
#include <filesystem>

namespace mbc {
namespace {

/// A place in a plan, for messages.
struct Place {
  const std::string &plan;
  std::string what;
};

std::unexpected<Error> broken(const Place &place, const std::string &why) {
  return fail("{}: {}: {}; the plan is damaged or was written by another "
              "version of mbc: compile it again",
              place.plan, place.what, why);
}

bool allBelow(const flatbuffers::Vector<uint32_t> *indices, size_t bound) {
  if (indices)
    for (uint32_t index : *indices)
      if (index >= bound)
        return false;
  return true;
}

/// The verifier of FlatBuffers sees to it that a vector lies in the buffer, not
/// that its structs are aligned.
template <typename T>
bool isAligned(const flatbuffers::Vector<const T *> *structs) {
  return !structs || structs->size() == 0 ||
         reinterpret_cast<uintptr_t>(structs->Data()) % alignof(T) == 0;
}

/// Whether an affine walk over the box's axes stays inside `elements`.
bool staysInside(const plan::Box &box, bool target, int64_t elements) {
  int64_t low = target ? box.target_offset() : box.source_offset(), high = low;
  for (size_t dim = 0; dim != length(box.dims()); ++dim) {
    const plan::Dim *axis = box.dims()->Get(dim);
    int64_t last, step = target ? axis->target() : axis->source();
    int64_t &end = step < 0 ? low : high;
    if (__builtin_mul_overflow(step, axis->count() - 1, &last) ||
        __builtin_add_overflow(end, last, &end))
      return false;
  }
  return low >= 0 && high < elements;
}

Result<int64_t> checkBox(const Place &place, const plan::Class &kind,
                         const plan::Output &output, const plan::Box &box) {
  int64_t elements = 1;
  if (!isAligned(box.dims()))
    return broken(place, "a box's axes are not aligned");
  if (length(box.dims()) > Tile::maxAxes)
    return broken(place, fmt::format("a box of {} axes, {} are the most",
                                     length(box.dims()), Tile::maxAxes));
  for (size_t dim = 0; dim != length(box.dims()); ++dim) {
    const plan::Dim *axis = box.dims()->Get(dim);
    if (axis->count() < 0 ||
        __builtin_mul_overflow(elements, axis->count(), &elements))
      return broken(place,
                    fmt::format("a box repeats {} times", axis->count()));
    if (axis->count() > 1 && axis->target() <= 0)
      return broken(place, "a box walks its output backwards or on the spot");
  }
  if (box.input() >= static_cast<int64_t>(length(kind.inputs())))
    return broken(place, fmt::format("a box reads input {} of {}", box.input(),
                                     length(kind.inputs())));
  if (elements == 0)
    return 0;
  if (!staysInside(box, true, output.elements()))
    return broken(place, fmt::format("a box leaves its output of {} elements",
                                     output.elements()));
  if (box.input() < 0)
    return elements;
  int64_t available = kind.inputs()->Get(box.input())->elements();
  if (!staysInside(box, false, available))
    return broken(
        place, fmt::format("a box leaves its input of {} elements", available));
  return elements;
}

/// Whether each element of the weight has its scale.
bool scalesFit(const plan::Scales &scales, const plan::Input &weight,
               const plan::Input &input) {
  auto blocks = [](int64_t extent, int64_t block) {
    return extent / block + (extent % block != 0);
  };
  int64_t needed;
  return !isPacked(DType(input.dtype())) &&
         weight.elements() % scales.columns() == 0 &&
         blocks(scales.columns(), scales.block_columns()) <=
             scales.scale_columns() &&
         !__builtin_mul_overflow(
             blocks(weight.elements() / scales.columns(), scales.block_rows()),
             scales.scale_columns(), &needed) &&
         needed <= input.elements();
}

/// Whether there is no tensor scale, or it is one F32.
bool tensorScaleFits(const plan::Scales &scales, const plan::Class &kind) {
  int32_t index = scales.tensor_scale();
  if (index < 0)
    return true;
  if (index >= static_cast<int64_t>(length(kind.inputs())))
    return false;
  const plan::Input &input = *kind.inputs()->Get(index);
  return DType(input.dtype()) == DType::F32 && input.elements() == 1;
}

Result<void> checkScales(const Place &place, const plan::Class &kind,
                         const plan::Output &output) {
  size_t inputs = length(kind.inputs());
  for (size_t index = 0; index != length(output.scales()); ++index) {
    const plan::Scales *scales = output.scales()->Get(index);
    if (scales->input() < 0 ||
        scales->input() >= static_cast<int64_t>(inputs) ||
        scales->weight() < 0 ||
        scales->weight() >= static_cast<int64_t>(inputs) ||
        scales->columns() <= 0 || scales->block_rows() <= 0 ||
        scales->block_columns() <= 0 ||
        !scalesFit(*scales, *kind.inputs()->Get(scales->weight()),
                   *kind.inputs()->Get(scales->input())) ||
        !tensorScaleFits(*scales, kind))
      return broken(place, "the geometry of its scales makes no sense");
  }
  return {};
}

/// Whether an input can stand for so many elements of a dtype.
bool isOriginal(const plan::Class &kind, int32_t input, DType dtype,
                int64_t elements) {
  return input >= 0 && input < static_cast<int64_t>(length(kind.inputs())) &&
         DType(kind.inputs()->Get(input)->dtype()) == dtype &&
         static_cast<int64_t>(kind.inputs()->Get(input)->elements()) ==
             elements;
}

bool isCodes(DType dtype) {
  return dtype == DType::F8_E4M3 || dtype == DType::F4_E2M1 ||
         dtype == DType::I4;
}

bool isValue(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

/// Whether a tensor scale belongs to codes, scales and originals.
bool tensorScaleFits(const plan::Class &kind, const plan::Encoding &encoding,
                     const plan::Output &tensorScale) {
  bool hasOriginal = encoding.original_codes() >= 0;
  return DType(encoding.codes()) == DType::F4_E2M1 &&
         DType(encoding.scale()) == DType::F8_E4M3 &&
         DType(tensorScale.dtype()) == DType::F32 &&
         tensorScale.elements() == 1 &&
         (hasOriginal ? isOriginal(kind, encoding.original_tensor_scale(),
                                   DType::F32, 1)
                      : encoding.original_tensor_scale() < 0);
}

bool encodingFits(const plan::Class &kind, const plan::Output &output,
                  const plan::Output &scales) {
  const plan::Encoding &encoding = *output.encoding();
  auto codes = static_cast<DType>(encoding.codes()),
       scale = static_cast<DType>(encoding.scale());
  if (!isCodes(codes) || !isValue(DType(output.dtype())) ||
      encoding.level() > static_cast<uint8_t>(lastTensorScale) ||
      !(isValue(scale) || scale == DType::F8_E8M0 ||
        (scale == DType::F8_E4M3 &&
         TensorScale(encoding.level()) != TensorScale::None)) ||
      encoding.columns() <= 0 || encoding.block_rows() <= 0 ||
      encoding.block_columns() <= 0 || output.elements() < 0 ||
      output.elements() % encoding.columns() != 0 ||
      (isPacked(codes) && encoding.columns() % 2 != 0))
    return false;
  int64_t count;
  if (__builtin_mul_overflow(scaleRows(output), scaleColumns(encoding),
                             &count) ||
      count != scales.elements() || DType(scales.dtype()) != scale)
    return false;
  int32_t originalCodes = encoding.original_codes(),
          originalScales = encoding.original_scales();
  return (originalCodes < 0 && originalScales < 0) ||
         (isOriginal(kind, originalCodes, codes, output.elements()) &&
          isOriginal(kind, originalScales, scale, count));
}

/// Codes are followed by their scales, and those by a tensor scale if they have
/// one.
Result<void> checkEncodings(const Place &place, const plan::Class &kind) {
  size_t outputs = length(kind.outputs());
  auto outputAt = [&](size_t index) {
    return index < outputs ? kind.outputs()->Get(index) : nullptr;
  };
  for (size_t index = 0; index < outputs; ++index) {
    const plan::Output &output = *outputAt(index);
    const plan::Encoding *encoding = output.encoding();
    if (!encoding && !isCompanion(output))
      continue;
    const plan::Output *scales = outputAt(index + 1), *one = nullptr;
    bool hasOne = encoding && encoding->level() != 0;
    if (hasOne)
      one = outputAt(index + 2);
    auto isOf = [](const plan::Output *companion, bool scales) {
      return companion && companion->is_scales() == scales &&
             companion->is_tensor_scale() != scales && !companion->encoding() &&
             length(companion->boxes()) == 0;
    };
    if (isCompanion(output) || !isOf(scales, true) ||
        (hasOne && !isOf(one, false)))
      return broken(place, "codes and scales do not belong together");
    if (!encodingFits(kind, output, *scales) ||
        (hasOne && !tensorScaleFits(kind, *encoding, *one)))
      return broken(place, "the geometry of an encoding makes no sense");
    index += hasOne ? 2 : 1;
  }
  return {};
}

Result<void> checkOutput(const Place &place, const plan::Plan &plan,
                         const plan::Class &kind, const plan::Output &output) {
  if (output.dtype() >= static_cast<uint8_t>(DType::F4_E2M1))
    return broken(place, fmt::format("dtype {}", output.dtype()));
  if (output.kernel() >= static_cast<int64_t>(length(plan.kernels())))
    return broken(place, fmt::format("kernel {} of {}", output.kernel(),
                                     length(plan.kernels())));
  if (length(output.shape()) > Shape::maxRank)
    return broken(place, fmt::format("{} dimensions", length(output.shape())));
  if (Result<void> scales = checkScales(place, kind, output); !scales)
    return scales;
  int64_t tiled = 0;
  for (size_t index = 0; index != length(output.boxes()); ++index) {
    const plan::Box &box = *output.boxes()->Get(index);
    Result<int64_t> elements = checkBox(place, kind, output, box);
    if (!elements)
      return std::unexpected(elements.error());
    tiled += *elements;
    if (box.input() >= 0 && output.kernel() < 0) {
      DType from = DType(kind.inputs()->Get(box.input())->dtype());
      if (bitSize(from) != bitSize(DType(output.dtype())))
        return broken(place, "movement between dtypes of different widths");
    }
  }
  if (tiled != output.elements() && !isCompanion(output))
    return broken(place, fmt::format("its boxes fill {} of {} elements", tiled,
                                     output.elements()));
  return {};
}

Result<void> checkClass(const std::string &name, const plan::Plan &plan,
                        const plan::Class &kind) {
  Place place{name, kind.label() ? kind.label()->str() : "a class"};
  size_t inputs = length(kind.inputs()), outputs = length(kind.outputs());
  if (outputs == 0 || length(kind.items()) % outputs != 0)
    return broken(place, fmt::format("{} items for {} outputs an instance",
                                     length(kind.items()), outputs));
  if (length(kind.sources()) != length(kind.items()) / outputs * inputs)
    return broken(place, fmt::format("{} sources for {} inputs an instance",
                                     length(kind.sources()), inputs));
  if (!allBelow(kind.sources(), length(plan.sources())) ||
      !allBelow(kind.items(), length(plan.items())))
    return broken(place,
                  "an instance names a source or item that is not there");
  for (size_t index = 0; index != inputs; ++index)
    if (kind.inputs()->Get(index)->dtype() > static_cast<uint8_t>(lastDType) ||
        isPacked(DType(kind.inputs()->Get(index)->stored())))
      return broken(place, "an input of unknown dtype");
  for (size_t index = 0; index != outputs; ++index) {
    Result<void> output =
        checkOutput(place, plan, kind, *kind.outputs()->Get(index));
    if (!output)
      return output;
  }
  return checkEncodings(place, kind);
}

/// Relative, and staying below the directory it is relative to.
bool isInnerPath(const flatbuffers::String *path) {
  if (!path || path->size() == 0)
    return false;
  std::filesystem::path inner = path->str();
  return inner.is_relative() &&
         std::find(inner.begin(), inner.end(), "..") == inner.end();
}

Result<void> checkPaths(const std::string &name, const plan::Plan &plan) {
  auto all = [](const auto *rows, auto path) {
    if (rows)
      for (const auto *row : *rows)
        if (!isInnerPath(path(*row)))
          return false;
    return true;
  };
  auto ownPath = [](const auto &row) { return row.path(); };
  if (!all(plan.source_files(), ownPath) || !all(plan.files(), ownPath) ||
      !all(plan.sidecars(), ownPath) ||
      !all(plan.copies(), [](const auto &row) { return row.source(); }) ||
      !all(plan.copies(), [](const auto &row) { return row.target(); }))
    return broken({name, "files"},
                  "a path is missing, absolute or leaves its directory");
  for (size_t index = 0; index != length(plan.tensors()); ++index)
    if (!plan.tensors()->Get(index)->key())
      return broken({name, fmt::format("tensor {}", index)}, "it has no name");
  return {};
}

Result<void> checkTables(const std::string &name, const plan::Plan &plan) {
  if (!isAligned(plan.items()) || !isAligned(plan.sources()))
    return broken({name, "tables"}, "they are not aligned");
  size_t files = length(plan.files()), starts = length(plan.starts());
  for (size_t index = 0; index != length(plan.items()); ++index) {
    const plan::Item *item = plan.items()->Get(index);
    if (item->file() >= files || item->tensor() >= length(plan.tensors()))
      return broken({name, fmt::format("item {}", index)},
                    "its file or tensor is not there");
    size_t rank = length(plan.tensors()->Get(item->tensor())->shape());
    if (plan.format() == plan::TargetFormat_TorchDist &&
        (item->start() > starts || starts - item->start() < rank))
      return broken({name, fmt::format("item {}", index)},
                    "the first index of its chunk is not there");
  }
  for (size_t index = 1; index < files; ++index)
    if (plan.files()->Get(index - 1)->plain() &&
        !plan.files()->Get(index)->plain())
      return broken({name, fmt::format("file {}", index)},
                    "it comes after files that stand beside the checkpoint");
  for (size_t index = 0; index != length(plan.sources()); ++index)
    if (plan.sources()->Get(index)->file() >= length(plan.source_files()))
      return broken({name, fmt::format("source {}", index)},
                    "its file is not there");
  if (length(plan.objects()) != length(plan.object_files()) ||
      !allBelow(plan.object_files(), files))
    return broken({name, "byte objects"}, "their files are not there");
  auto isSource = [&](int64_t index) {
    return index < static_cast<int64_t>(length(plan.sources()));
  };
  for (size_t index = 0; index != length(plan.comparisons()); ++index) {
    const plan::Comparison *pair = plan.comparisons()->Get(index);
    if (pair->first() < 0 || !isSource(pair->first()) ||
        !isSource(pair->second()))
      return broken({name, fmt::format("comparison {}", index)},
                    "its source is not there");
    const uint64_t extents = length(pair->shape());
    if (extents == 0)
      continue;
    if (pair->second() < 0)
      return broken({name, fmt::format("comparison {}", index)},
                    "its codes are not there");
    if (pair->bytes() != 4 * extents && pair->bytes() != 8 * extents)
      return broken({name, fmt::format("comparison {}", index)},
                    "its integers have neither 4 nor 8 bytes");
  }
  return {};
}

} // namespace

Result<void> checkPlan(const std::string &name, const plan::Plan &plan) {
  if (Result<void> paths = checkPaths(name, plan); !paths)
    return paths;
  if (Result<void> tables = checkTables(name, plan); !tables)
    return tables;
  for (size_t index = 0; index != length(plan.classes()); ++index)
    if (Result<void> kind = checkClass(name, plan, *plan.classes()->Get(index));
        !kind)
      return kind;
  return {};
}

} // namespace mbc
