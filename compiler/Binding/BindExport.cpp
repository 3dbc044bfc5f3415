#include "compiler/Binding/BindCommon.h"
#include "compiler/Binding/Coverage.h"
#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/MegatronFacts.h"
#include "compiler/Binding/NameGroups.h"
#include "compiler/Binding/QuantizedTargets.h"
#include "compiler/Binding/StoredParts.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>

namespace mbc::compiler {

namespace {
class Exporter {
public:
  Exporter(const BindInput &input, dsl::Diagnostics &diagnostics)
      : model(input.model), checkpoint(input.checkpoint), input(input),
        diagnostics(diagnostics), coverage(input.checkpoint),
        reads(input.checkpoint, input.model, diagnostics),
        writes(input.model, dsl::Side::Hf, diagnostics) {}

  Binding bind() {
    binding.direction = Direction::Export;
    for (uint32_t i = 0; i != model.instances.size(); ++i)
      bindInstance(i);
    tieMegatronCopies();
    std::vector<std::string> leftOver = coverage.leftOver();
    reportMissing(missing, leftOver, model, checkpoint, diagnostics);
    reportLeftOver(leftOver, missing, model, diagnostics);
    if (input.record)
      reportUnwritten(*input.record);
    return std::move(binding);
  }

private:
  void bindInstance(uint32_t index) {
    const dsl::RuleInstance &instance = model.instances[index];
    const dsl::Mapping &mapping = model.mappings[instance.mapping];
    types.clear();
    refs.clear();
    bool complete = true;
    for (const std::string &name : instance.megatron)
      complete &= bindOperand(name, mapping, index);
    for (const std::string &name : instance.hf)
      writes.use(name, index, "written by");
    // Parameters that only initialise have nothing to give back.
    if (!complete || instance.hf.empty())
      return;
    std::vector<OperandType> key = types;
    addHfDTypes(key, instance, mapping);
    std::optional<uint32_t> known = classes.find(instance.mapping, key);
    if (!known)
      known = classes.add(instance.mapping, key, classOf(instance, key));
    classes.addInstance(*known, index, refs);
    if (*known != ClassTable::rejected &&
        mapping.shard.kind == dsl::ShardKind::Vocab)
      checkPadding(binding.classes[*known].type);
  }

  bool bindOperand(const std::string &name, const dsl::Mapping &mapping,
                   uint32_t instance) {
    uint32_t tensor = checkpoint.find(name);
    if (tensor == Checkpoint::none) {
      if (!model.instances[instance].hf.empty())
        missing.emplace_back(name, instance);
      return false;
    }
    reads.use(tensor, instance, "read by");
    for (uint32_t at = tensor; at != Checkpoint::none; at = checkpoint.next(at))
      coverage.use(at);
    if (checkpoint.format != Format::TorchRanks) {
      append(chunkParts(checkpoint, tensor));
      return true;
    }
    Result<StoredOperand> operand =
        rankParts(checkpoint, tensor, mapping.shard, input.layout,
                  sectionsOf(model.instances[instance], mapping, tensor));
    if (!operand) {
      ruleError(mapping, operand.error().message, diagnostics);
      return false;
    }
    if (mapping.stage == dsl::Stage::FirstAndLast &&
        input.options.copies != "drop")
      compareStages(*operand);
    append(std::move(*operand));
    return true;
  }

  void append(StoredOperand operand) {
    types.push_back(std::move(operand.type));
    refs.insert(refs.end(), operand.refs.begin(), operand.refs.end());
  }

  /// Section extents of a per-rank tensor: no Megatron header holds them, the
  /// spec's right side does.
  std::vector<int64_t> sectionsOf(const dsl::RuleInstance &instance,
                                  const dsl::Mapping &mapping,
                                  uint32_t tensor) {
    Shape whole = *checkpoint.tensors[tensor].shape;
    if (mapping.shard.kind != dsl::ShardKind::Section || whole.empty())
      return {};
    whole[0] *= input.layout.tp;
    auto leaves = inferDown(mapping.hf, whole, instance.hf);
    if (!leaves)
      return {};
    return sectionExtents(mapping.hf, *leaves, instance.hf);
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

  /// Copies of one tensor on the first and the last stage must agree.
  void compareStages(const StoredOperand &operand) {
    for (const SourceRef &ref : operand.refs) {
      const StoredTensor &owner = checkpoint.tensors[ref.tensor];
      RankPlace rank = parseRankName(owner.rank);
      for (uint32_t at = checkpoint.next(ref.tensor); at != Checkpoint::none;
           at = checkpoint.next(at)) {
        RankPlace other = parseRankName(checkpoint.tensors[at].rank);
        if (other.tp == rank.tp && other.pp != rank.pp && other.ep == rank.ep)
          compare(at, ref.tensor);
      }
    }
  }

  void compare(uint32_t copy, uint32_t owner) {
    const StoredTensor &a = checkpoint.tensors[copy],
                       &b = checkpoint.tensors[owner];
    if (*a.shape != *b.shape || a.dtype != b.dtype) {
      diagnostics.error(
          {}, fmt::format("{} ({}) is {} {}, its copy {} ({}) {} {}", b.name,
                          b.rank, safetensorsName(b.dtype), toString(*b.shape),
                          a.name, a.rank, safetensorsName(a.dtype),
                          toString(*a.shape)));
      return;
    }
    binding.comparisons.push_back(wholeComparison(checkpoint, copy, owner));
  }

  /// Per-rank files hold copies of tied tensors on other stages.
  void tieMegatronCopies() {
    for (const dsl::TiedCopy &tie : model.ties) {
      if (tie.side != dsl::Side::Megatron)
        continue;
      for (uint32_t at = checkpoint.find(tie.copy); at != Checkpoint::none;
           at = checkpoint.next(at)) {
        coverage.use(at);
        RankPlace rank = parseRankName(checkpoint.tensors[at].rank);
        uint32_t owner = checkpoint.find(tie.owner);
        while (owner != Checkpoint::none &&
               parseRankName(checkpoint.tensors[owner].rank).tp != rank.tp)
          owner = checkpoint.next(owner);
        if (owner != Checkpoint::none && input.options.copies != "drop")
          compare(at, owner);
      }
    }
  }

  /// The dtype in which each HF tensor leaves is part of what makes a class.
  void addHfDTypes(std::vector<OperandType> &key,
                   const dsl::RuleInstance &instance,
                   const dsl::Mapping &mapping) {
    for (const std::string &name : instance.hf) {
      OperandType operand;
      operand.encoding = input.targets->encodingOf(name);
      // Codes are made of the values as Megatron has them.
      operand.dtype =
          operand.encoding ? types.front().dtype : hfDType(name, mapping);
      key.push_back(std::move(operand));
    }
  }

  DType hfDType(const std::string &name, const dsl::Mapping &mapping) const {
    DType stored = types.front().dtype;
    std::optional<DType> asked = dtypeOption(input.options.dtype);
    if (asked && mapping.dtype.empty() && isFloat(stored))
      return *asked;
    const RecordedTensor *recorded =
        input.record ? input.record->find(name) : nullptr;
    if (recorded)
      return input.record->isQuantized(*recorded) ? input.configDType
                                                  : recorded->dtype;
    // Without a record nothing says in which dtype a pinned tensor came.
    return mapping.dtype.empty() && isFloat(stored) ? input.configDType
                                                    : stored;
  }

  std::optional<RuleClass> classOf(const dsl::RuleInstance &instance,
                                   const std::vector<OperandType> &key) {
    RuleClass type;
    type.mapping = &model.mappings[instance.mapping];
    type.megatron = types;
    type.exactCasts =
        !dtypeOption(input.options.dtype) || !type.mapping->dtype.empty();
    if (!inferHf(type, instance, key))
      return std::nullopt;
    return type;
  }

  /// `instance` is of the class at hand.
  bool misfit(const dsl::Mapping &mapping, const dsl::RuleInstance &instance,
              ShapeError error) {
    const StoredTensor &first = checkpoint.tensors[refs.front().tensor];
    error.text +=
        fmt::format("; {} in {} has shape {}", instance.megatron.front(),
                    checkpoint.files[first.pieces.front().file].path,
                    toString(types.front().shape));
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
      OperandType operand = key[types.size() + k];
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

  /// Rows from the vocabulary's size on are dropped; a row there that is not
  /// zero is worth a note.
  void checkPadding(const RuleClass &type) {
    const OperandType &operand = type.megatron.front();
    std::vector<StoredPart> parts = operand.parts;
    if (parts.empty())
      parts.push_back(
          {operand.shape, {{Shape{0, 0}, Shape{0, 0}, operand.shape}}});
    for (size_t i = 0; i != parts.size(); ++i)
      for (const Placement &placement : parts[i].placements) {
        int64_t end = placement.global[0] + placement.shape[0];
        if (end <= type.vocabRows || placement.shape.rank() != 2)
          continue;
        int64_t first = std::max(type.vocabRows, placement.global[0]);
        BoundComparison zero;
        zero.copy = refs[i];
        zero.rowBytes = placement.shape[1] * byteSize(operand.dtype);
        zero.copyOffset =
            (first - placement.global[0] + placement.local[0]) * zero.rowBytes;
        zero.bytes = (end - first) * zero.rowBytes;
        zero.copyName = nameWithRank(checkpoint.tensors[refs[i].tensor]);
        binding.comparisons.push_back(std::move(zero));
      }
  }

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
  // Of the instance at hand:
  std::vector<OperandType> types;
  std::vector<SourceRef> refs;
};
} // namespace

Binding bindExport(const BindInput &input, dsl::Diagnostics &diagnostics) {
  return Exporter(input, diagnostics).bind();
}

} // namespace mbc::compiler
