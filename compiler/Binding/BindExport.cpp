#include "compiler/Binding/BindCommon.h"
#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/MegatronFacts.h"
#include "compiler/Binding/MegatronOperands.h"
#include "compiler/Binding/NameGroups.h"
#include "compiler/Binding/QuantizedTargets.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>

namespace mbc::compiler {

namespace {
class Exporter {
public:
  Exporter(const BindInput &input, dsl::Diagnostics &diagnostics)
      : model(input.model), checkpoint(input.checkpoint), input(input),
        diagnostics(diagnostics), operands(input, binding, diagnostics),
        writes(input.model, dsl::Side::Hf, diagnostics) {}

  Binding bind() {
    binding.direction = Direction::Export;
    for (uint32_t i = 0; i != model.instances.size(); ++i)
      bindInstance(i);
    operands.tieCopies();
    operands.report();
    if (input.record)
      reportUnwritten(*input.record);
    return std::move(binding);
  }

private:
  void bindInstance(uint32_t index) {
    const dsl::RuleInstance &instance = model.instances[index];
    const dsl::Mapping &mapping = model.mappings[instance.mapping];
    const bool complete = operands.find(index);
    for (const std::string &name : instance.hf)
      writes.use(name, index, "written by");
    // Parameters that only initialise have nothing to give back.
    if (!complete || instance.hf.empty())
      return;
    std::vector<OperandType> key = operands.types;
    addHfDTypes(key, instance, mapping);
    std::optional<uint32_t> known = classes.find(instance.mapping, key);
    if (!known)
      known = classes.add(instance.mapping, key, classOf(instance, key));
    classes.addInstance(*known, index, operands.refs);
    if (*known != ClassTable::rejected &&
        mapping.shard.kind == dsl::ShardKind::Vocab)
      operands.dropRows(model.vocabSize);
  }

  /// What the import read has to come back, or to be named by the spec.
  void reportUnwritten(const Record &record) {
    if (!input.options.hfExperts.empty() || !input.options.forms.empty())
      return; // other names were asked for
    std::unordered_set<std::string_view> tied;
    for (const dsl::TiedCopy &tie : model.ties)
      tied.insert(tie.copy);
    std::vector<std::string> unwritten;
    for (const RecordedTensor &tensor : record.tensors) {
      if (!record.returns(tensor.name))
        continue;
      std::string_view name = tensor.name;
      bool ignored = std::any_of(
          model.ignores.begin(), model.ignores.end(),
          [&](const auto &ignore) { return matches(ignore.pattern, name); });
      if (!writes.contains(name) && !tied.contains(name) && !ignored)
        unwritten.push_back(tensor.name);
    }
    for (const NameGroup &group : groupNames(unwritten))
      diagnostics.error(
          {}, fmt::format("{} was read at the import, and no rule of {} writes "
                          "it; map it, or name it after `ignore`",
                          group.text, model.name));
  }

  /// The dtype in which each HF tensor leaves is part of what makes a class.
  void addHfDTypes(std::vector<OperandType> &key,
                   const dsl::RuleInstance &instance,
                   const dsl::Mapping &mapping) {
    for (const std::string &name : instance.hf) {
      OperandType operand;
      operand.encoding = input.targets->encodingOf(name);
      // Codes are made of the values as Megatron has them.
      operand.dtype = operand.encoding ? operands.types.front().dtype
                                       : hfDType(name, mapping);
      key.push_back(std::move(operand));
    }
  }

  DType hfDType(const std::string &name, const dsl::Mapping &mapping) const {
    DType stored = operands.types.front().dtype;
    const DType usual = usualHfDType(name, mapping);
    std::optional<DType> asked = dtypeOption(input.options.dtype);
    // A pin holds for Hugging Face, too, where it has the pinned dtype.
    const bool pinned = dtypeOption(mapping.dtype) == usual;
    return asked && !pinned && isFloat(stored) ? *asked : usual;
  }

  /// Where --dtype does not ask for another: recorded, else what the rule says.
  DType usualHfDType(const std::string &name,
                     const dsl::Mapping &mapping) const {
    const RecordedTensor *recorded =
        input.record ? input.record->find(name) : nullptr;
    if (recorded)
      return input.record->isQuantized(*recorded) ? input.configDType
                                                  : recorded->dtype;
    if (DType stored = operands.types.front().dtype; !isFloat(stored))
      return stored;
    const std::string &said =
        mapping.hfDType.empty() ? mapping.dtype : mapping.hfDType;
    return dtypeOption(said).value_or(input.configDType);
  }

  std::optional<RuleClass> classOf(const dsl::RuleInstance &instance,
                                   const std::vector<OperandType> &key) {
    RuleClass type;
    type.mapping = &model.mappings[instance.mapping];
    type.megatron = operands.types;
    type.exactCasts = !dtypeOption(input.options.dtype);
    if (!inferHf(type, instance, key))
      return std::nullopt;
    return type;
  }

  /// `instance` is of the class at hand.
  bool misfit(const dsl::Mapping &mapping, const dsl::RuleInstance &instance,
              ShapeError error) {
    const StoredTensor &first =
        checkpoint.tensors[operands.refs.front().tensor];
    error.text +=
        fmt::format("; {} in {} has shape {}", instance.megatron.front(),
                    checkpoint.files[first.pieces.front().file].path,
                    toString(operands.types.front().shape));
    if (std::string known = shapeByArguments(model, instance.megatron.front());
        !known.empty())
      error.text += fmt::format("; Megatron's arguments give it {}", known);
    shapeError(mapping, error, diagnostics);
    return false;
  }

  bool inferHf(RuleClass &type, const dsl::RuleInstance &instance,
               const std::vector<OperandType> &key) {
    const dsl::Mapping &mapping = *type.mapping;
    std::vector<Shape> shapes;
    for (const OperandType &operand : type.megatron)
      shapes.push_back(operand.shape);
    std::expected<Shape, ShapeError> whole =
        inferUp(mapping.megatron, shapes, instance.megatron);
    if (!whole)
      return misfit(mapping, instance, whole.error());
    if (mapping.shard.kind == dsl::ShardKind::Vocab &&
        !unpadVocabulary(type, *whole, instance))
      return false;
    auto targets = inferDown(mapping.hf, *whole, instance.hf);
    if (!targets)
      return misfit(mapping, instance, targets.error());
    for (size_t k = 0; k != targets->size(); ++k) {
      OperandType operand = key[operands.types.size() + k];
      operand.shape = (*targets)[k];
      if (operand.encoding && !encodes(operand, mapping, instance.hf[k]))
        return false;
      type.hf.push_back(operand);
    }
    return inferSections(type, instance.hf, diagnostics);
  }

  /// Whether values can leave as --quant asks.
  bool encodes(const OperandType &values, const dsl::Mapping &mapping,
               const std::string &name) {
    std::string why = compiler::misfit(*values.encoding, values.shape);
    if (values.dtype != DType::BF16 && values.dtype != DType::F16 &&
        values.dtype != DType::F32)
      why = "weights are quantised from BF16, F16 or F32";
    if (why.empty())
      return true;
    ruleError(mapping,
              fmt::format("--quant {}: {} is {} {}: {}", input.options.quant,
                          name, safetensorsName(values.dtype),
                          toString(values.shape), why),
              diagnostics);
    return false;
  }

  bool unpadVocabulary(RuleClass &type, Shape &whole,
                       const dsl::RuleInstance &instance) {
    int64_t stored = whole.empty() ? 0 : whole[0];
    if (stored < model.vocabSize) {
      ruleError(
          *type.mapping,
          fmt::format("{} has {} rows, config.json declares a vocabulary of {}",
                      instance.megatron.front(), stored, model.vocabSize),
          diagnostics);
      return false;
    }
    binding.paddedVocab = stored;
    type.vocabRows = model.vocabSize;
    whole[0] = model.vocabSize;
    return true;
  }

  const dsl::Model &model;
  const Checkpoint &checkpoint;
  const BindInput &input;
  dsl::Diagnostics &diagnostics;
  Binding binding;
  MegatronOperands operands; ///< of the instance at hand
  NameUses writes;
  ClassTable classes{binding};
};
} // namespace

Binding bindExport(const BindInput &input, dsl::Diagnostics &diagnostics) {
  return Exporter(input, diagnostics).bind();
}

} // namespace mbc::compiler
