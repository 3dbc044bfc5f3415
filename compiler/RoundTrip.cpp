#include "compiler/BoxMap.h"
#include "compiler/Export/FusedClasses.h"
#include "compiler/Import/RulesToMap.h"
#include "compiler/Import/SideImporter.h"
#include "compiler/Transforms/Passes.h"
#include "compiler/ValueLoss.h"

#include <algorithm>
#include <fmt/format.h>

using namespace mlir;

namespace mbc::compiler {
namespace {

/// Only places matter here: one number format, no scales, whole tensors.
RuleClass placesOnly(const RuleClass &rule) {
  RuleClass plain = rule;
  plain.exactCasts = false;
  for (auto *side : {&plain.megatron, &plain.hf})
    for (OperandType &operand : *side) {
      operand.dtype = rule.megatron.front().dtype;
      operand.scale.reset();
      operand.parts.clear();
      operand.order = {};
    }
  return plain;
}

bool hasSections(const RuleClass &rule) {
  return rule.mapping->shard.kind == dsl::ShardKind::Gated ||
         rule.mapping->shard.kind == dsl::ShardKind::Section;
}

int64_t ranksOf(const RuleClass &rule, const ShardLayout &layout) {
  const dsl::Shard &shard = rule.mapping->shard;
  return shard.kind == dsl::ShardKind::ExpertRows ? layout.ep
         : shard.expert                           ? layout.etp
                                                  : layout.tp;
}

/// Whether every extent that the layout cuts divides; if not, the layout is
/// refused elsewhere, and there is nothing to come back.
bool divides(const RuleClass &rule, const ShardLayout &layout) {
  int64_t ranks = ranksOf(rule, layout);
  const dsl::Shard &shard = rule.mapping->shard;
  if (shard.kind == dsl::ShardKind::Replicated ||
      shard.kind == dsl::ShardKind::ExpertRows || ranks == 1)
    return true;
  if (hasSections(rule))
    return std::ranges::all_of(rule.sections, [&](const auto &extents) {
      return std::ranges::all_of(
          extents, [&](int64_t extent) { return extent % ranks == 0; });
    });
  size_t dim = shard.kind == dsl::ShardKind::Row   ? 1
               : shard.kind == dsl::ShardKind::Dim ? shard.dim
                                                   : 0;
  return std::ranges::all_of(rule.megatron, [&](const OperandType &operand) {
    return dim < operand.shape.rank() && operand.shape[dim] % ranks == 0;
  });
}

/// Runs the passes over all classes; empty if an error was reported.
std::vector<FusedClass> fuseAll(MLIRContext &context,
                                const std::vector<RuleClass> &classes,
                                Direction direction,
                                const ShardLayout &layout) {
  OwningOpRef<ModuleOp> module = importRules(context, classes);
  if (!module)
    return {};
  PassManager passes(&context);
  passes.enableVerifier(false);
  buildPipeline(passes, direction, layout);
  if (failed(passes.run(*module)))
    return {};
  TensorProgram program;
  std::vector<map::FusedOp> bodies;
  exportClasses(*module, classes, direction, program, bodies);
  return std::move(program.classes);
}

Box placed(const FusedOutput &output, const Shape &whole, int64_t local,
           int64_t global, int64_t rows, int64_t input) {
  Shape shape = output.shape, from = output.shape, to = output.start;
  for (size_t dim = 0; dim != from.rank(); ++dim)
    from[dim] = 0;
  if (rows >= 0) {
    shape[0] = rows;
    from[0] = local;
    to[0] = global;
  }
  return placementBox(output.shape, from, whole, to, shape, input);
}

/// Where the elements of an output are in the whole Megatron tensor.
void placeOutput(const RuleClass &rule, const ShardLayout &layout,
                 const FusedOutput &output, int64_t input, BoxMap &whole) {
  const Shape &shape = rule.megatron[output.operand].shape;
  if (output.shape.elements() == 0)
    return;
  if (!hasSections(rule)) {
    whole.boxes.push_back(placed(output, shape, 0, 0, -1, input));
    return;
  }
  int64_t ranks = ranksOf(rule, layout), offset = 0, local = 0, section = 0;
  for (int64_t extent : rule.sections[output.operand]) {
    int64_t share = extent / ranks;
    int64_t global = offset + output.rank * share;
    if (layout.joinSections)
      whole.boxes.push_back(placed(output, shape, local, global, share, input));
    else if (section == output.section)
      whole.boxes.push_back(placed(output, shape, 0, global, share, input));
    local += share;
    offset += extent;
    ++section;
  }
}

/// Maps of the Megatron tensors of a class onto its Hugging Face tensors, by
/// way of the shards.
Result<std::vector<BoxMap>> megatronFromHf(const RuleClass &rule,
                                           const ShardLayout &layout,
                                           const FusedClass &imported) {
  std::vector<BoxMap> shards, places(rule.megatron.size());
  for (size_t operand = 0; operand != places.size(); ++operand)
    places[operand].elements = rule.megatron[operand].shape.elements();
  for (const FusedOutput &output : imported.outputs) {
    placeOutput(rule, layout, output, shards.size(), places[output.operand]);
    BoxMap shard{output.shape.elements(), output.boxes};
    for (Box &box : shard.boxes)
      if (box.input >= 0)
        box.input = imported.inputs[box.input].operand;
    shards.push_back(std::move(shard));
  }
  std::vector<BoxMap> result;
  for (const BoxMap &place : places) {
    Result<BoxMap> whole = compose(place, shards);
    if (!whole)
      return std::unexpected(whole.error());
    result.push_back(std::move(*whole));
  }
  return result;
}

/// The first target element of `box` that is not read from itself.
std::optional<int64_t> firstMoved(const Box &box, int64_t operand) {
  if (box.input != operand || box.sourceOffset != box.targetOffset)
    return box.targetOffset;
  std::optional<int64_t> first;
  for (const BoxDim &dim : box.dims)
    if (dim.source != dim.target)
      first = box.targetOffset + dim.target; // dims inside are nearer
  return first;
}

std::string indexOf(const Shape &shape, int64_t offset) {
  Shape index = shape, strides = rowMajorStrides(shape);
  for (size_t dim = 0; dim != shape.rank(); ++dim) {
    index[dim] = offset / strides[dim];
    offset %= strides[dim];
  }
  return toString(index);
}

void reportLoss(MLIRContext &context, const RuleClass &rule,
                const ShardLayout &layout, int64_t operand, int64_t element) {
  emitError(locationOf(context, *rule.mapping, {}))
      << "export after import at TP " << layout.tp << ", ETP " << layout.etp
      << (layout.ep == 1 ? "" : fmt::format(", EP {}", layout.ep))
      << " does not give back element "
      << indexOf(rule.hf[operand].shape, element) << " of Hugging Face tensor "
      << operand << " (shape " << toString(rule.hf[operand].shape)
      << "): write the rule so that each element has one place on either side";
}

/// How the elements of an instance correspond.
void countElements(const RuleClass &rule, const std::vector<BoxMap> &megatron,
                   RoundTrip &result) {
  result.hfElements = result.megatronElements = result.filled = 0;
  for (const OperandType &operand : rule.hf)
    result.hfElements += operand.shape.elements();
  for (const BoxMap &map : megatron) {
    result.megatronElements += map.elements;
    for (const Box &box : map.boxes)
      if (box.input < 0)
        result.filled += elementCount(box);
  }
  result.repeated = result.megatronElements - result.filled - result.hfElements;
}

/// A row of elements that comes back as zeros, whatever it was.
std::optional<ZeroRange> zeroRange(const Box &box, size_t operand) {
  if (box.input >= 0 || box.fill != 0)
    return std::nullopt;
  int64_t span = 1;
  for (const BoxDim &dim : box.dims)
    span += (dim.count - 1) * dim.target;
  if (span != elementCount(box))
    return std::nullopt;
  return ZeroRange{operand, box.targetOffset, span};
}

/// False if a loss was reported.
bool checkClass(MLIRContext &context, const RuleClass &rule,
                const ShardLayout &layout, const FusedClass &imported,
                const FusedClass &exported, RoundTrip &result) {
  Result<std::vector<BoxMap>> megatron = megatronFromHf(rule, layout, imported);
  if (!megatron) {
    emitError(locationOf(context, *rule.mapping, {}))
        << megatron.error().message;
    return false;
  }
  countElements(rule, *megatron, result);
  result.zeros.clear();
  std::vector<BoxMap> inputs;
  for (const FusedInput &input : exported.inputs)
    inputs.push_back((*megatron)[input.operand]);
  for (const FusedOutput &output : exported.outputs) {
    int64_t elements = output.shape.elements(), kept = 0;
    Result<BoxMap> back = compose({elements, output.boxes}, inputs);
    if (!back) {
      emitError(locationOf(context, *rule.mapping, {})) << back.error().message;
      return false;
    }
    std::optional<int64_t> lost;
    for (const Box &box : back->boxes) {
      std::optional<ZeroRange> zero = zeroRange(box, output.operand);
      if (zero) {
        result.repeated += zero->count;
        result.zeros.push_back(*zero);
      } else if (auto moved = firstMoved(box, output.operand)) {
        lost = std::min(lost.value_or(elements), *moved);
        continue;
      }
      kept += elementCount(box);
    }
    if (!lost && kept != elements)
      lost = firstUncovered(*back).value_or(0);
    if (lost) {
      reportLoss(context, rule, layout, output.operand, *lost);
      return false;
    }
  }
  return true;
}

/// Places come back. But arithmetic rounds the last bits of values, and of
/// copies only one comes back.
void warnOfLosses(const RuleClass &rule, dsl::Diagnostics &diagnostics) {
  for (const auto *side : {&rule.mapping->megatron, &rule.mapping->hf})
    for (const dsl::Node &node : *side)
      if (node.kind == dsl::OpKind::Repeat && node.ints[0] > 1)
        diagnostics.warning(rule.mapping->where,
                            "repeat makes copies: export takes the first and "
                            "does not compare the others with it",
                            rule.mapping->expansion);
  for (const ConstantLoss &loss : constantLosses(rule))
    diagnostics.warning(rule.mapping->where, toString(loss),
                        rule.mapping->expansion);
  if (roundsUnseen(rule))
    diagnostics.warning(rule.mapping->where,
                        "the constant rounds in float32: export after import "
                        "may change the last bits of a value",
                        rule.mapping->expansion);
}

} // namespace

std::vector<RoundTrip> checkRoundTrip(const std::vector<RuleClass> &classes,
                                      const std::vector<ShardLayout> &sizes,
                                      dsl::Diagnostics &diagnostics) {
  using At = RoundTrip::At;
  MLIRContext context;
  prepareContext(context);
  DiagnosticBridge bridge(context, classes, diagnostics);
  std::vector<RoundTrip> results(classes.size());
  std::vector<RuleClass> plain;
  for (size_t index = 0; index != classes.size(); ++index) {
    warnOfLosses(classes[index], diagnostics);
    plain.push_back(placesOnly(classes[index]));
    results[index].at.assign(sizes.size(), At::Indivisible);
  }
  std::vector<FusedClass> exported =
      fuseAll(context, plain, Direction::Export, {});
  if (exported.size() != plain.size())
    return results;
  std::vector<bool> lossy(plain.size()); // one report a class is enough
  for (size_t size = 0; size != sizes.size(); ++size) {
    std::vector<RuleClass> fitting;
    std::vector<size_t> numbers;
    for (size_t index = 0; index != plain.size(); ++index)
      if (lossy[index])
        results[index].at[size] = At::Lost;
      else if (divides(plain[index], sizes[size])) {
        fitting.push_back(plain[index]);
        numbers.push_back(index);
      }
    std::vector<FusedClass> imported =
        fuseAll(context, fitting, Direction::Import, sizes[size]);
    for (size_t index = 0; index != imported.size(); ++index) {
      bool holds =
          checkClass(context, fitting[index], sizes[size], imported[index],
                     exported[numbers[index]], results[numbers[index]]);
      results[numbers[index]].at[size] = holds ? At::Proven : At::Lost;
      lossy[numbers[index]] = !holds;
    }
  }
  return results;
}

} // namespace mbc::compiler
