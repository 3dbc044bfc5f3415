#include "compiler/Transforms/EraseDead.h"
#include "compiler/Transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <map>

using namespace mlir;

namespace mbc::compiler {

#define GEN_PASS_DEF_MBORIENT
#include "compiler/Transforms/Passes.h.inc"

namespace {

using namespace map;

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Walks the unknown side from the equated value downwards, with the value
/// that each of its expressions must have.
class Inverter {
public:
  explicit Inverter(OpBuilder &builder) : builder(builder) {}

  std::map<int64_t, Value> targets; ///< by ordinal

  LogicalResult invert(Value unknown, Value known) {
    Operation *op = unknown.getDefiningOp();
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](OperandOp operand) {
          // What is repeated is read off its first place.
          targets.try_emplace(operand.getOrdinal(), known);
          return success();
        })
        .Case([&](FillOp) { return success(); })
        .Case([&](ConcatOp concat) { return invertConcat(concat, known); })
        .Case([&](StackOp stack) { return invertStack(stack, known); })
        .Case([&](SliceOp slice) { return invertSlice(slice, known); })
        .Case([&](ReshapeOp reshape) {
          return invert(reshape.getInput(),
                        builder.create<ReshapeOp>(
                            op->getLoc(), reshape.getInput().getType(), known));
        })
        .Case([&](TransposeOp transpose) {
          SmallVector<int64_t> axes(transpose.getAxes().size());
          for (auto [axis, from] : llvm::enumerate(transpose.getAxes()))
            axes[from] = axis;
          return invert(
              transpose.getInput(),
              builder.create<TransposeOp>(
                  op->getLoc(), transpose.getInput().getType(), known, axes));
        })
        .Case([&](AddOp add) {
          double value = -add.getValue().convertToDouble();
          return invert(add.getInput(),
                        builder.create<AddOp>(op->getLoc(), known,
                                              builder.getF64FloatAttr(value)));
        })
        .Case([&](ScaleOp scale) { return invertScale(scale, known); })
        .Case([&](CastOp cast) {
          return invert(cast.getInput(),
                        builder.create<CastOp>(op->getLoc(),
                                               cast.getInput().getType(), known,
                                               cast.getExact()));
        })
        .Default([](Operation *op) {
          return op->emitOpError(
              "has no inverse: the target would have to be quantised; write it "
              "in a float type");
        });
  }

private:
  LogicalResult invertConcat(ConcatOp concat, Value known) {
    SmallVector<int64_t> start(typeOf(known).getRank(), 0);
    for (Value part : concat.getParts()) {
      Value slice = builder.create<SliceOp>(concat.getLoc(), part.getType(),
                                            known, start);
      if (failed(invert(part, slice)))
        return failure();
      start[concat.getDim()] += typeOf(part).getDimSize(concat.getDim());
    }
    return success();
  }

  LogicalResult invertStack(StackOp stack, Value known) {
    SmallVector<int64_t> start(typeOf(known).getRank(), 0);
    SmallVector<int64_t> shape(typeOf(known).getShape());
    shape[stack.getDim()] = 1;
    for (Value part : stack.getParts()) {
      Value slice = builder.create<SliceOp>(
          stack.getLoc(), typeOf(known).clone(shape), known, start);
      Value flat =
          builder.create<ReshapeOp>(stack.getLoc(), part.getType(), slice);
      if (failed(invert(part, flat)))
        return failure();
      ++start[stack.getDim()];
    }
    return success();
  }

  /// Of several slices of a tensor, the last one met joins them.
  LogicalResult invertSlice(SliceOp slice, Value known) {
    auto &pieces = slices[slice.getWhole()];
    pieces.push_back({slice, known});
    if (pieces.size() != llvm::range_size(slice.getWhole().getUses()))
      return success();
    return pieces.size() == 1 ? pad(slice, known) : join(pieces);
  }

  struct Piece {
    SliceOp slice;
    Value value;
  };

  /// Pieces side by side along one dimension, which make up the whole.
  LogicalResult join(std::vector<Piece> &pieces) {
    Value whole = pieces.front().slice.getWhole();
    auto type = typeOf(whole);
    int64_t dim = 0;
    while (dim + 1 != type.getRank() &&
           typeOf(pieces.front().value).getDimSize(dim) == type.getDimSize(dim))
      ++dim;
    llvm::sort(pieces, [&](Piece a, Piece b) {
      return a.slice.getStart()[dim] < b.slice.getStart()[dim];
    });
    SmallVector<int64_t> next(type.getRank(), 0);
    SmallVector<Value> parts;
    for (Piece &piece : pieces) {
      if (piece.slice.getStart() != ArrayRef<int64_t>(next))
        return notAWhole(piece.slice);
      next[dim] += typeOf(piece.value).getDimSize(dim);
      parts.push_back(piece.value);
    }
    if (next[dim] != type.getDimSize(dim))
      return notAWhole(pieces.back().slice);
    return invert(whole, builder.create<ConcatOp>(pieces.back().slice.getLoc(),
                                                  type, parts, dim));
  }

  LogicalResult notAWhole(SliceOp slice) {
    return slice.emitOpError()
           << "and the others of its tensor are not the whole "
           << slice.getWhole().getType() << ", each part once";
  }

  /// Zeros around the known part, one dimension after another.
  LogicalResult pad(SliceOp slice, Value known) {
    auto whole = typeOf(slice.getWhole());
    for (int64_t dim = 0; dim != whole.getRank(); ++dim) {
      int64_t before = slice.getStart()[dim];
      int64_t after =
          whole.getDimSize(dim) - before - typeOf(known).getDimSize(dim);
      if (before == 0 && after == 0)
        continue;
      SmallVector<int64_t> shape(typeOf(known).getShape());
      SmallVector<Value> parts;
      auto zeros = [&](int64_t extent) {
        shape[dim] = extent;
        if (extent)
          parts.push_back(builder.create<FillOp>(
              slice.getLoc(), whole.clone(shape), builder.getF64FloatAttr(0)));
      };
      zeros(before);
      parts.push_back(known);
      zeros(after);
      shape[dim] = whole.getDimSize(dim);
      known = builder.create<ConcatOp>(slice.getLoc(), whole.clone(shape),
                                       parts, dim);
    }
    return invert(slice.getWhole(), known);
  }

  LogicalResult invertScale(ScaleOp scale, Value known) {
    double factor = scale.getValue().convertToDouble();
    int exponent = 0;
    if (std::abs(std::frexp(factor, &exponent)) != 0.5)
      return scale.emitOpError()
             << "by " << factor
             << " cannot be undone exactly; only powers of two can";
    return invert(scale.getInput(),
                  builder.create<ScaleOp>(scale.getLoc(), known,
                                          builder.getF64FloatAttr(1 / factor)));
  }

  OpBuilder &builder;
  llvm::DenseMap<Value, std::vector<Piece>> slices; ///< met so far, by whole
};

LogicalResult orient(RuleOp rule, bool import) {
  auto equate = dyn_cast<EquateOp>(rule.getBody().front().back());
  if (!equate)
    return success();
  OpBuilder builder(equate);
  Value known = import ? equate.getHf() : equate.getMegatron();
  Value unknown = import ? equate.getMegatron() : equate.getHf();
  Inverter inverter(builder);
  if (failed(inverter.invert(unknown, known)))
    return failure();
  SmallVector<Value> values;
  SmallVector<Attribute> targets;
  for (auto [ordinal, value] : inverter.targets) {
    SmallVector<int64_t> start(typeOf(value).getRank(), 0);
    values.push_back(value);
    targets.push_back(TargetAttr::get(rule.getContext(), ordinal, 0, 0, start));
  }
  builder.create<YieldOp>(equate.getLoc(), values,
                          builder.getArrayAttr(targets));
  equate.erase();
  eraseDead(rule);
  return success();
}

struct Orient : impl::MbOrientBase<Orient> {
  using MbOrientBase::MbOrientBase;

  void runOnOperation() override {
    if (direction != "import" && direction != "export") {
      getOperation().emitError()
          << "direction is '" << direction << "', not import or export";
      return signalPassFailure();
    }
    for (RuleOp rule : getOperation().getOps<RuleOp>())
      if (failed(orient(rule, direction == "import")))
        signalPassFailure();
  }
};

} // namespace
} // namespace mbc::compiler
