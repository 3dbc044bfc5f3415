#include "compiler/Binding/StoredParts.h"

#include <fmt/format.h>

namespace mbc::compiler {

StoredOperand chunkParts(const Checkpoint &checkpoint, uint32_t tensor) {
  const StoredTensor &stored = checkpoint.tensors[tensor];
  StoredOperand operand;
  operand.type.dtype = stored.dtype;
  operand.type.shape = *stored.shape;
  for (uint32_t i = 0; i != stored.pieces.size(); ++i) {
    const StoredPiece &piece = stored.pieces[i];
    operand.type.parts.push_back(
        {*piece.shape,
         {{Shape::zeros(piece.shape->rank()), *piece.start, *piece.shape}}});
    operand.refs.push_back({tensor, i});
  }
  return operand;
}

namespace {
/// Along which axis a tensor is cut, and the sections that are cut one by one.
struct Cut {
  size_t dim = 0;
  bool isCut = false;
  std::vector<int64_t> sections; ///< of the whole; one if the shard has none
};
} // namespace

static Cut cutOf(const dsl::Shard &shard, const Shape &local, int64_t ranks,
                 const std::vector<int64_t> &sections) {
  Cut cut;
  switch (shard.kind) {
  case dsl::ShardKind::Replicated:
    return cut;
  case dsl::ShardKind::Row:
    cut.dim = 1;
    cut.isCut = local.rank() > 1;
    break;
  case dsl::ShardKind::Dim:
    cut.dim = shard.dim;
    cut.isCut = true;
    break;
  default:
    cut.isCut = true;
  }
  if (!cut.isCut || cut.dim >= local.rank()) {
    cut.isCut = false;
    return cut;
  }
  int64_t whole = local[cut.dim] * ranks;
  if (shard.kind == dsl::ShardKind::Gated)
    cut.sections = {whole / 2, whole / 2};
  else if (shard.kind == dsl::ShardKind::Section && !sections.empty())
    cut.sections = sections;
  else
    cut.sections = {whole};
  return cut;
}

static StoredPart placeLocal(const Shape &local, const Cut &cut, int64_t rank,
                             int64_t ranks) {
  StoredPart part{local, {}};
  int64_t inLocal = 0, inWhole = 0;
  for (int64_t section : cut.sections) {
    Placement placement{Shape::zeros(local.rank()), Shape::zeros(local.rank()),
                        local};
    placement.local[cut.dim] = inLocal;
    placement.global[cut.dim] = inWhole + rank * (section / ranks);
    placement.shape[cut.dim] = section / ranks;
    part.placements.push_back(placement);
    inLocal += section / ranks;
    inWhole += section;
  }
  return part;
}

Result<StoredOperand> rankParts(const Checkpoint &checkpoint, uint32_t tensor,
                                const dsl::Shard &shard,
                                const ParallelLayout &layout,
                                const std::vector<int64_t> &sections) {
  const StoredTensor &first = checkpoint.tensors[tensor];
  int64_t ranks = shard.expert ? layout.etp : layout.tp;
  Cut cut = cutOf(shard, *first.shape, ranks, sections);
  StoredOperand operand;
  operand.type.dtype = first.dtype;
  operand.type.shape = *first.shape;
  if (!cut.isCut) {
    operand.refs.push_back({tensor, 0});
    return operand;
  }
  operand.type.shape[cut.dim] = (*first.shape)[cut.dim] * ranks;
  std::vector<uint32_t> ofRank(ranks, Checkpoint::none);
  for (uint32_t at = tensor; at != Checkpoint::none; at = checkpoint.next(at)) {
    RankPlace rank = parseRankName(checkpoint.tensors[at].rank);
    int64_t index = shard.expert ? rank.tp % layout.etp : rank.tp;
    if (index < ranks && ofRank[index] == Checkpoint::none)
      ofRank[index] = at;
  }
  for (int64_t rank = 0; rank != ranks; ++rank) {
    if (ofRank[rank] == Checkpoint::none)
      return fail("{}: TP rank {} of {} has no file with it", first.name, rank,
                  ranks);
    const StoredTensor &local = checkpoint.tensors[ofRank[rank]];
    if (*local.shape != *first.shape || local.dtype != first.dtype)
      return fail("{} is {} {} on rank {} and {} {} on rank {}", first.name,
                  safetensorsName(first.dtype), toString(*first.shape),
                  first.rank, safetensorsName(local.dtype),
                  toString(*local.shape), local.rank);
    operand.type.parts.push_back(placeLocal(*local.shape, cut, rank, ranks));
    operand.refs.push_back({ofRank[rank], 0});
  }
  return operand;
}

} // namespace mbc::compiler
