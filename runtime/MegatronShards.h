#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/TensorBytes.h"

#include <functional>
#include <string_view>

/// How Megatron cuts its parameters over the ranks, known from their names.
namespace mbc {

enum class Cut : uint8_t {
  None,       ///< every rank has all of it
  Rows,       ///< equal blocks of rows
  Columns,    ///< equal blocks of columns
  Gated,      ///< two halves (gate, up), each cut by rows
  Sections,   ///< several sections, each cut by rows
  ExpertRows, ///< rows dealt out over the EP ranks, perhaps not equally many
};

struct ShardRule {
  Cut cut = Cut::None;
  bool expert = false; ///< distributed over EP and cut over ETP, else over TP
};

/// The rule of a parameter with `rank` dimensions; fc1 counts as gated.
ShardRule shardRule(std::string_view name, size_t rank);

/// Finds a tensor of the same set by name, or null.
using TensorLookup = std::function<const StoredTensor *(std::string_view name)>;

/// The rule of a tensor among the others of its model: a head that has a bias
/// has a row a label, not a token, and every rank has all of it.
ShardRule shardRule(const StoredTensor &tensor, const TensorLookup &lookup);

/// Row extents of the blocks that are cut one by one: the sections of in_proj
/// and conv1d, the halves of a gated fc1, else the whole. Follows from the
/// shapes of the module's other parameters, so it works on a rank's own
/// tensors as well as on whole ones.
Result<std::vector<int64_t>> cutBlocks(const StoredTensor &tensor,
                                       const ShardRule &rule,
                                       const TensorLookup &lookup);

struct ShardSizes {
  int64_t tp = 1, pp = 1, ep = 1, etp = 0; ///< etp 0: as tp
};
/// Reads "tp=2,pp=2,ep=4,etp=1"; sizes that are not named are 1, etp is tp.
Result<ShardSizes> parseShardSizes(std::string_view text);

/// What one rank holds of one tensor: the boxes, stacked along the first dim.
struct RankShard {
  uint32_t tensor = 0; ///< index into the checkpoint's tensors
  std::string name;
  std::string rank; ///< "tp0.pp0.ep0[.etp0]"
  Shape shape;
  std::vector<TensorBox> boxes;
};

/// What each rank of a layout would load, ranks in order. `whole` holds whole
/// tensors. Layers go evenly over the stages, or by the pattern's `|` or the
/// first and last stage's sizes where the saved arguments have as many stages.
Result<std::vector<RankShard>> shardsOf(const Checkpoint &whole,
                                        ShardSizes sizes);

/// The whole tensors of a per-rank checkpoint, each from the pieces that the
/// ranks hold; any other checkpoint as it is.
Result<Checkpoint> joinRanks(const Checkpoint &checkpoint);

} // namespace mbc
