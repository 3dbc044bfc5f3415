#include "compiler/Binding/QuantizedTargets.h"

#include "compiler/Binding/QuantizedTensors.h"
#include "compiler/PairedRows.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace mbc::compiler {
namespace {

constexpr std::string_view weight = ".weight", scale = ".scale",
                           blocksEnding = "_blocks";
constexpr int64_t mxGroup = 32, nvGroup = 16;

int64_t blocks(int64_t extent, int64_t block) {
  return extent / block + (extent % block != 0);
}

int64_t last(const Shape &shape) { return shape[shape.rank() - 1]; }

/// What follows the values' name in a companion's; ".scale" for S.scale.
std::string endingOf(std::string_view companion, std::string_view values) {
  return std::string(
      companion.starts_with(values) ? companion.substr(values.size()) : scale);
}

Encoding originalEncoding(const Checkpoint &originals,
                          const StoredTensor &codes,
                          const Quantized &quantized) {
  const StoredTensor &scales = originals.tensors[quantized.scales];
  Encoding encoding;
  encoding.codes = quantized.type.dtype;
  encoding.storedCodes = codes.dtype;
  encoding.scale = *quantized.type.scale;
  encoding.storedScale = scales.dtype;
  encoding.codesEnding =
      codes.key.empty() ? "" : endingOf(codes.key, codes.name);
  encoding.scalesEnding = endingOf(scales.name, codes.name);
  encoding.hasOriginals = true;
  encoding.values = quantized.type.shape;
  encoding.scaleTensor = *scales.shape;
  if (quantized.tensorScale != Checkpoint::none) {
    const StoredTensor &one = originals.tensors[quantized.tensorScale];
    encoding.tensorScaleEnding = endingOf(one.name, codes.name);
    encoding.tensorScale = *one.shape;
  }
  return encoding;
}

Encoding fp8Block(const Quantization &declared) {
  auto [rows, columns] =
      declared.block.value_or(std::array<int64_t, 2>{128, 128});
  Encoding encoding;
  encoding.scale = {DType::F32, {}, rows, columns};
  encoding.scalesEnding = "_scale_inv";
  return encoding;
}

Encoding mxfp4() {
  Encoding encoding;
  encoding.codes = DType::F4_E2M1;
  encoding.storedCodes = DType::U8;
  encoding.scale = {DType::F8_E8M0, {}, 1, mxGroup};
  encoding.storedScale = DType::U8;
  encoding.codesEnding = "_packed";
  encoding.scalesEnding = "_scale";
  return encoding;
}

/// As ModelOpt names them.
Encoding nvfp4() {
  Encoding encoding;
  encoding.codes = DType::F4_E2M1;
  encoding.storedCodes = DType::U8;
  encoding.scale = {DType::F8_E4M3, {}, 1, nvGroup, TensorScale::Multiplies};
  encoding.storedScale = DType::F8_E4M3;
  encoding.scalesEnding = "_scale";
  encoding.tensorScaleEnding = "_scale_2";
  return encoding;
}

/// NVFP4 as compressed-tensors has it.
Encoding dividingNvfp4(Encoding encoding) {
  encoding.scale.tensor = TensorScale::Divides;
  encoding.codesEnding = "_packed";
  encoding.tensorScaleEnding = "_global_scale";
  encoding.tensorScale = {1};
  return encoding;
}

/// The usual encoding, under the names and with the dtypes that the import
/// saw, if it saw that kind of codes.
Encoding asRecorded(Encoding encoding, const Record &record,
                    const RecordedTensor &tensor) {
  bool packed = encoding.codes == DType::F4_E2M1;
  bool twoLevels = encoding.scale.tensor != TensorScale::None;
  encoding.mayBeStacked = !twoLevels;
  if ((tensor.dtype != DType::F8_E4M3) != packed ||
      tensor.dtype == DType::I32 || record.isNvfp4(tensor) != twoLevels)
    return encoding;
  if (twoLevels)
    return record.find(tensor.name + "_global_scale") ? dividingNvfp4(encoding)
                                                      : encoding;
  for (const std::string &name : scaleNames(tensor.name))
    if (const RecordedTensor *scales = record.find(name)) {
      encoding.scalesEnding = endingOf(name, tensor.name);
      encoding.storedCodes = tensor.dtype;
      encoding.storedScale = scales->dtype;
      encoding.scale.dtype =
          scales->dtype == DType::U8 ? DType::F8_E8M0 : scales->dtype;
      if (packed)
        encoding.codesEnding = encoding.scalesEnding == "_scales"  ? "_blocks"
                               : encoding.scalesEnding == "_scale" ? "_packed"
                                                                   : "";
      break;
    }
  return encoding;
}

std::string_view lastWord(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

/// Whether a weight is that of a projection in attention, MLP or experts, by
/// the words that models use. Norms, embeddings, heads and routers have others.
bool isProjection(std::string_view module) {
  static constexpr std::array<std::string_view, 10> words = {
      "w1", "w2", "w3", "wq_a", "wq_b", "wkv", "wq", "wo", "wo_a", "wo_b"};
  for (std::string_view tower : {"visual", "vision", "audio", "image"})
    if (module.contains(tower))
      return false;
  std::string_view word = lastWord(module);
  return word.contains("proj") || std::ranges::find(words, word) != words.end();
}

bool isPlainPattern(std::string_view pattern) {
  return pattern.find_first_of("*+?[(|\\^$") == pattern.npos &&
         !pattern.starts_with("re:");
}

} // namespace

/// A list of quantization_config names modules, or gives regular expressions,
/// with `re:` before them or without, for the beginning of a name.
Result<void>
QuantizedTargets::except(const std::vector<std::string> &patterns) {
  for (const std::string &pattern : patterns) {
    if (isPlainPattern(pattern)) {
      exceptedNames_.push_back(pattern);
      continue;
    }
    try {
      exceptedStarts_.emplace_back(
          pattern.starts_with("re:") ? pattern.substr(3) : pattern);
    } catch (const std::regex_error &) {
      return fail("config.json: quantization_config excepts \"{}\", which is "
                  "neither a module's name nor a regular expression",
                  pattern);
    }
  }
  return {};
}

bool QuantizedTargets::isExcepted(std::string_view module) const {
  auto isNamed = [&](std::string_view pattern) {
    // Published lists also name modules without the `model.` around all.
    for (std::string_view name : {module, module.substr(module.find('.') + 1)})
      if (name == pattern ||
          (name.starts_with(pattern) && name[pattern.size()] == '.'))
        return true;
    return false;
  };
  auto startsSo = [&](const std::regex &start) {
    return std::regex_search(module.begin(), module.end(), start,
                             std::regex_constants::match_continuous);
  };
  return std::ranges::any_of(exceptedNames_, isNamed) ||
         std::ranges::any_of(exceptedStarts_, startsSo);
}

Result<QuantizedTargets> QuantizedTargets::kept(const Checkpoint &originals,
                                                const Quantization &declared) {
  QuantizedTargets targets;
  for (uint32_t i = 0; i != originals.tensors.size(); ++i) {
    const StoredTensor &codes = originals.tensors[i];
    uint32_t scales = scalesOf(originals, codes);
    if (scales == Checkpoint::none)
      continue;
    auto quantized = quantizedTensor(originals, codes, scales, declared);
    if (!quantized)
      return fail("{}: {}", originals.root, quantized.error());
    targets.known_.emplace(codes.name,
                           Known{originalEncoding(originals, codes, *quantized),
                                 {i, scales, quantized->tensorScale,
                                  besideCodes(originals, codes)}});
  }
  return targets;
}

Result<QuantizedTargets> QuantizedTargets::fresh(const std::string &format,
                                                 const Record *record,
                                                 const Quantization &declared) {
  QuantizedTargets targets;
  Encoding usual = format == "mxfp4"   ? mxfp4()
                   : format == "nvfp4" ? nvfp4()
                                       : fp8Block(declared);
  bool sameMethod = (declared.method == "fp8") == (format == "fp8-block");
  if (record)
    for (const RecordedTensor &tensor : record->tensors)
      if (record->isQuantized(tensor))
        targets.known_.emplace(
            tensor.name,
            Known{sameMethod ? asRecorded(usual, *record, tensor) : usual, {}});
  if (targets.known_.empty()) {
    targets.usual_ = usual;
    if (Result<void> read = targets.except(declared.excepted); !read)
      return std::unexpected(read.error());
  }
  return targets;
}

bool QuantizedTargets::isWanted(std::string_view values) const {
  std::string_view module = values;
  if (values.ends_with(weight))
    module.remove_suffix(weight.size());
  else if (!values.contains(".experts.") || values.ends_with("bias"))
    return false; // stacked experts are no modules of their own
  return isProjection(module) && !isExcepted(module);
}

std::optional<Encoding>
QuantizedTargets::encodingOf(std::string_view values) const {
  if (auto found = known_.find(std::string(values)); found != known_.end())
    return found->second.encoding;
  return usual_ && isWanted(values) ? usual_ : std::nullopt;
}

const QuantizedTargets::Originals *
QuantizedTargets::originalsOf(std::string_view values) const {
  auto found = known_.find(std::string(values));
  return found == known_.end() || !found->second.encoding.hasOriginals
             ? nullptr
             : &found->second.originals;
}

std::string misfit(const Encoding &encoding, const Shape &values) {
  if (encoding.hasOriginals)
    return values == encoding.values
               ? ""
               : fmt::format("its originals in {} are {}", originalsFolder,
                             toString(encoding.values));
  if (values.rank() < 2 || values.elements() == 0)
    return "quantised weights have rows and columns";
  int64_t rows = encoding.scale.blockRows,
          columns = encoding.scale.blockColumns;
  bool isStacked = values.rank() > 2;
  if (isStacked &&
      (!encoding.mayBeStacked || encoding.codesEnding == "_packed"))
    return "stacked matrices have no such form; --hf-experts per-expert writes "
           "a matrix an expert, where the family has that form";
  if (encoding.codes == DType::F4_E2M1)
    return last(values) % columns == 0
               ? ""
               : fmt::format("{} columns are no multiple of a group of {}",
                             last(values), columns);
  int64_t matrixRows = values[values.rank() - 2];
  return !isStacked || matrixRows % rows == 0
             ? ""
             : fmt::format("{} rows of stacked matrices are no multiple of the "
                           "{} of a block",
                           matrixRows, rows);
}

Shape codesShape(const Encoding &encoding, const Shape &values) {
  if (pairsRows(encoding.scale)) {
    Shape codes = encoding.values;
    codes[codes.rank() - 2] /= 2;
    return codes;
  }
  Shape shape = values;
  if (encoding.codesEnding == blocksEnding) {
    shape[shape.rank() - 1] /= mxGroup;
    shape.push_back(mxGroup / 2);
  } else if (isPacked(encoding.codes)) {
    shape[shape.rank() - 1] /= encoding.storedCodes == DType::I32 ? 8 : 2;
  }
  return shape;
}

Shape scalesShape(const Encoding &encoding, const Shape &values) {
  if (encoding.hasOriginals)
    return encoding.scaleTensor;
  Shape shape = values;
  size_t rank = shape.rank();
  shape[rank - 1] = blocks(shape[rank - 1], encoding.scale.blockColumns);
  shape[rank - 2] = blocks(shape[rank - 2], encoding.scale.blockRows);
  return shape;
}

std::string codesName(const Encoding &encoding, std::string_view values) {
  return std::string(values).append(encoding.codesEnding);
}

std::string scalesName(const Encoding &encoding, std::string_view values) {
  if (encoding.scalesEnding == scale && values.ends_with(weight))
    values.remove_suffix(weight.size());
  return std::string(values).append(encoding.scalesEnding);
}

std::string tensorScaleName(const Encoding &encoding, std::string_view values) {
  return std::string(values).append(encoding.tensorScaleEnding);
}

} // namespace mbc::compiler
