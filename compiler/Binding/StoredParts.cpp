#include "compiler/Binding/StoredParts.h"

#include "runtime/Share.h"

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

/// The entry of each of the ranks that a tensor is cut over, the first of those
/// that hold the same.
static Result<std::vector<uint32_t>> entriesOf(const Checkpoint &checkpoint,
                                               uint32_t tensor,
                                               const dsl::Shard &shard,
                                               int64_t ranks) {
  std::vector<uint32_t> ofRank(ranks, Checkpoint::none);
  for (uint32_t at = tensor; at != Checkpoint::none; at = checkpoint.next(at)) {
    int64_t index =
        shardRank(shard, parseRankName(checkpoint.tensors[at].rank));
    if (index < ranks && ofRank[index] == Checkpoint::none)
      ofRank[index] = at;
  }
  for (int64_t rank = 0; rank != ranks; ++rank)
    if (ofRank[rank] == Checkpoint::none)
      return fail("{}: {} rank {} of {} has no file with it",
                  checkpoint.tensors[tensor].name,
                  shard.kind == dsl::ShardKind::ExpertRows ? "EP" : "TP", rank,
                  ranks);
  return ofRank;
}

/// Rows that were dealt out: the ranks' tensors differ in their number, and a
/// rank may have none.
static Result<StoredOperand> dealtParts(const Checkpoint &checkpoint,
                                        const std::vector<uint32_t> &ofRank) {
  const StoredTensor &first = checkpoint.tensors[ofRank.front()];
  StoredOperand operand;
  operand.type.dtype = first.dtype;
  operand.type.shape = *first.shape;
  int64_t &rows = operand.type.shape[0];
  rows = 0;
  for (uint32_t entry : ofRank) {
    const StoredTensor &local = checkpoint.tensors[entry];
    Shape alike = *first.shape;
    if (local.shape->rank() == alike.rank())
      alike[0] = (*local.shape)[0];
    if (*local.shape != alike || local.dtype != first.dtype)
      return fail("{} is {} {} on rank {} and {} {} on rank {}; they may "
                  "differ in their rows alone",
                  first.name, safetensorsName(first.dtype),
                  toString(*first.shape), first.rank,
                  safetensorsName(local.dtype), toString(*local.shape),
                  local.rank);
    rows += alike[0];
  }
  const auto ranks = static_cast<int64_t>(ofRank.size());
  for (int64_t rank = 0; rank != ranks; ++rank) {
    const StoredTensor &local = checkpoint.tensors[ofRank[rank]];
    Share share = shareOf(rows, ranks, rank);
    if ((*local.shape)[0] != share.extent)
      return fail(
          "{}: {} in {} has {} rows; of the {} that all {} expert ranks "
          "have together this one would have {}. The files are not of "
          "one run: take all of them from the same",
          local.name, local.rank,
          checkpoint.files[local.pieces.front().file].path, (*local.shape)[0],
          rows, ranks, share.extent);
    if (share.extent == 0)
      continue;
    Placement placement{Shape::zeros(local.shape->rank()),
                        Shape::zeros(local.shape->rank()), *local.shape};
    placement.global[0] = share.start;
    operand.type.parts.push_back({*local.shape, {placement}});
    operand.refs.push_back({ofRank[rank], 0});
  }
  return operand;
}

Result<StoredOperand> rankParts(const Checkpoint &checkpoint, uint32_t tensor,
                                const dsl::Shard &shard,
                                const ParallelLayout &layout,
                                const std::vector<int64_t> &sections) {
  const StoredTensor &first = checkpoint.tensors[tensor];
  int64_t ranks = shardRanks(shard, layout);
  Cut cut = cutOf(shard, *first.shape, ranks, sections);
  StoredOperand operand;
  operand.type.dtype = first.dtype;
  operand.type.shape = *first.shape;
  if (!cut.isCut) {
    operand.refs.push_back({tensor, 0});
    return operand;
  }
  Result<std::vector<uint32_t>> ofRank =
      entriesOf(checkpoint, tensor, shard, ranks);
  if (!ofRank)
    return std::unexpected(ofRank.error());
  if (shard.kind == dsl::ShardKind::ExpertRows)
    return dealtParts(checkpoint, *ofRank);
  operand.type.shape[cut.dim] = (*first.shape)[cut.dim] * ranks;
  for (int64_t rank = 0; rank != ranks; ++rank) {
    const StoredTensor &local = checkpoint.tensors[(*ofRank)[rank]];
    if (*local.shape != *first.shape || local.dtype != first.dtype)
      return fail("{} is {} {} on rank {} and {} {} on rank {}", first.name,
                  safetensorsName(first.dtype), toString(*first.shape),
                  first.rank, safetensorsName(local.dtype),
                  toString(*local.shape), local.rank);
    operand.type.parts.push_back(placeLocal(*local.shape, cut, rank, ranks));
    operand.refs.push_back({(*ofRank)[rank], 0});
  }
  return operand;
}

} // namespace mbc::compiler
