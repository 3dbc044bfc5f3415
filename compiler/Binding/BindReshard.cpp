#include "compiler/Binding/Divisions.h"
#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/MegatronOperands.h"

#include <fmt/format.h>

namespace mbc::compiler {

namespace {
/// Makes of every Megatron tensor of every rule a rule of its own, that it
/// equals itself. Of the spec's rules remain the shard, the stage and the
/// dtype, and what their right sides say of shapes and sections.
class Resharder {
public:
  Resharder(const BindInput &input, const ParallelLayout &target,
            dsl::Diagnostics &diagnostics)
      : input(input), model(input.model), target(target),
        diagnostics(diagnostics), operands(input, binding, diagnostics),
        writes(input.model, dsl::Side::Megatron, diagnostics) {}

  Reshard bind() {
    binding.direction = Direction::Reshard;
    for (uint32_t i = 0; i != model.instances.size(); ++i)
      bindInstance(i);
    operands.tieCopies();
    operands.report();
    Reshard result{identityModel(), std::move(binding)};
    for (BoundClass &bound : result.binding.classes)
      bound.type.mapping =
          &result.model.mappings[&bound - result.binding.classes.data()];
    checkDivisions(result.model, result.binding, target, diagnostics);
    return result;
  }

private:
  /// What the operands of one type of rule are: the class of each.
  using OperandClasses = std::vector<uint32_t>;

  void bindInstance(uint32_t index) {
    const dsl::RuleInstance &instance = model.instances[index];
    const bool complete = operands.find(index);
    for (const std::string &name : instance.megatron)
      writes.use(name, index, "written by");
    if (!complete)
      return;
    std::optional<uint32_t> known =
        types.find(instance.mapping, operands.types);
    if (!known) {
      std::optional<RuleClass> type = typeOf(instance);
      known = types.add(instance.mapping, operands.types, type);
      if (type)
        addClasses(*type);
    }
    if (*known != ClassTable::rejected)
      addInstances(instance, classesOf[*known]);
  }

  /// The rule with its sections; that the shapes are those the spec gives.
  std::optional<RuleClass> typeOf(const dsl::RuleInstance &instance) {
    const dsl::Mapping &mapping = model.mappings[instance.mapping];
    RuleClass type;
    type.mapping = &mapping;
    type.megatron = operands.types;
    if (instance.hf.empty()) { // a parameter that is only initialised
      type.sections.resize(type.megatron.size());
      return type;
    }
    std::vector<Shape> shapes;
    for (const OperandType &operand : type.megatron)
      shapes.push_back(operand.shape);
    auto whole = inferUp(mapping.megatron, shapes, instance.megatron);
    if (whole && mapping.shard.kind == dsl::ShardKind::Vocab &&
        !holdsVocabulary(mapping, instance, *whole))
      return std::nullopt;
    auto leaves = whole ? inferDown(mapping.hf, *whole, instance.hf)
                        : std::unexpected(whole.error());
    if (!leaves) {
      shapeError(mapping, leaves.error(), diagnostics);
      return std::nullopt;
    }
    for (const Shape &shape : *leaves) {
      OperandType operand;
      operand.shape = shape;
      type.hf.push_back(operand);
    }
    if (!inferSections(type, instance.hf, diagnostics))
      return std::nullopt;
    return type;
  }

  /// `whole` then has as many rows as config.json says.
  bool holdsVocabulary(const dsl::Mapping &mapping,
                       const dsl::RuleInstance &instance, Shape &whole) {
    const int64_t rows = whole.empty() ? 0 : whole[0];
    if (rows < model.vocabSize || model.vocabSize < 1) {
      ruleError(
          mapping,
          fmt::format("{} has {} rows, config.json declares a vocabulary of {}",
                      instance.megatron.front(), rows, model.vocabSize),
          diagnostics);
      return false;
    }
    whole[0] = model.vocabSize;
    return true;
  }

  /// An identity for each operand of the rule.
  void addClasses(const RuleClass &rule) {
    OperandClasses &classes = classesOf.emplace_back();
    for (size_t k = 0; k != rule.megatron.size(); ++k) {
      dsl::Mapping identity = *rule.mapping;
      identity.megatron = identity.hf = {dsl::Node{}};
      identity.megatron[0].where = identity.hf[0].where = rule.mapping->where;
      BoundClass bound;
      bound.type.hf = {rule.megatron[k]};
      bound.type.sections = {rule.sections[k]};
      OperandType written = rule.megatron[k];
      written.parts.clear();
      std::optional<DType> asked = dtypeOption(input.options.dtype);
      if (asked && rule.mapping->dtype.empty() && isFloat(written.dtype))
        written.dtype = *asked;
      if (rule.mapping->shard.kind == dsl::ShardKind::Vocab)
        padVocabulary(bound.type, written, identity);
      bound.type.megatron = {std::move(written)};
      bound.refsPerInstance =
          std::max<size_t>(rule.megatron[k].parts.size(), 1);
      classes.push_back(binding.classes.size());
      binding.classes.push_back(std::move(bound));
      mappings.push_back(std::move(identity));
    }
  }

  /// The rows that Megatron gives a vocabulary in the target's layout: rows of
  /// the source's padding go along as far as there is place, then zeros follow.
  void padVocabulary(RuleClass &type, OperandType &written,
                     dsl::Mapping &identity) {
    const int64_t divisor = input.options.vocabDivisor != 0
                                ? input.options.vocabDivisor
                                : model.vocabMultiple;
    const int64_t multiple = divisor * target.tp;
    const int64_t stored = written.shape[0];
    written.shape[0] = (model.vocabSize + multiple - 1) / multiple * multiple;
    binding.paddedVocab = written.shape[0];
    type.vocabRows = std::min(stored, written.shape[0]);
    if (type.vocabRows == stored)
      return;
    dsl::Node slice;
    slice.kind = dsl::OpKind::Slice;
    slice.children = {0};
    slice.ints = {0, type.vocabRows};
    slice.where = identity.where;
    identity.hf.push_back(slice);
  }

  void addInstances(const dsl::RuleInstance &rule,
                    const OperandClasses &classes) {
    size_t ref = 0;
    for (size_t k = 0; k != classes.size(); ++k) {
      BoundClass &bound = binding.classes[classes[k]];
      bound.instances.push_back(instances.size());
      instances.push_back({classes[k], {rule.megatron[k]}, {rule.megatron[k]}});
      for (uint32_t i = 0; i != bound.refsPerInstance; ++i)
        bound.refs.push_back(operands.refs[ref++]);
      if (bound.type.vocabRows != 0)
        operands.dropRows(bound.type.vocabRows);
    }
  }

  dsl::Model identityModel() {
    dsl::Model result = model;
    result.mappings = std::move(mappings);
    result.instances = std::move(instances);
    return result;
  }

  const BindInput &input;
  const dsl::Model &model;
  const ParallelLayout &target;
  dsl::Diagnostics &diagnostics;
  Binding binding;
  MegatronOperands operands; ///< of the instance at hand
  NameUses writes;
  Binding rules; ///< only for the table: rules by the types of their operands
  ClassTable types{rules};
  std::vector<OperandClasses> classesOf; ///< of each class of `rules`
  std::vector<dsl::Mapping> mappings;    ///< of each class of `binding`
  std::vector<dsl::RuleInstance> instances;
};
} // namespace

Reshard bindReshard(const BindInput &input, const ParallelLayout &target,
                    dsl::Diagnostics &diagnostics) {
  return Resharder(input, target, diagnostics).bind();
}

} // namespace mbc::compiler
