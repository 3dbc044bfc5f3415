#include "compiler/Transforms/EraseDead.h"
#include "compiler/Transforms/Passes.h"

#include "runtime/Share.h"

#include <numeric>

using namespace mlir;

namespace mbc::compiler {

#define GEN_PASS_DEF_MBSHARD
#include "compiler/Transforms/Passes.h.inc"

namespace {

using namespace map;

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Cuts the values of one rule and collects the shards in the order of
/// targets, ranks and sections.
class Cutter {
public:
  Cutter(YieldOp yield, ShardAttr shard, ArrayAttr sections, int64_t ranks,
         bool join)
      : builder(yield), shard(shard), sections(sections), ranks(ranks),
        join(join) {}

  SmallVector<Value> values;
  SmallVector<Attribute> targets;

  LogicalResult cut(Value value, TargetAttr target) {
    switch (shard.getKind()) {
    case ShardKind::Replicated:
      values.push_back(value);
      targets.push_back(target);
      return success();
    case ShardKind::Gated:
    case ShardKind::Section:
      return cutSections(value, target.getOperand());
    default:
      return cutDim(value, target.getOperand());
    }
  }

private:
  LogicalResult divides(Operation *op, int64_t extent, int64_t dim,
                        const char *what) {
    if (extent % ranks == 0)
      return success();
    return op->emitError() << what << extent << " of dimension " << dim
                           << " does not divide by "
                           << (shard.getExpert() ? "--etp " : "--tp ") << ranks;
  }

  Value slice(Value value, int64_t dim, int64_t from, int64_t extent) {
    SmallVector<int64_t> start(typeOf(value).getRank(), 0);
    SmallVector<int64_t> shape(typeOf(value).getShape());
    start[dim] = from;
    shape[dim] = extent;
    return builder.create<SliceOp>(value.getLoc(), typeOf(value).clone(shape),
                                   value, start);
  }

  void give(Value value, int64_t operand, int64_t rank, int64_t section,
            int64_t dim, int64_t from) {
    SmallVector<int64_t> start(typeOf(value).getRank(), 0);
    start[dim] = from;
    values.push_back(value);
    targets.push_back(
        TargetAttr::get(builder.getContext(), operand, rank, section, start));
  }

  /// Of the kinds that cut one dimension, rows dealt out are the one that may
  /// come out uneven.
  LogicalResult cutDim(Value value, int64_t operand) {
    int64_t dim = shard.getDim();
    Operation *yield = &*builder.getInsertionPoint();
    if (dim < 0 || dim >= typeOf(value).getRank())
      return yield->emitError()
             << "the shard cuts dimension " << dim << ", but the tensor has "
             << typeOf(value).getRank() << " dimensions";
    int64_t extent = typeOf(value).getDimSize(dim);
    if (shard.getKind() != ShardKind::ExpertRows &&
        failed(divides(yield, extent, dim, "extent ")))
      return failure();
    for (int64_t rank = 0; rank != ranks; ++rank) {
      Share share = shareOf(extent, ranks, rank);
      give(slice(value, dim, share.start, share.extent), operand, rank, 0, dim,
           share.start);
    }
    return success();
  }

  LogicalResult cutSections(Value value, int64_t operand) {
    Operation *yield = &*builder.getInsertionPoint();
    if (operand >= static_cast<int64_t>(sections.size()))
      return yield->emitError(
          "the extents of the shard's sections are unknown");
    ArrayRef<int64_t> extents =
        cast<DenseI64ArrayAttr>(sections[operand]).asArrayRef();
    int64_t sum = std::accumulate(extents.begin(), extents.end(), int64_t{0});
    int64_t rows = typeOf(value).getRank() ? typeOf(value).getDimSize(0) : 1;
    if (typeOf(value).getRank() == 0 || sum != rows)
      return yield->emitError() << "the shard's sections add up to " << sum
                                << " rows, the tensor has " << rows;
    for (int64_t extent : extents)
      if (failed(divides(yield, extent, 0, "section extent ")))
        return failure();
    for (int64_t rank = 0; rank != ranks; ++rank)
      cutRank(value, operand, rank, extents);
    return success();
  }

  void cutRank(Value value, int64_t operand, int64_t rank,
               ArrayRef<int64_t> extents) {
    SmallVector<Value> shares;
    int64_t offset = 0, rows = 0;
    for (auto [section, extent] : llvm::enumerate(extents)) {
      int64_t share = extent / ranks;
      Value part = slice(value, 0, offset + rank * share, share);
      if (!join)
        give(part, operand, rank, section, 0,
             (shard.getNamed() ? 0 : offset) + rank * share);
      shares.push_back(part);
      offset += extent;
      rows += share;
    }
    if (!join)
      return;
    SmallVector<int64_t> shape(typeOf(value).getShape());
    shape[0] = rows;
    give(builder.create<ConcatOp>(value.getLoc(), typeOf(value).clone(shape),
                                  shares, 0),
         operand, rank, 0, 0, rank * rows);
  }

  OpBuilder builder;
  ShardAttr shard;
  ArrayAttr sections;
  int64_t ranks;
  bool join;
};

struct ShardPass : impl::MbShardBase<ShardPass> {
  using MbShardBase::MbShardBase;

  LogicalResult runOnRule(RuleOp rule) {
    for (OperandOp operand : rule.getBody().front().getOps<OperandOp>())
      if (operand.getSide() == Side::Megatron)
        return success(); // Megatron is the source
    auto yield = dyn_cast<YieldOp>(rule.getBody().front().back());
    if (!yield)
      return success();
    ShardAttr shard = rule.getShard();
    int64_t ranks = shard.getKind() == ShardKind::ExpertRows ? ep
                    : shard.getExpert()                      ? etp
                                                             : tp;
    Cutter cutter(yield, shard, rule.getSections(), ranks, join);
    for (auto [value, target] :
         llvm::zip(yield.getValues(), yield.getTargets()))
      if (failed(cutter.cut(value, cast<TargetAttr>(target))))
        return failure();
    OpBuilder builder(yield);
    builder.create<YieldOp>(yield.getLoc(), cutter.values,
                            builder.getArrayAttr(cutter.targets));
    yield.erase();
    eraseDead(rule);
    return success();
  }

  void runOnOperation() override {
    if (tp < 1 || etp < 1 || ep < 1) {
      getOperation().emitError() << "tp, etp and ep must be positive, got "
                                 << tp << ", " << etp << " and " << ep;
      return signalPassFailure();
    }
    for (RuleOp rule : getOperation().getOps<RuleOp>())
      if (failed(runOnRule(rule)))
        signalPassFailure();
  }
};

} // namespace
} // namespace mbc::compiler
