#include "compiler/Target/Target.h"

#include "runtime/PickleWriter.h"
#include "runtime/TorchArchive.h"
#include "runtime/TorchDistNames.h"
#include "runtime/TorchDistWriter.h"

#include <algorithm>
#include <fmt/format.h>

namespace mbc::compiler {

void addCopy(Target &target, DType dtype, const Shape &shape, SourceRef source,
             uint32_t item) {
  auto same = std::ranges::find_if(target.copies, [&](const auto &copies) {
    return copies.dtype == dtype && copies.shape == shape;
  });
  if (same == target.copies.end())
    same = target.copies.insert(same, {dtype, shape, {}, {}});
  same->sources.push_back(source);
  same->items.push_back(item);
}

std::vector<InstancePlace> placesOfInstances(const dsl::Model &model,
                                             const Binding &binding) {
  std::vector<InstancePlace> places(model.instances.size());
  for (uint32_t c = 0; c != binding.classes.size(); ++c)
    for (uint32_t row = 0; row != binding.classes[c].instances.size(); ++row)
      places[binding.classes[c].instances[row]] = {c, row};
  return places;
}

KeyRules keyRules(const dsl::Model &model) {
  return {.layersStacked = model.layersStacked,
          .layers = model.layers,
          .experts = expertCounts(model),
          .gptModel = model.megatron != "HybridModel"};
}

namespace {
/// Payload items begin at multiples of 64 bytes, so that tensor data does too.
constexpr uint64_t itemAlignment = 64;

class TorchDistPlacer {
public:
  explicit TorchDistPlacer(const TargetInput &input)
      : input(input), model(input.model), layout(input.layout),
        rules(keyRules(input.model)),
        fileOfRank(layout.pp * stageRanks(layout), UINT32_MAX) {}

  Result<Target> place() {
    placeObjects();
    measureItems();
    std::vector<InstancePlace> places = placesOfInstances(model, input.binding);
    for (uint32_t i = 0; i != places.size(); ++i)
      if (places[i].boundClass != UINT32_MAX)
        if (Result<void> placed = placeInstance(i, places[i]); !placed)
          return std::unexpected(placed.error());
    return std::move(target);
  }

private:
  uint32_t fileOf(int64_t rank) {
    uint32_t &file = fileOfRank[rank];
    if (file == UINT32_MAX) {
      file = target.files.size();
      target.files.push_back({fmt::format("__{}_0.distcp", rank), 0, {}});
    }
    return file;
  }

  int64_t rankOf(const MegatronName &name, dsl::Stage stage,
                 const dsl::Shard &shard, int64_t shardRank) const {
    if (shard.kind == dsl::ShardKind::ExpertRows)
      return layout.expertRank(layout.stageOf(name, stage), shardRank, 0);
    if (shard.expert && name.expert)
      return layout.expertRank(layout.stageOf(name, stage),
                               layout.expertRankOf(name), shardRank);
    return layout.denseRank(layout.stageOf(name, stage), shardRank);
  }

  /// Byte objects come first in a file; all have the same content.
  void placeObjects() {
    const uint64_t bytes = extraStateObject().size();
    for (const dsl::ExtraState &state : model.extraStates) {
      bool perExpert = state.experts != 0;
      for (int64_t e = 0; e != std::max<int64_t>(state.experts, 1); ++e) {
        std::string module =
            state.module + (perExpert ? std::to_string(e) : "");
        MegatronName name = parseMegatronName(module);
        if (perExpert)
          name.expert = e;
        dsl::Shard shard;
        shard.expert = perExpert;
        dsl::Stage stage =
            isLastStage(state.module) ? dsl::Stage::Last : dsl::Stage::ByName;
        uint32_t file = fileOf(rankOf(name, stage, shard, 0));
        target.objects.push_back(extraStateKey(module, rules));
        target.objectFiles.push_back(file);
        target.files[file].size += bytes;
      }
    }
  }

  static bool isLastStage(const std::string &module) {
    return module.ends_with("final_layernorm") ||
           module.ends_with("final_norm") || module.ends_with("output_layer");
  }

  /// An item's size depends on its dtype and shape alone. A rank without
  /// elements of a tensor stores no chunk of it.
  void measureItems() {
    target.classes.resize(input.binding.classes.size());
    itemBytes.resize(target.classes.size());
    for (size_t c = 0; c != target.classes.size(); ++c) {
      const BoundClass &bound = input.binding.classes[c];
      const FusedClass &fused = input.program.classes[c];
      for (uint32_t o = 0; o != fused.outputs.size(); ++o) {
        if (fused.outputs[o].shape.elements() != 0)
          target.classes[c].outputs.push_back({o});
        itemBytes[c].push_back(measure(bound, fused.outputs[o]));
      }
    }
  }

  uint64_t measure(const BoundClass &bound, const FusedOutput &output) const {
    const dsl::RuleInstance &instance =
        model.instances[bound.instances.front()];
    TensorKey key = torchDistKey(instance.megatron[output.operand], "", rules);
    Shape stored;
    for (size_t axis = 0; axis != key.axes.rank(); ++axis)
      stored.push_back(1);
    for (int64_t extent : output.shape)
      stored.push_back(extent);
    uint64_t data = output.shape.elements() * byteSize(output.dtype);
    uint64_t size =
        layoutArchive("archive",
                      tensorPickle(output.dtype, stored.dims()).size(),
                      {&data, 1})
            .totalBytes;
    return (size + itemAlignment - 1) / itemAlignment * itemAlignment;
  }

  Result<void> placeInstance(uint32_t index, const InstancePlace &place) {
    const dsl::RuleInstance &instance = model.instances[index];
    const RuleClass &type = input.binding.classes[place.boundClass].type;
    const FusedClass &fused = input.program.classes[place.boundClass];
    const dsl::Shard &shard = type.mapping->shard;
    bool named = !shard.sections.empty();
    if (Result<void> joins = sectionsJoin(instance, type); !joins)
      return joins;
    uint32_t lastOperand = UINT32_MAX;
    MegatronName name;
    std::vector<Place> sections; // of the operand at hand
    for (uint32_t o = 0; o != fused.outputs.size(); ++o) {
      const FusedOutput &output = fused.outputs[o];
      if (output.shape.elements() == 0)
        continue;
      if (output.operand != lastOperand) {
        lastOperand = output.operand;
        name = parseMegatronName(instance.megatron[output.operand]);
        sections = tensorsOf(instance.megatron[output.operand], type, output);
      }
      const Place &at = sections[named ? output.section : 0];
      int64_t rank = rankOf(name, type.mapping->stage, shard, output.rank);
      uint32_t file = fileOf(rank);
      TargetItem item{file, at.tensor, static_cast<uint32_t>(rank),
                      static_cast<uint32_t>(target.starts.size()),
                      target.files[file].size};
      target.files[file].size += itemBytes[place.boundClass][o];
      target.starts.insert(target.starts.end(), at.index.begin(),
                           at.index.end());
      target.starts.insert(target.starts.end(), output.start.begin(),
                           output.start.end());
      target.classes[place.boundClass].items.push_back(target.items.size());
      target.items.push_back(item);
    }
    return {};
  }

  /// A reader joins sections in an order of its own: the rule's has to be it.
  static Result<void> sectionsJoin(const dsl::RuleInstance &instance,
                                   const RuleClass &type) {
    std::optional<size_t> last;
    for (const std::string &section : type.mapping->shard.sections) {
      std::optional<size_t> rank = sectionRank(section);
      if (!rank || (last && *rank <= *last))
        return fail("{}: torch_dist readers do not know the section {} at this "
                    "place; the order of sections is that of "
                    "runtime/TorchDistNames.cpp",
                    instance.megatron.front(), section);
      last = rank;
    }
    return {};
  }

  struct Place {
    uint32_t tensor;
    Shape index; ///< on the leading axes
  };

  /// The logical tensors of one operand: one, or one for each named section.
  std::vector<Place> tensorsOf(const std::string &name, const RuleClass &type,
                               const FusedOutput &output) {
    const dsl::Shard &shard = type.mapping->shard;
    const Shape &whole = type.megatron[output.operand].shape;
    std::vector<Place> places;
    if (shard.sections.empty()) {
      places.push_back(
          tensorOf(torchDistKey(name, "", rules), output.dtype, whole));
      return places;
    }
    for (size_t s = 0; s != shard.sections.size(); ++s) {
      Shape shape = whole;
      shape[0] = type.sections[output.operand][s];
      places.push_back(tensorOf(torchDistKey(name, shard.sections[s], rules),
                                output.dtype, shape));
    }
    return places;
  }

  Place tensorOf(const TensorKey &key, DType dtype, const Shape &own) {
    auto [it, isNew] = tensorIds.try_emplace(key.key, target.tensors.size());
    if (isNew) {
      Shape shape = key.axes;
      for (int64_t extent : own)
        shape.push_back(extent);
      target.tensors.push_back({key.key, dtype, shape});
    }
    return {it->second, key.index};
  }

  const TargetInput &input;
  const dsl::Model &model;
  const ParallelLayout &layout;
  KeyRules rules;
  std::vector<uint32_t> fileOfRank;
  std::vector<std::vector<uint64_t>> itemBytes; ///< by class and output
  std::unordered_map<std::string, uint32_t> tensorIds;
  Target target;
};
} // namespace

Result<Target> placeTorchDist(const TargetInput &input) {
  return TorchDistPlacer(input).place();
}

} // namespace mbc::compiler
