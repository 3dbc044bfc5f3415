#include "runtime/MegatronNames.h"
#include "runtime/MegatronShards.h"
#include "runtime/MegatronStages.h"
#include "runtime/TorchRanksLayout.h"

#include <algorithm>
#include <unordered_map>

namespace mbc {
namespace {

/// A block of `blocks`, cut into `count` equal parts along `dim`.
struct Slice {
  size_t dim;
  int64_t start, extent;
};

/// The part of each block that rank `index` of `count` has.
Result<std::vector<Slice>> slicesOf(const StoredTensor &tensor,
                                    const ShardRule &rule,
                                    const TensorLookup &lookup, int64_t index,
                                    int64_t count, std::string_view sizeName) {
  std::vector<Slice> slices;
  if (rule.cut == Cut::None)
    return slices;
  size_t dim = rule.cut == Cut::Columns ? 1 : 0;
  std::vector<int64_t> blocks = {0};
  if (dim == 1) {
    blocks[0] = tensor.shape[1];
  } else {
    Result<std::vector<int64_t>> rows = cutBlocks(tensor, rule, lookup);
    if (!rows)
      return std::unexpected(rows.error());
    blocks = std::move(*rows);
  }
  int64_t start = 0;
  for (int64_t block : blocks) {
    if (block % count != 0)
      return fail("tensor {}: {} {} do not divide by {}={}", tensor.name, block,
                  dim == 0 ? "rows" : "columns", sizeName, count);
    slices.push_back({dim, start + index * (block / count), block / count});
    start += block;
  }
  return slices;
}

/// Tensors of a checkpoint by name, the first of each name.
class TensorTable {
public:
  explicit TensorTable(const std::vector<StoredTensor> &tensors) {
    for (const StoredTensor &tensor : tensors)
      table_.try_emplace(tensor.name, &tensor);
  }
  TensorLookup lookup() const {
    return [this](std::string_view name) {
      auto found = table_.find(name);
      return found == table_.end() ? nullptr : found->second;
    };
  }

private:
  std::unordered_map<std::string_view, const StoredTensor *> table_;
};

Result<RankShard> shardOf(const StoredTensor &tensor, uint32_t number,
                          const TensorLookup &lookup, const RankPlace &place,
                          const ParallelSizes &sizes) {
  ShardRule rule = shardRule(tensor.name, tensor.shape.rank());
  Result<std::vector<Slice>> slices =
      rule.expert ? slicesOf(tensor, rule, lookup, place.etp, sizes.etp, "etp")
                  : slicesOf(tensor, rule, lookup, place.tp, sizes.tp, "tp");
  if (!slices)
    return std::unexpected(slices.error());
  RankShard shard{
      number, tensor.name, rankName(place, sizes), tensor.shape, {}};
  if (slices->empty()) {
    shard.boxes = {wholeBox(tensor)};
    return shard;
  }
  shard.shape[(*slices)[0].dim] = 0;
  for (const Slice &slice : *slices) {
    TensorBox box = wholeBox(tensor);
    box.start[slice.dim] = slice.start;
    box.shape[slice.dim] = slice.extent;
    shard.shape[slice.dim] += slice.extent;
    shard.boxes.push_back(box);
  }
  return shard;
}

Result<int64_t> expertsPerRank(const Checkpoint &whole, int64_t ep) {
  int64_t experts = 0;
  for (const StoredTensor &tensor : whole.tensors)
    if (auto expert = parseMegatronName(tensor.name).expert)
      experts = std::max(experts, *expert + 1);
  if (experts % ep != 0)
    return fail("{} experts do not divide by ep={}", experts, ep);
  return experts / ep;
}

/// Adds a rank's tensor to the whole one. `index` of `count` ranks has it.
Result<void> addToWhole(StoredTensor &whole, const StoredTensor &local,
                        const ShardRule &rule,
                        const std::vector<int64_t> &blocks, int64_t index,
                        int64_t count) {
  StoredPiece piece = local.pieces[0];
  if (rule.cut == Cut::None) {
    whole.pieces = {piece};
    return {};
  }
  if (rule.cut == Cut::Columns) {
    whole.shape[1] = local.shape[1] * count;
    piece.start[1] = index * local.shape[1];
    whole.pieces.push_back(piece);
    return {};
  }
  uint64_t rowBytes =
      byteSize(local.dtype) * static_cast<uint64_t>(local.shape.elements()) /
      static_cast<uint64_t>(std::max<int64_t>(1, local.shape[0]));
  whole.shape[0] = local.shape[0] * count;
  whole.sections.clear();
  int64_t localRow = 0;
  for (int64_t block : blocks) {
    StoredPiece part = piece;
    part.offset += static_cast<uint64_t>(localRow) * rowBytes;
    part.start[0] = localRow * count + index * block;
    part.shape[0] = block;
    whole.pieces.push_back(part);
    if (rule.cut == Cut::Sections)
      whole.sections.push_back(block * count);
    localRow += block;
  }
  return {};
}

} // namespace

Result<std::vector<RankShard>> shardsOf(const Checkpoint &whole,
                                        ShardSizes asked) {
  ParallelSizes sizes{asked.tp, asked.pp, asked.ep,
                      asked.etp == 0 ? asked.tp : asked.etp};
  Result<StageMap> stages = StageMap::make(whole, sizes.pp);
  Result<int64_t> experts = expertsPerRank(whole, sizes.ep);
  if (!stages || !experts)
    return std::unexpected(stages ? experts.error() : stages.error());
  TensorTable names(whole.tensors);
  TensorLookup lookup = names.lookup();
  std::vector<RankShard> shards;
  for (int64_t rank = 0; rank != sizes.pp * stageRanks(sizes); ++rank) {
    RankPlace place = rankPlace(rank, sizes);
    for (uint32_t i = 0; i != whole.tensors.size(); ++i) {
      const StoredTensor &tensor = whole.tensors[i];
      bool outputCopy = stages->copiesOutputLayer() &&
                        place.pp == sizes.pp - 1 &&
                        tensor.name == stages->embedding();
      bool here = stages->holds(place.pp, tensor.name);
      auto expert = parseMegatronName(tensor.name).expert;
      if ((expert && *expert / *experts != place.ep) || (!here && !outputCopy))
        continue;
      Result<RankShard> shard = shardOf(tensor, i, lookup, place, sizes);
      if (!shard)
        return std::unexpected(shard.error());
      if (outputCopy) {
        RankShard copy = *shard;
        constexpr std::string_view owner = "embedding.word_embeddings.weight";
        copy.name.replace(copy.name.size() - owner.size(), owner.size(),
                          "output_layer.weight");
        shards.push_back(std::move(copy));
      }
      if (here)
        shards.push_back(std::move(*shard));
    }
  }
  return shards;
}

Result<Checkpoint> joinRanks(const Checkpoint &checkpoint) {
  if (checkpoint.format != Format::TorchRanks)
    return checkpoint;
  Checkpoint whole = checkpoint;
  whole.format = Format::TorchDist;
  whole.tensors.clear();
  int64_t tp = 1, etp = 1;
  for (const StoredTensor &tensor : checkpoint.tensors) {
    RankPlace place = parseRankName(tensor.rank);
    tp = std::max(tp, place.tp + 1);
    etp = std::max(etp, place.etp + 1);
  }
  TensorTable names(checkpoint.tensors);
  std::unordered_map<std::string, size_t> known;
  std::unordered_map<std::string, bool> seen; // name and index among the parts
  for (const StoredTensor &local : checkpoint.tensors) {
    ShardRule rule = shardRule(local.name, local.shape.rank());
    RankPlace place = parseRankName(local.rank);
    int64_t index = rule.cut == Cut::None ? 0
                    : rule.expert         ? place.etp
                                          : place.tp;
    if (!seen.try_emplace(fmt::format("{} {}", local.name, index), true).second)
      continue;
    auto [slot, inserted] = known.try_emplace(local.name, whole.tensors.size());
    if (inserted) {
      whole.tensors.push_back(local);
      whole.tensors.back().pieces.clear();
      whole.tensors.back().rank.clear();
      whole.tensors.back().key.clear();
    }
    Result<std::vector<int64_t>> blocks =
        cutBlocks(local, rule, names.lookup());
    if (!blocks)
      return std::unexpected(blocks.error());
    if (auto added = addToWhole(whole.tensors[slot->second], local, rule,
                                *blocks, index, rule.expert ? etp : tp);
        !added)
      return std::unexpected(added.error());
  }
  return whole;
}

} // namespace mbc
