#include "runtime/MegatronNames.h"
#include "runtime/MegatronShards.h"
#include "runtime/MegatronStages.h"
#include "runtime/Share.h"
#include "runtime/TorchRanksLayout.h"

#include <algorithm>
#include <unordered_map>

namespace mbc {
namespace {

/// What a rank has of a block, along `dim`.
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
  if (rule.cut == Cut::ExpertRows) {
    Share share = shareOf((*tensor.shape)[0], count, index);
    slices.push_back({0, share.start, share.extent});
    return slices;
  }
  size_t dim = rule.cut == Cut::Columns ? 1 : 0;
  std::vector<int64_t> blocks = {0};
  if (dim == 1) {
    blocks[0] = (*tensor.shape)[1];
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

TensorLookup lookupIn(const Checkpoint &checkpoint) {
  return [&checkpoint](std::string_view name) {
    uint32_t found = checkpoint.find(name);
    return found == Checkpoint::none ? nullptr : &checkpoint.tensors[found];
  };
}

Result<RankShard> shardOf(const StoredTensor &tensor, uint32_t number,
                          const TensorLookup &lookup, const RankPlace &place,
                          const ParallelSizes &sizes) {
  ShardRule rule = shardRule(tensor, lookup);
  Result<std::vector<Slice>> slices =
      rule.cut == Cut::ExpertRows
          ? slicesOf(tensor, rule, lookup, place.ep, sizes.ep, "ep")
      : rule.expert
          ? slicesOf(tensor, rule, lookup, place.etp, sizes.etp, "etp")
          : slicesOf(tensor, rule, lookup, place.tp, sizes.tp, "tp");
  if (!slices)
    return std::unexpected(slices.error());
  RankShard shard{number,
                  std::string(tensor.name),
                  rankName(place, sizes),
                  *tensor.shape,
                  {}};
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

Result<ExpertCounts> expertsPerRank(const Checkpoint &whole, int64_t ep) {
  ExpertCounts experts;
  for (const StoredTensor &tensor : whole.tensors)
    experts.note(parseMegatronName(tensor.name));
  for (int64_t *count : {&experts.model, &experts.draft}) {
    if (*count % ep != 0)
      return fail("{} experts do not divide by ep={}", *count, ep);
    *count /= ep;
  }
  return experts;
}

/// A tensor that is put together from those of the ranks.
struct Joined {
  const StoredTensor *first; ///< the local tensor that came first
  Shape shape;
  std::vector<StoredPiece> pieces;
  std::vector<int64_t> sections;
};

/// Adds a rank's tensor to the whole one. `index` of `count` ranks has it.
void addToWhole(Joined &whole, const StoredTensor &local, const ShardRule &rule,
                const std::vector<int64_t> &blocks, int64_t index,
                int64_t count, HeaderStore &store) {
  const StoredPiece &piece = local.pieces[0];
  if (rule.cut == Cut::None) {
    whole.pieces = {piece};
    return;
  }
  const Shape &shape = *local.shape;
  Shape start = *piece.start;
  if (rule.cut == Cut::ExpertRows) { // ranks come in order
    start[0] = whole.pieces.empty() ? 0 : whole.shape[0];
    whole.shape[0] = start[0] + shape[0];
    if (shape[0] != 0)
      whole.pieces.push_back(
          {piece.file, piece.offset, store.keep(start), piece.shape});
    return;
  }
  if (rule.cut == Cut::Columns) {
    whole.shape[1] = shape[1] * count;
    start[1] = index * shape[1];
    whole.pieces.push_back(
        {piece.file, piece.offset, store.keep(start), piece.shape});
    return;
  }
  uint64_t rowBytes = byteSize(local.dtype) *
                      static_cast<uint64_t>(shape.elements()) /
                      static_cast<uint64_t>(std::max<int64_t>(1, shape[0]));
  whole.shape[0] = shape[0] * count;
  whole.sections.clear();
  int64_t localRow = 0;
  for (int64_t block : blocks) {
    Shape part = shape;
    part[0] = block;
    start[0] = localRow * count + index * block;
    whole.pieces.push_back(
        {piece.file, piece.offset + static_cast<uint64_t>(localRow) * rowBytes,
         store.keep(start), store.keep(part)});
    if (rule.cut == Cut::Sections)
      whole.sections.push_back(block * count);
    localRow += block;
  }
}

/// As a tensor of the whole checkpoint, of no rank.
StoredTensor keep(const Joined &joined, HeaderStore &store) {
  StoredTensor tensor;
  tensor.name = joined.first->name;
  tensor.shape = store.keep(joined.shape);
  tensor.dtype = joined.first->dtype;
  tensor.pieces = store.keep(std::span<const StoredPiece>(joined.pieces));
  tensor.sections = store.keep(std::span<const int64_t>(joined.sections));
  return tensor;
}

} // namespace

Result<std::vector<RankShard>> shardsOf(const Checkpoint &whole,
                                        ShardSizes asked) {
  ParallelSizes sizes{asked.tp, asked.pp, asked.ep,
                      asked.etp == 0 ? asked.tp : asked.etp};
  Result<StageMap> stages = StageMap::make(whole, sizes.pp);
  Result<ExpertCounts> experts = expertsPerRank(whole, sizes.ep);
  if (!stages || !experts)
    return std::unexpected(stages ? experts.error() : stages.error());
  TensorLookup lookup = lookupIn(whole);
  std::vector<RankShard> shards;
  for (int64_t rank = 0; rank != sizes.pp * stageRanks(sizes); ++rank) {
    RankPlace place = rankPlace(rank, sizes);
    for (uint32_t i = 0; i != whole.tensors.size(); ++i) {
      const StoredTensor &tensor = whole.tensors[i];
      bool outputCopy = stages->copiesOutputLayer() &&
                        place.pp == sizes.pp - 1 &&
                        tensor.name == stages->embedding();
      bool here = stages->holds(place.pp, tensor.name);
      MegatronName name = parseMegatronName(tensor.name);
      bool elsewhere =
          name.expert && *name.expert / experts->of(name) != place.ep;
      if (elsewhere || (!here && !outputCopy))
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
  auto store = std::make_shared<HeaderStore>();
  std::vector<Joined> tensors;
  std::unordered_map<std::string_view, size_t> known;
  std::unordered_map<std::string, bool> seen; // name and index among the parts
  const TensorLookup lookup = lookupIn(checkpoint);
  for (const StoredTensor &local : checkpoint.tensors) {
    ShardRule rule = shardRule(local, lookup);
    RankPlace place = parseRankName(local.rank);
    int64_t index = rule.cut == Cut::None         ? 0
                    : rule.cut == Cut::ExpertRows ? place.ep
                    : rule.expert                 ? place.etp
                                                  : place.tp;
    if (!seen.try_emplace(fmt::format("{} {}", local.name, index), true).second)
      continue;
    auto [slot, inserted] = known.try_emplace(local.name, tensors.size());
    if (inserted)
      tensors.push_back({&local, *local.shape, {}, {}});
    Result<std::vector<int64_t>> blocks = cutBlocks(local, rule, lookup);
    if (!blocks)
      return std::unexpected(blocks.error());
    addToWhole(tensors[slot->second], local, rule, *blocks, index,
               rule.expert ? etp : tp, *store);
  }
  for (const Joined &joined : tensors)
    whole.tensors.push_back(keep(joined, *store));
  whole.stores.push_back(std::move(store));
  whole.indexNames();
  return whole;
}

} // namespace mbc
