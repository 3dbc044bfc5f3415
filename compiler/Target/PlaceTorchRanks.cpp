#include "compiler/Target/Target.h"

#include "runtime/TorchArchive.h"
#include "runtime/TorchRanksWriter.h"

#include <fmt/format.h>

namespace mbc::compiler {

namespace {
class TorchRanksPlacer {
public:
  explicit TorchRanksPlacer(const TargetInput &input)
      : input(input), model(input.model), layout(input.layout),
        files(rankFiles(input.layout)) {}

  Result<Target> place() {
    listFiles();
    target.classes.resize(input.binding.classes.size());
    std::vector<InstancePlace> places = placesOfInstances(model, input.binding);
    for (uint32_t i = 0; i != places.size(); ++i)
      if (places[i].boundClass != UINT32_MAX)
        if (Result<void> placed = placeInstance(i, places[i]); !placed)
          return std::unexpected(placed.error());
    if (Result<void> written = layoutFiles(); !written)
      return std::unexpected(written.error());
    return std::move(target);
  }

private:
  void listFiles() {
    for (const RankFile &file : files)
      target.files.push_back({file.path, 0, {}});
    itemsOfFile.resize(files.size());
  }

  /// The number among all chunks of a chunk of the stage that writes a file.
  int64_t chunkAt(const RankFile &file, int64_t chunk) const {
    return chunk * layout.pp + file.place.pp;
  }

  bool holds(const RankFile &file, int64_t chunk, const MegatronName &name,
             const dsl::Mapping &mapping, int64_t rank) const {
    if (!layout.holds(chunkAt(file, chunk), name, mapping.stage))
      return false;
    const dsl::Shard &shard = mapping.shard;
    bool expert = shard.expert && name.expert;
    if (expert && layout.expertRankOf(name) != file.place.ep)
      return false;
    return shard.kind == dsl::ShardKind::Replicated ||
           shardRanks(shard, layout) == 1 ||
           rank == shardRank(shard, file.place);
  }

  /// A name that a parameter has in one chunk of a file, counted within it.
  std::string localName(const std::string &text, const MegatronName &name,
                        const RankFile &file, int64_t chunk) const {
    std::optional<int64_t> layer, expert;
    if (name.layer)
      layer = *name.layer - layout.firstLayer(chunkAt(file, chunk));
    if (name.expert && layout.experts.of(name) != 0)
      expert = layout.localExpert(name);
    return perRankName(renumber(text, layer, expert));
  }

  Result<void> placeInstance(uint32_t index, const InstancePlace &place) {
    const dsl::RuleInstance &instance = model.instances[index];
    const dsl::Mapping &mapping = model.mappings[instance.mapping];
    const FusedClass &fused = input.program.classes[place.boundClass];
    PlacedClass &placed = target.classes[place.boundClass];
    std::vector<PlacedOutput> outputs;
    for (uint32_t o = 0; o != fused.outputs.size(); ++o) {
      const FusedOutput &output = fused.outputs[o];
      const std::string &text = instance.megatron[output.operand];
      MegatronName name = parseMegatronName(text);
      for (uint32_t f = 0; f != files.size(); ++f)
        for (int64_t chunk = 0; chunk != layout.vpp; ++chunk)
          if (holds(files[f], chunk, name, mapping, output.rank)) {
            addItem(placed, {f, chunk}, localName(text, name, files[f], chunk),
                    output);
            outputs.push_back({o});
          }
      addTiedCopies(text, output, o, placed, outputs);
    }
    if (place.row == 0)
      placed.outputs = outputs;
    else if (placed.outputs != outputs)
      return fail(
          "{} is stored a different number of times than {}, which is the same "
          "rule",
          instance.megatron.front(),
          model
              .instances[input.binding.classes[place.boundClass]
                             .instances.front()]
              .megatron.front());
    return {};
  }

  /// A tied Megatron parameter has no rule: where its stage is another than
  /// its owner's, that stage's files hold the owner's values under its name.
  void addTiedCopies(const std::string &owner, const FusedOutput &output,
                     uint32_t index, PlacedClass &placed,
                     std::vector<PlacedOutput> &outputs) {
    if (layout.pp == 1)
      return;
    for (const dsl::TiedCopy &tie : model.ties)
      if (tie.side == dsl::Side::Megatron && tie.owner == owner)
        for (uint32_t f = 0; f != files.size(); ++f)
          for (int64_t chunk = 0; chunk != layout.vpp; ++chunk)
            if (layout.holds(chunkAt(files[f], chunk), {}, tie.stage) &&
                files[f].place.tp == output.rank) {
              addItem(placed, {f, chunk}, tie.copy, output);
              outputs.push_back({index});
            }
  }

  /// A model chunk of one file.
  struct ChunkPlace {
    uint32_t file = 0;
    int64_t chunk = 0;
  };

  void addItem(PlacedClass &placed, ChunkPlace place, std::string key,
               const FusedOutput &output) {
    const uint32_t file = place.file;
    TargetItem item{file, static_cast<uint32_t>(target.tensors.size()),
                    static_cast<uint32_t>(files[file].lowestRank),
                    static_cast<uint32_t>(place.chunk), 0};
    placed.items.push_back(target.items.size());
    itemsOfFile[file].push_back(
        {static_cast<uint32_t>(target.items.size()), place.chunk});
    target.tensors.push_back({std::move(key), output.dtype, output.shape});
    target.items.push_back(item);
  }

  /// Each file is one archive: its pickle first, then the tensors' bytes.
  Result<void> layoutFiles() {
    for (uint32_t f = 0; f != files.size(); ++f) {
      std::vector<RankTensor> tensors;
      std::vector<uint64_t> sizes;
      for (const FileItem &item : itemsOfFile[f]) {
        const TargetTensor &tensor =
            target.tensors[target.items[item.item].tensor];
        tensors.push_back(
            {tensor.key, tensor.dtype, tensor.shape.dims(), item.chunk});
        sizes.push_back(tensor.shape.elements() * byteSize(tensor.dtype));
      }
      Result<std::string> pickle =
          rankFilePickle(input.commonJson, tensors, layout.vpp);
      if (!pickle)
        return std::unexpected(pickle.error());
      ArchiveLayout archive =
          layoutArchive(rankFileRoot, pickle->size(), sizes);
      target.files[f].literal = std::move(*pickle);
      target.files[f].size = archive.totalBytes;
      for (size_t k = 0; k != itemsOfFile[f].size(); ++k)
        target.items[itemsOfFile[f][k].item].offset = archive.dataOffsets[k];
    }
    return {};
  }

  const TargetInput &input;
  const dsl::Model &model;
  const ParallelLayout &layout;
  std::vector<RankFile> files;
  struct FileItem {
    uint32_t item = 0;
    int64_t chunk = 0;
  };
  std::vector<std::vector<FileItem>> itemsOfFile;
  Target target;
};
} // namespace

Result<Target> placeTorchRanks(const TargetInput &input) {
  return TorchRanksPlacer(input).place();
}

} // namespace mbc::compiler
