#include "compiler/Binding/MegatronOperands.h"

#include "compiler/Binding/AffectedTensors.h"
#include "compiler/Binding/InferShapes.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mbc::compiler {

MegatronOperands::MegatronOperands(const BindInput &input, Binding &binding,
                                   dsl::Diagnostics &diagnostics)
    : input(input), model(input.model), checkpoint(input.checkpoint),
      binding(binding), diagnostics(diagnostics), coverage(input.checkpoint),
      reads(input.checkpoint, input.model, diagnostics) {
  for (const StoredHole &hole : checkpoint.holes)
    holes.emplace(hole.tensor, &hole);
}

bool MegatronOperands::find(uint32_t instance) {
  const dsl::RuleInstance &rule = model.instances[instance];
  types.clear();
  refs.clear();
  bool complete = true;
  for (const std::string &name : rule.megatron)
    complete &= findOperand(name, model.mappings[rule.mapping], instance);
  return complete;
}

bool MegatronOperands::findOperand(const std::string &name,
                                   const dsl::Mapping &mapping,
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
  if (hasHoles(tensor, instance))
    return false;
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

/// Reports each hole once, with what it is needed for.
bool MegatronOperands::hasHoles(uint32_t tensor, uint32_t instance) {
  const StoredTensor &stored = checkpoint.tensors[tensor];
  auto [begin, end] = holes.equal_range(stored.name);
  const dsl::RuleInstance &rule = model.instances[instance];
  for (auto at = begin; at != end; ++at) {
    std::string text = at->second->text;
    std::vector<std::string> affected;
    if (binding.direction == Direction::Export)
      affected = affectedTensors(model.mappings[rule.mapping], rule,
                                 *stored.shape, *at->second);
    if (!affected.empty())
      text += fmt::format(", and {} cannot be written without them",
                          fmt::join(affected, ", "));
    diagnostics.error({}, std::move(text));
  }
  return begin != end;
}

void MegatronOperands::append(StoredOperand operand) {
  types.push_back(std::move(operand.type));
  refs.insert(refs.end(), operand.refs.begin(), operand.refs.end());
}

/// Section extents of a per-rank tensor: no Megatron header holds them, the
/// spec's right side does.
std::vector<int64_t>
MegatronOperands::sectionsOf(const dsl::RuleInstance &instance,
                             const dsl::Mapping &mapping,
                             uint32_t tensor) const {
  Shape whole = *checkpoint.tensors[tensor].shape;
  if (mapping.shard.kind != dsl::ShardKind::Section || whole.empty())
    return {};
  whole[0] *= input.layout.tp;
  auto leaves = inferDown(mapping.hf, whole, instance.hf);
  if (!leaves)
    return {};
  return sectionExtents(mapping.hf, *leaves, instance.hf);
}

/// Copies of one tensor on the first and the last stage must agree.
void MegatronOperands::compareStages(const StoredOperand &operand) {
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

void MegatronOperands::compare(uint32_t copy, uint32_t owner) {
  const StoredTensor &a = checkpoint.tensors[copy],
                     &b = checkpoint.tensors[owner];
  if (*a.shape != *b.shape || a.dtype != b.dtype) {
    diagnostics.error(
        {},
        fmt::format("{} ({}) is {} {}, its copy {} ({}) {} {}", b.name, b.rank,
                    safetensorsName(b.dtype), toString(*b.shape), a.name,
                    a.rank, safetensorsName(a.dtype), toString(*a.shape)));
    return;
  }
  binding.comparisons.push_back(wholeComparison(checkpoint, copy, owner));
}

/// Per-rank files hold copies of tied tensors on other stages.
void MegatronOperands::tieCopies() {
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

void MegatronOperands::dropRows(int64_t from) {
  const OperandType &operand = types.front();
  std::vector<StoredPart> parts = operand.parts;
  if (parts.empty())
    parts.push_back(
        {operand.shape, {{Shape{0, 0}, Shape{0, 0}, operand.shape}}});
  for (size_t i = 0; i != parts.size(); ++i)
    for (const Placement &placement : parts[i].placements) {
      int64_t end = placement.global[0] + placement.shape[0];
      if (end <= from || placement.shape.rank() != 2)
        continue;
      int64_t first = std::max(from, placement.global[0]);
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

void MegatronOperands::report() {
  std::vector<std::string> leftOver = coverage.leftOver();
  reportMissing(missing, leftOver, model, checkpoint, diagnostics);
  reportLeftOver(leftOver, missing, model, diagnostics);
}

} // namespace mbc::compiler
