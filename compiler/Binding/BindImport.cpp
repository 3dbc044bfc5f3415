#include "compiler/Binding/BindCommon.h"
#include "compiler/Binding/Coverage.h"
#include "compiler/Binding/Divisions.h"
#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/MegatronFacts.h"
#include "compiler/Binding/NameGroups.h"
#include "compiler/Binding/QuantizedTensors.h"

#include <fmt/format.h>

namespace mbc::compiler {

namespace {
class Importer {
public:
  Importer(const BindInput &input, dsl::Diagnostics &diagnostics)
      : model(input.model), checkpoint(input.checkpoint), input(input),
        diagnostics(diagnostics), coverage(input.checkpoint),
        reads(input.checkpoint, input.model, diagnostics),
        writes(input.model, dsl::Side::Megatron, diagnostics) {}

  Binding bind() {
    binding.direction = Direction::Import;
    for (uint32_t i = 0; i != model.instances.size(); ++i)
      bindInstance(i);
    coverage.tieHfCopies(input, binding, diagnostics);
    coverage.ignore(model.ignores, diagnostics);
    noteIgnored();
    if (size_t count = coverage.activationScales())
      binding.notes.push_back(fmt::format(
          "{} scales of activations are left out: Megatron keeps none{}", count,
          input.options.quant == "keep" ? "; they come back with the weights "
                                          "that stay as they are"
                                        : ""));
    std::vector<std::string> leftOver = coverage.leftOver();
    reportMissing(missing, leftOver, model, checkpoint, diagnostics);
    reportMissingScales();
    reportLeftOver(leftOver, missing, model, diagnostics);
    checkDivisions(model, binding, input.layout, diagnostics);
    for (auto &[name, instance] : missing)
      binding.missing.push_back(std::move(name));
    binding.leftOver = std::move(leftOver);
    if (!diagnostics.hasErrors()) // what is missing would be reported again
      checkMegatronFacts(model, binding, diagnostics);
    return std::move(binding);
  }

private:
  void bindInstance(uint32_t index) {
    const dsl::RuleInstance &instance = model.instances[index];
    types.assign(instance.hf.size(), {});
    refs.clear();
    bool complete = true;
    for (size_t k = 0; k != instance.hf.size(); ++k)
      complete &= bindOperand(instance.hf[k], index, types[k]);
    for (const std::string &name : instance.megatron)
      writes.use(name, index, "written by");
    if (!complete)
      return;
    std::optional<uint32_t> known = classes.find(instance.mapping, types);
    if (!known)
      known = classes.add(instance.mapping, types, classOf(instance));
    classes.addInstance(*known, index, refs);
  }

  /// Finds one HF tensor; of a quantised one, both of which it consists.
  bool bindOperand(const std::string &name, uint32_t instance,
                   OperandType &type) {
    uint32_t tensor = checkpoint.find(name);
    if (tensor == Checkpoint::none) {
      missing.emplace_back(name, instance);
      return false;
    }
    reads.use(tensor, instance,
              "read on import, and would be written on export, by");
    coverage.use(tensor);
    const StoredTensor &stored = checkpoint.tensors[tensor];
    type.dtype = stored.dtype;
    type.shape = *stored.shape;
    if (stored.order)
      type.order = *stored.order;
    refs.push_back({tensor, 0});
    uint32_t scales = scalesOf(checkpoint, stored);
    if (scales != Checkpoint::none)
      return isContiguous(tensor, instance) && isContiguous(scales, instance) &&
             bindQuantized(stored, scales, instance, type);
    if (isUnreadFloat8(stored.dtype))
      return unreadFloat8(stored, instance);
    if (stored.dtype != DType::F8_E4M3 && stored.key.empty())
      return isFloat(stored.dtype) || isNumbers(stored, instance);
    scaleless.push_back({tensor, instance});
    return false;
  }

  /// What is read in blocks has to lie row by row.
  bool isContiguous(uint32_t tensor, uint32_t instance) {
    const StoredTensor &stored = checkpoint.tensors[tensor];
    if (stored.order)
      ruleError(model.mappings[model.instances[instance].mapping],
                fmt::format("{} in {} is a transposed view; save it contiguous",
                            stored.name,
                            checkpoint.files[stored.pieces[0].file].path),
                diagnostics);
    return !stored.order;
  }

  /// Of a weight that is not read: one message is enough.
  void useCompanions(const StoredTensor &codes) {
    for (uint32_t tensor : companionsOf(checkpoint, codes))
      coverage.use(tensor);
  }

  bool unreadFloat8(const StoredTensor &stored, uint32_t instance) {
    useCompanions(stored);
    ruleError(model.mappings[model.instances[instance].mapping],
              fmt::format("{} is {} {}: of the 8-bit floats mbc reads F8_E4M3; "
                          "store it as BF16, or quantise it in F8_E4M3",
                          stored.name, safetensorsName(stored.dtype),
                          toString(*stored.shape)),
              diagnostics);
    return false;
  }

  /// A weight in integers is a quantised one that has lost its scales; other
  /// tensors may be integers.
  bool isNumbers(const StoredTensor &stored, uint32_t instance) {
    if (!stored.name.ends_with(".weight"))
      return true;
    ruleError(
        model.mappings[model.instances[instance].mapping],
        fmt::format("{} is {} {} and has no scales, {} or {}: as numbers, "
                    "weights are F64, F32, F16 or BF16",
                    stored.name, safetensorsName(stored.dtype),
                    toString(*stored.shape), scaleNames(stored.name).front(),
                    scaleNames(stored.name).back()),
        diagnostics);
    return false;
  }

  bool bindQuantized(const StoredTensor &codes, uint32_t scales,
                     uint32_t instance, OperandType &type) {
    coverage.use(scales);
    std::expected<Quantized, std::string> quantized =
        quantizedTensor(checkpoint, codes, scales, input.quantization);
    if (!quantized) {
      useCompanions(codes);
      ruleError(model.mappings[model.instances[instance].mapping],
                quantized.error(), diagnostics);
      return false;
    }
    if (quantized->shape != Checkpoint::none) {
      coverage.use(quantized->shape);
      expectShape(quantized->shape, refs.back(), quantized->type.shape);
    }
    type = quantized->type;
    refs.push_back({scales, 0});
    if (quantized->tensorScale != Checkpoint::none) {
      coverage.use(quantized->tensorScale);
      refs.push_back({quantized->tensorScale, 0});
    }
    return true;
  }

  /// A tensor that repeats the shape of values has to say what the headers of
  /// their codes do; its numbers are read when the plan runs.
  void expectShape(uint32_t tensor, SourceRef codes, const Shape &shape) {
    BoundComparison comparison;
    comparison.copy = {tensor, 0};
    comparison.hasOwner = true;
    comparison.owner = codes;
    comparison.shape = shape;
    comparison.bytes =
        shape.rank() * byteSize(checkpoint.tensors[tensor].dtype);
    binding.comparisons.push_back(std::move(comparison));
  }

  std::optional<RuleClass> classOf(const dsl::RuleInstance &instance) {
    RuleClass type;
    type.mapping = &model.mappings[instance.mapping];
    type.hf = types;
    if (!inferMegatron(type, instance))
      return std::nullopt;
    return type;
  }

  bool misfit(const dsl::Mapping &mapping, const ShapeError &error) {
    shapeError(mapping, error, diagnostics);
    return false;
  }

  /// Megatron's shapes and dtypes from those of the HF tensors, and that the
  /// way back gives the HF shapes again.
  bool inferMegatron(RuleClass &type, const dsl::RuleInstance &instance) {
    const dsl::Mapping &mapping = *type.mapping;
    std::vector<Shape> shapes;
    for (const OperandType &operand : type.hf)
      shapes.push_back(operand.shape);
    std::expected<Shape, ShapeError> whole =
        inferUp(mapping.hf, shapes, instance.hf);
    if (!whole)
      return misfit(mapping, whole.error());
    auto back = inferDown(mapping.hf, *whole, instance.hf);
    if (!back)
      return misfit(mapping, back.error());
    for (size_t k = 0; k != shapes.size(); ++k)
      if ((*back)[k] != shapes[k]) {
        ruleError(
            mapping,
            fmt::format("{} has shape {}, but the way back would give it {}",
                        instance.hf[k], toString(shapes[k]),
                        toString((*back)[k])),
            diagnostics);
        return false;
      }
    if (mapping.shard.kind == dsl::ShardKind::Vocab &&
        !padVocabulary(type, *whole, instance))
      return false;
    auto targets = inferDown(mapping.megatron, *whole, instance.megatron);
    if (!targets)
      return misfit(mapping, targets.error());
    std::optional<DType> dtype = targetDType(mapping, type, instance);
    if (!dtype)
      return false;
    for (const Shape &shape : *targets) {
      OperandType operand;
      operand.dtype = *dtype;
      operand.shape = shape;
      type.megatron.push_back(operand);
    }
    return inferSections(type, instance.hf, diagnostics);
  }

  bool padVocabulary(RuleClass &type, Shape &whole,
                     const dsl::RuleInstance &instance) {
    int64_t rows = whole.empty() ? 0 : whole[0];
    if (rows < model.vocabSize) {
      ruleError(
          *type.mapping,
          fmt::format("{} has {} rows, config.json declares a vocabulary of {}",
                      instance.hf.front(), rows, model.vocabSize),
          diagnostics);
      return false;
    }
    if (model.vocabSize < 1) {
      ruleError(*type.mapping,
                fmt::format("config.json declares a vocabulary of {}",
                            model.vocabSize),
                diagnostics);
      return false;
    }
    if (rows > model.vocabSize)
      binding.notes.push_back(fmt::format(
          "{} has {} rows, config.json declares a vocabulary of "
          "{}: the way back gives {} rows",
          instance.hf.front(), rows, model.vocabSize, model.vocabSize));
    int64_t divisor = input.options.vocabDivisor != 0
                          ? input.options.vocabDivisor
                          : model.vocabMultiple;
    int64_t multiple = divisor * input.layout.tp;
    type.vocabRows = rows;
    whole[0] = (rows + multiple - 1) / multiple * multiple;
    binding.paddedVocab = whole[0];
    return true;
  }

  static bool sameFormat(const OperandType &a, const OperandType &b) {
    if (a.dtype != b.dtype || a.scale.has_value() != b.scale.has_value())
      return false;
    return !a.scale || (a.scale->dtype == b.scale->dtype &&
                        a.scale->blockRows == b.scale->blockRows &&
                        a.scale->blockColumns == b.scale->blockColumns &&
                        a.scale->tensor == b.scale->tensor);
  }

  static std::string_view levelText(TensorScale tensor) {
    return tensor == TensorScale::None ? ""
           : tensor == TensorScale::Multiplies
               ? ", times one for the tensor"
               : ", divided by one for the tensor";
  }

  static std::string formatText(const OperandType &operand) {
    std::string text(safetensorsName(operand.dtype));
    if (!operand.scale)
      return text;
    auto extent = [](int64_t block) {
      return block >= wholeAxis ? std::string("all") : std::to_string(block);
    };
    return fmt::format(
        "{} with {} scales for {} rows x {} columns{}", text,
        safetensorsName(operand.scale->dtype), extent(operand.scale->blockRows),
        extent(operand.scale->blockColumns), levelText(operand.scale->tensor));
  }

  /// The dtype of the Megatron side: pinned by the rule, else asked for, else
  /// the source's (of quantised tensors: config's).
  std::optional<DType> targetDType(const dsl::Mapping &mapping,
                                   const RuleClass &type,
                                   const dsl::RuleInstance &instance) {
    std::optional<DType> asked = dtypeOption(input.options.dtype), common;
    for (size_t k = 0; k != type.hf.size(); ++k) {
      if (!sameFormat(type.hf[0], type.hf[k])) {
        ruleError(mapping,
                  fmt::format("{} is {}, {} is {}: the pieces of one parameter "
                              "have to be stored in one number format",
                              instance.hf[0], formatText(type.hf[0]),
                              instance.hf[k], formatText(type.hf[k])),
                  diagnostics);
        return std::nullopt;
      }
      DType dtype = type.hf[k].scale ? input.configDType : type.hf[k].dtype;
      common = asked && isFloat(dtype) ? *asked : dtype;
    }
    if (std::optional<DType> pinned = dtypeOption(mapping.dtype))
      return pinned;
    return common ? common : asked ? asked : input.configDType;
  }

  void noteIgnored() {
    if (coverage.ignored().empty())
      return;
    binding.notes.push_back(
        fmt::format("{} tensors are left out, as the spec {} says: {}",
                    coverage.ignored().size(), model.name,
                    listOf(groupNames(coverage.ignored()))));
  }

  void reportMissingScales() {
    constexpr size_t most = 10;
    for (size_t i = 0; i != std::min(scaleless.size(), most); ++i) {
      const StoredTensor &codes = checkpoint.tensors[scaleless[i].tensor];
      std::string name = missingScales(codes);
      ruleError(model.mappings[model.instances[scaleless[i].instance].mapping],
                fmt::format("{} is not in {}: its weight is {} and cannot be "
                            "read without scales: {}",
                            name, checkpoint.root, safetensorsName(codes.dtype),
                            expectedScales(codes, input.quantization)),
                diagnostics);
    }
    if (scaleless.size() > most)
      diagnostics.error({}, fmt::format("and {} more scales are missing",
                                        scaleless.size() - most));
  }

  /// Codes without scales.
  struct Scaleless {
    uint32_t tensor, instance;
  };
  const dsl::Model &model;
  const Checkpoint &checkpoint;
  const BindInput &input;
  dsl::Diagnostics &diagnostics;
  Coverage coverage;
  TensorUses reads;
  NameUses writes;
  Binding binding;
  ClassTable classes{binding};
  std::vector<std::pair<std::string, uint32_t>> missing;
  std::vector<Scaleless> scaleless;
  // Of the instance at hand:
  std::vector<OperandType> types;
  std::vector<SourceRef> refs;
};
} // namespace

/// The stored tensor of a class's operand, by one of its instances.
static const SourceRef &refOf(const BoundClass &bound, size_t instance,
                              size_t operand) {
  size_t at = instance * bound.refsPerInstance + operand;
  for (size_t k = 0; k != operand; ++k)
    at += bound.type.hf[k].companions();
  return bound.refs[at];
}

void requireZeros(const Checkpoint &checkpoint,
                  const std::vector<RoundTrip> &roundTrips, Binding &binding,
                  dsl::Diagnostics &diagnostics) {
  for (size_t index = 0; index != roundTrips.size(); ++index)
    for (const ZeroRange &range : roundTrips[index].zeros) {
      const BoundClass &bound = binding.classes[index];
      const OperandType &type = bound.type.hf[range.operand];
      if (type.scale) {
        ruleError(*bound.type.mapping,
                  fmt::format("{} elements of a quantised tensor have no place "
                              "in Megatron; write it in a float type",
                              range.count),
                  diagnostics);
        continue;
      }
      for (size_t i = 0; i != bound.instances.size(); ++i) {
        BoundComparison zero;
        zero.copy = refOf(bound, i, range.operand);
        zero.required = true;
        zero.rowBytes = byteSize(type.dtype) * type.shape.elements() /
                        (type.shape.empty() ? 1 : type.shape[0]);
        zero.copyOffset = range.start * byteSize(type.dtype);
        zero.bytes = range.count * byteSize(type.dtype);
        zero.copyName = checkpoint.tensors[zero.copy.tensor].name;
        binding.comparisons.push_back(std::move(zero));
      }
    }
}

Binding bindImport(const BindInput &input, dsl::Diagnostics &diagnostics) {
  return Importer(input, diagnostics).bind();
}

} // namespace mbc::compiler
