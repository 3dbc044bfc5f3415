#include "compiler/Transforms/IndexMaps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

using namespace map;

Shape shapeFrom(ArrayRef<int64_t> dims) {
  return Shape(std::span<const int64_t>(dims.data(), dims.size()));
}

Shape zerosLike(const Shape &shape) {
  Shape zeros = shape;
  for (size_t dim = 0; dim != shape.rank(); ++dim)
    zeros[dim] = 0;
  return zeros;
}

BoxMap concatMap(ConcatOp concat) {
  Shape whole = shapeOf(concat.getWhole()), at = zerosLike(whole);
  BoxMap map{whole.elements(), {}};
  for (auto [index, part] : llvm::enumerate(concat.getParts())) {
    Shape shape = shapeOf(part);
    map.boxes.push_back(
        placementBox(shape, zerosLike(shape), whole, at, shape, index));
    at[concat.getDim()] += shape[concat.getDim()];
  }
  return map;
}

/// A part of a stack is a part of a concat with a new extent of 1.
BoxMap stackMap(StackOp stack) {
  Shape whole = shapeOf(stack.getWhole()), at = zerosLike(whole);
  Shape part = whole;
  part[stack.getDim()] = 1;
  BoxMap map{whole.elements(), {}};
  for (size_t index = 0; index != stack.getParts().size(); ++index) {
    map.boxes.push_back(
        placementBox(part, zerosLike(part), whole, at, part, index));
    ++at[stack.getDim()];
  }
  return map;
}

BoxMap gatherMap(GatherOp gather) {
  Shape whole = shapeOf(gather.getWhole());
  BoxMap map{whole.elements(), {}};
  for (auto [index, attribute] : llvm::enumerate(gather.getParts())) {
    auto part = cast<PartAttr>(attribute);
    for (PlacementAttr placement : part.getPlacements())
      map.boxes.push_back(placementBox(shapeFrom(part.getShape()),
                                       shapeFrom(placement.getLocal()), whole,
                                       shapeFrom(placement.getGlobal()),
                                       shapeFrom(placement.getShape()), index));
  }
  return map;
}

} // namespace

Shape shapeOf(Value value) {
  return shapeFrom(cast<RankedTensorType>(value.getType()).getShape());
}

std::optional<BoxMap> movementMap(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<BoxMap>>(op)
      .Case([](FillOp fill) {
        auto type = fill.getResult().getType();
        return fillMap(type.getNumElements(),
                       constantBits(type.getElementType(),
                                    fill.getValue().convertToDouble()));
      })
      .Case([](ConcatOp concat) { return concatMap(concat); })
      .Case([](StackOp stack) { return stackMap(stack); })
      .Case([](GatherOp gather) { return gatherMap(gather); })
      .Case([](SliceOp slice) {
        return sliceMap(shapeOf(slice.getWhole()), shapeFrom(slice.getStart()),
                        shapeOf(slice.getResult()));
      })
      .Case([](ReshapeOp reshape) { // offsets stay
        return identityMap(shapeOf(reshape.getResult()).elements());
      })
      .Case([](TransposeOp transpose) {
        ArrayRef<int64_t> axes = transpose.getAxes();
        return transposeMap(shapeOf(transpose.getInput()),
                            {axes.data(), axes.size()});
      })
      .Default([](Operation *) { return std::nullopt; });
}

uint64_t constantBits(Type type, double value) {
  if (auto floating = dyn_cast<FloatType>(type)) {
    APFloat number(value);
    bool losesInfo = false;
    number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &losesInfo);
    return number.bitcastToAPInt().getZExtValue();
  }
  auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  unsigned width = type.getIntOrFloatBitWidth();
  return width >= 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

BoxAttr attributeOf(MLIRContext *context, const Box &box) {
  SmallVector<int64_t> sources, targets, counts;
  for (const BoxDim &dim : box.dims) {
    sources.push_back(dim.source);
    targets.push_back(dim.target);
    counts.push_back(dim.count);
  }
  return BoxAttr::get(context, box.input, box.sourceOffset, sources,
                      box.targetOffset, targets, counts, box.fill);
}

Box boxOf(BoxAttr attribute) {
  Box box;
  box.input = attribute.getInput();
  box.sourceOffset = attribute.getSourceOffset();
  box.targetOffset = attribute.getTargetOffset();
  box.fill = attribute.getFill();
  for (size_t dim = 0; dim != attribute.getCounts().size(); ++dim)
    box.dims.push_back({attribute.getCounts()[dim],
                        attribute.getSourceStrides()[dim],
                        attribute.getTargetStrides()[dim]});
  return box;
}

} // namespace mbc::compiler
