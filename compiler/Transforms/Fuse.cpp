#include "compiler/Transforms/ElementSteps.h"
#include "compiler/Transforms/EraseDead.h"
#include "compiler/Transforms/IndexMaps.h"
#include "compiler/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace mbc::compiler {

#define GEN_PASS_DEF_MBFUSE
#include "compiler/Transforms/Passes.h.inc"

namespace {

using namespace map;

/// A stored tensor and what happens to its elements on the way.
struct Source {
  Value weight, scales, tensorScale;
  SmallVector<int64_t> block;
  SmallVector<ElementStep> steps;

  bool sameElements(const Source &other) const {
    auto element = [](Value value) {
      return value ? cast<RankedTensorType>(value.getType()).getElementType()
                   : Type();
    };
    return element(weight) == element(other.weight) &&
           element(scales) == element(other.scales) &&
           element(tensorScale) == element(other.tensorScale) &&
           steps == other.steps && block == other.block;
  }
};

/// Composes the index maps of one rule. The inputs of the maps are indices
/// into `sources`.
class Composer {
public:
  std::vector<Source> sources;

  /// The map of a value; null if an error was reported.
  const BoxMap *mapOf(Value value) {
    auto known = maps.find(value);
    if (known != maps.end())
      return &known->second;
    std::optional<BoxMap> map = compute(value.getDefiningOp());
    if (!map)
      return nullptr;
    return &maps.emplace(value, std::move(*map)).first->second;
  }

private:
  struct ValueLess {
    bool operator()(Value a, Value b) const {
      return a.getAsOpaquePointer() < b.getAsOpaquePointer();
    }
  };

  std::optional<BoxMap> compute(Operation *op) {
    if (auto operand = dyn_cast<OperandOp>(op)) {
      sources.push_back({operand.getResult(), {}, {}, {}, {}});
      return identityMap(operand.getResult().getType().getNumElements(),
                         sources.size() - 1);
    }
    if (std::optional<ElementStep> step = stepOf(op))
      return applyStep(op, *step);
    std::optional<BoxMap> outer = movementMap(op);
    if (!outer) {
      op->emitOpError("cannot be fused");
      return std::nullopt;
    }
    std::vector<BoxMap> inner;
    for (Value operand : op->getOperands()) {
      const BoxMap *map = mapOf(operand);
      if (!map)
        return std::nullopt;
      inner.push_back(*map);
    }
    Result<BoxMap> composed = compose(*outer, inner);
    if (!composed) {
      op->emitError() << composed.error().message;
      return std::nullopt;
    }
    return std::move(*composed);
  }

  std::optional<BoxMap> applyStep(Operation *op, const ElementStep &step) {
    const BoxMap *input = mapOf(op->getOperand(0));
    if (!input)
      return std::nullopt;
    auto dequant = dyn_cast<DequantOp>(op);
    if (dequant &&
        !isa_and_nonnull<OperandOp>(dequant.getCodes().getDefiningOp())) {
      op->emitOpError("needs a weight that is stored whole");
      return std::nullopt;
    }
    Type from =
        cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
    BoxMap result = *input;
    std::map<int64_t, int64_t> renamed;
    for (Box &box : result.boxes) {
      if (box.input < 0) {
        box.fill = foldConstant(box.fill, from, step);
        continue;
      }
      auto [entry, added] = renamed.emplace(box.input, sources.size());
      if (added) {
        Source source = sources[box.input];
        source.steps.push_back(step);
        if (dequant) {
          source.scales = dequant.getScales();
          source.tensorScale = dequant.getTensorScale();
          source.block.assign(dequant.getBlock().begin(),
                              dequant.getBlock().end());
        }
        sources.push_back(std::move(source));
      }
      box.input = entry->second;
    }
    return result;
  }

  std::map<Value, BoxMap, ValueLess> maps;
};

/// Writes the fused operation of one output.
class Fuser {
public:
  Fuser(OpBuilder &builder, Composer &composer)
      : builder(builder), composer(composer) {}

  /// Null if an error was reported.
  Value fuse(Value value) {
    const BoxMap *whole = composer.mapOf(value);
    if (!whole)
      return {};
    BoxMap map = *whole;
    if (!collectInputs(map, value.getLoc()))
      return {};
    if (!scales.empty() && !splitRows(map, value.getLoc()))
      return {};
    SmallVector<Attribute> boxes;
    for (const Box &box : map.boxes)
      boxes.push_back(attributeOf(builder.getContext(), box));
    auto block = scales.empty() ? DenseI64ArrayAttr()
                                : builder.getDenseI64ArrayAttr(first->block);
    auto fused = builder.create<FusedOp>(
        value.getLoc(), value.getType(), inputs, scales, tensorScales,
        builder.getArrayAttr(boxes), block, StringAttr());
    if (first && !first->steps.empty())
      writeBody(fused);
    return fused.getResult();
  }

private:
  /// Renumbers the boxes' inputs to those of this output alone.
  bool collectInputs(BoxMap &map, Location location) {
    std::map<int64_t, int64_t> numbers;
    for (const Box &box : map.boxes)
      if (box.input >= 0)
        numbers.emplace(box.input, 0);
    for (auto &[source, number] : numbers) {
      const Source &input = composer.sources[source];
      if (first && !first->sameElements(input)) {
        emitError(location)
            << "the tensors of one output must have one number format and go "
               "through the same steps, but "
            << first->weight.getType() << " and " << input.weight.getType()
            << " meet here; store them in one dtype";
        return false;
      }
      if (!first)
        first = &input;
      number = inputs.size();
      inputs.push_back(input.weight);
      if (input.scales)
        scales.push_back(input.scales);
      if (input.tensorScale)
        tensorScales.push_back(input.tensorScale);
    }
    for (Box &box : map.boxes)
      if (box.input >= 0)
        box.input = numbers[box.input];
    return true;
  }

  bool splitRows(BoxMap &map, Location location) {
    std::vector<Box> boxes;
    for (const Box &box : map.boxes) {
      Shape weight = box.input < 0 ? Shape{1, 1} : shapeOf(inputs[box.input]);
      Result<std::vector<Box>> split =
          splitAtRows(box, weight[1], weight.elements());
      if (!split) {
        emitError(location) << split.error().message;
        return false;
      }
      boxes.insert(boxes.end(), split->begin(), split->end());
    }
    map.boxes = std::move(boxes);
    int64_t columns = shapeOf(inputs[0])[1];
    bool alike = llvm::all_of(
        inputs, [&](Value input) { return shapeOf(input)[1] == columns; });
    if (alike)
      canonicalize(map, columns);
    else
      std::ranges::stable_sort(map.boxes, {}, &Box::targetOffset);
    return true;
  }

  void writeBody(FusedOp fused) {
    OpBuilder::InsertionGuard guard(builder);
    auto elementOf = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getElementType();
    };
    Block *body = builder.createBlock(&fused.getBody());
    for (const SmallVector<Value> &tensors : {inputs, scales, tensorScales})
      if (!tensors.empty())
        body->addArgument(elementOf(tensors[0]), fused.getLoc());
    buildBody(builder, fused.getLoc(), first->steps, *body);
  }

  OpBuilder &builder;
  Composer &composer;
  SmallVector<Value> inputs, scales, tensorScales;
  const Source *first = nullptr;
};

LogicalResult fuseRule(RuleOp rule) {
  auto yield = dyn_cast<YieldOp>(rule.getBody().front().back());
  if (!yield)
    return rule.emitOpError("has no direction yet: run mb-orient first");
  OpBuilder builder(yield);
  Composer composer;
  for (OpOperand &operand : yield->getOpOperands()) {
    Value fused = Fuser(builder, composer).fuse(operand.get());
    if (!fused)
      return failure();
    operand.set(fused);
  }
  eraseDead(rule);
  return success();
}

struct Fuse : impl::MbFuseBase<Fuse> {
  void runOnOperation() override {
    for (RuleOp rule : getOperation().getOps<RuleOp>())
      if (failed(fuseRule(rule)))
        signalPassFailure();
  }
};

} // namespace
} // namespace mbc::compiler
