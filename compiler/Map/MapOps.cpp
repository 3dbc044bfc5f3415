#include "compiler/Map/MapOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;

#define GET_OP_CLASSES
#include "compiler/Map/MapOps.cpp.inc"

namespace mbc::map {
namespace {

RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// A part's box must have the rank of both tensors and lie inside them.
LogicalResult verifyPlacement(Operation *op, PartAttr part,
                              ArrayRef<int64_t> whole) {
  for (PlacementAttr placement : part.getPlacements()) {
    size_t rank = placement.getShape().size();
    if (rank != whole.size() || placement.getLocal().size() != rank ||
        placement.getGlobal().size() != rank || part.getShape().size() != rank)
      return op->emitOpError() << "has a placement of rank " << rank
                               << " in a tensor of rank " << whole.size();
    for (size_t dim = 0; dim != rank; ++dim) {
      int64_t extent = placement.getShape()[dim];
      int64_t local = placement.getLocal()[dim] + extent;
      int64_t global = placement.getGlobal()[dim] + extent;
      if (placement.getLocal()[dim] < 0 || placement.getGlobal()[dim] < 0 ||
          extent < 1 || local > part.getShape()[dim] || global > whole[dim])
        return op->emitOpError()
               << "has a placement that ends at " << local << " of "
               << part.getShape()[dim] << " in its part and at " << global
               << " of " << whole[dim] << " in the whole, dimension " << dim;
    }
  }
  return success();
}

LogicalResult verifySameElements(Operation *op, Value a, Value b) {
  if (tensorOf(a).getElementType() == tensorOf(b).getElementType())
    return success();
  return op->emitOpError() << "joins element types "
                           << tensorOf(a).getElementType() << " and "
                           << tensorOf(b).getElementType();
}

} // namespace

LogicalResult RuleOp::verify() {
  Block &block = getBody().front();
  if (block.empty() || !isa<EquateOp, YieldOp>(block.back())) // C1
    return emitOpError("body must end in 'mb.equate' or 'mb.yield'");
  if (getSections().empty())
    return success();
  size_t operands = 0;
  for (OperandOp operand : block.getOps<OperandOp>())
    operands += operand.getSide() == Side::Megatron && !operand.getPart();
  if (isa<EquateOp>(block.back()) && getSections().size() != operands) // C2
    return emitOpError() << "has section lists for " << getSections().size()
                         << " operands, there are " << operands;
  return success();
}

LogicalResult OperandOp::verify() {
  for (Attribute part : getParts().value_or(ArrayAttr::get(getContext(), {})))
    if (failed(verifyPlacement(*this, cast<PartAttr>(part), // C1
                               getResult().getType().getShape())))
      return failure();
  return success();
}

LogicalResult EquateOp::verify() {
  auto megatron = tensorOf(getMegatron()), hf = tensorOf(getHf());
  if (megatron.getShape() != hf.getShape()) // C1
    return emitOpError() << "sides differ in shape: Megatron's is " << megatron
                         << ", Hugging Face's is " << hf;
  if (failed(verifySameElements(*this, getMegatron(), getHf()))) // C2
    return failure();
  if (&(*this)->getBlock()->back() != getOperation()) // C3
    return emitOpError("must be the last operation of its rule");
  return success();
}

LogicalResult YieldOp::verify() {
  if (getValues().size() != getTargets().size()) // C1
    return emitOpError() << "has " << getTargets().size() << " targets for "
                         << getValues().size() << " values";
  if (&(*this)->getBlock()->back() != getOperation()) // C2
    return emitOpError("must be the last operation of its rule");
  return success();
}

LogicalResult FillOp::verify() {
  if (!getResult().getType().getElementType().isIntOrFloat()) // C1
    return emitOpError("needs a float or integer element type");
  return success();
}

LogicalResult ConcatOp::verify() {
  auto whole = tensorOf(getWhole());
  int64_t dim = getDim();
  if (getParts().empty()) // C1
    return emitOpError("needs at least one part");
  if (dim < 0 || dim >= whole.getRank()) // C2
    return emitOpError() << "dim is " << dim << ", but the result has "
                         << whole.getRank() << " dimensions";
  int64_t sum = 0;
  for (auto [index, part] : llvm::enumerate(getParts())) {
    auto type = tensorOf(part);
    if (type.getRank() != whole.getRank()) // C3
      return emitOpError() << "part " << index << " has " << type.getRank()
                           << " dimensions, the result " << whole.getRank();
    if (failed(verifySameElements(*this, part, getWhole()))) // C3
      return failure();
    for (int64_t other = 0; other != type.getRank(); ++other)
      if (other != dim && type.getDimSize(other) != whole.getDimSize(other))
        return emitOpError() // C4
               << "part " << index << " is " << type.getDimSize(other)
               << " wide in dimension " << other << ", the result is "
               << whole.getDimSize(other);
    sum += type.getDimSize(dim);
  }
  if (sum != whole.getDimSize(dim)) // C5
    return emitOpError() << "parts add up to " << sum << " in dimension " << dim
                         << ", the result is " << whole.getDimSize(dim);
  return success();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getParts().size() == 1 ? OpFoldResult(getParts().front())
                                : OpFoldResult();
}

LogicalResult StackOp::verify() {
  auto whole = tensorOf(getWhole());
  int64_t dim = getDim();
  if (getParts().empty()) // C1
    return emitOpError("needs at least one part");
  if (dim < 0 || dim >= whole.getRank()) // C2
    return emitOpError() << "dim is " << dim << ", but the result has "
                         << whole.getRank() << " dimensions";
  auto first = tensorOf(getParts().front());
  for (auto [index, part] : llvm::enumerate(getParts()))
    if (tensorOf(part) != first ||
        failed(verifySameElements(*this, part, getWhole()))) // C3
      return emitOpError() << "part " << index << " is " << tensorOf(part)
                           << ", part 0 is " << first;
  SmallVector<int64_t> expected(first.getShape());
  if (dim > static_cast<int64_t>(expected.size()))
    return emitOpError() << "dim is " << dim << ", but the parts have "
                         << expected.size() << " dimensions";
  expected.insert(expected.begin() + dim, getParts().size());
  if (whole.getShape() != ArrayRef<int64_t>(expected)) // C4
    return emitOpError() << "of " << getParts().size() << " parts " << first
                         << " along dimension " << dim << " is not " << whole;
  return success();
}

LogicalResult SliceOp::verify() {
  auto whole = tensorOf(getWhole()), result = tensorOf(getResult());
  if (static_cast<int64_t>(getStart().size()) != whole.getRank() ||
      result.getRank() != whole.getRank()) // C1
    return emitOpError() << "has a start of rank " << getStart().size()
                         << " and a result of rank " << result.getRank()
                         << " in a tensor of rank " << whole.getRank();
  for (auto [dim, start] : llvm::enumerate(getStart()))
    if (start < 0 || start + result.getDimSize(dim) > whole.getDimSize(dim))
      return emitOpError() // C2
             << "takes " << start << " to " << start + result.getDimSize(dim)
             << " of " << whole.getDimSize(dim) << " in dimension " << dim;
  return verifySameElements(*this, getWhole(), getResult()); // C3
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getWhole().getType() == getResult().getType()
             ? OpFoldResult(getWhole())
             : OpFoldResult();
}

LogicalResult ReshapeOp::verify() {
  auto from = tensorOf(getInput()), to = tensorOf(getResult());
  if (from.getNumElements() != to.getNumElements()) // C1
    return emitOpError() << "turns " << from.getNumElements()
                         << " elements into " << to.getNumElements();
  return verifySameElements(*this, getInput(), getResult()); // C2
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  return getInput().getType() == getResult().getType()
             ? OpFoldResult(getInput())
             : OpFoldResult();
}

LogicalResult TransposeOp::verify() {
  auto from = tensorOf(getInput()), to = tensorOf(getResult());
  SmallVector<int64_t> sorted(getAxes()), all(from.getRank());
  llvm::sort(sorted);
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) // C1
    return emitOpError() << "axes are no permutation of " << from.getRank()
                         << " axes";
  for (auto [dim, axis] : llvm::enumerate(getAxes()))
    if (to.getRank() != from.getRank() ||
        to.getDimSize(dim) != from.getDimSize(axis)) // C2
      return emitOpError() << "turns " << from << " into " << to
                           << ": dimension " << dim << " should be "
                           << from.getDimSize(axis);
  return verifySameElements(*this, getInput(), getResult()); // C3
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [dim, axis] : llvm::enumerate(getAxes()))
    if (static_cast<int64_t>(dim) != axis)
      return {};
  return getInput();
}

LogicalResult GatherOp::verify() {
  if (getValues().size() != getParts().size()) // C1
    return emitOpError() << "has " << getParts().size() << " part lists for "
                         << getValues().size() << " values";
  for (auto [index, value] : llvm::enumerate(getValues())) {
    auto part = cast<PartAttr>(getParts()[index]);
    if (part.getShape() != tensorOf(value).getShape()) // C1
      return emitOpError() << "part " << index << " does not have the shape of "
                           << tensorOf(value);
    if (failed(verifyPlacement(*this, part, tensorOf(getWhole()).getShape())) ||
        failed(verifySameElements(*this, value, getWhole()))) // C2, C3
      return failure();
  }
  return success();
}

} // namespace mbc::map
