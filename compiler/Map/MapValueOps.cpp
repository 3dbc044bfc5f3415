#include "compiler/Map/MapOps.h"

#include <cmath>

using namespace mlir;

/// Verifiers and folds of the operations that change elements, and of what
/// they become once fused.
namespace mbc::map {
namespace {

RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

bool isNarrowFloat(Type type) { return type.isF16() || type.isBF16(); }

bool isComputable(Type type) { return type.isF32() || isNarrowFloat(type); }

/// What a quantised weight consists of.
bool isCode(Type type) {
  return isa<Float8E4M3FNType>(type) || type.isUnsignedInteger(4) ||
         type.isSignedInteger(4);
}

bool isScale(Type type) {
  return isComputable(type) || type.isSignedInteger(8) ||
         isa<Float8E4M3FNType>(type);
}

LogicalResult verifyConstantOp(Operation *op, Type element, double value) {
  if (!isComputable(element)) // C1
    return op->emitOpError()
           << "cannot compute in " << element << ", only in f32, f16 and bf16";
  if (!std::isfinite(value)) // C2
    return op->emitOpError("needs a finite constant");
  return success();
}

} // namespace

LogicalResult AddOp::verify() {
  return verifyConstantOp(*this, getResult().getType().getElementType(),
                          getValue().convertToDouble());
}

OpFoldResult AddOp::fold(FoldAdaptor) {
  // Negative zero only: adding +0 turns -0 into +0.
  return getValue().isNegZero() ? OpFoldResult(getInput()) : OpFoldResult();
}

LogicalResult ScaleOp::verify() {
  if (getValue().isZero()) // C2
    return emitOpError("by zero has no inverse");
  return verifyConstantOp(*this, getResult().getType().getElementType(),
                          getValue().convertToDouble());
}

OpFoldResult ScaleOp::fold(FoldAdaptor) {
  return getValue().isExactlyValue(1.0) ? OpFoldResult(getInput())
                                        : OpFoldResult();
}

LogicalResult CastOp::verify() {
  Type from = tensorOf(getInput()).getElementType();
  Type to = tensorOf(getResult()).getElementType();
  if (from == to)
    return success();
  if (!(isComputable(from) || isa<Float8E4M3FNType>(from)) ||
      !isComputable(to)) // C1
    return emitOpError() << "does not know how to turn " << from << " into "
                         << to << "; it casts f8E4M3FN, bf16, f16 and f32 to "
                         << "bf16, f16 and f32";
  return success();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getResult().getType()
             ? OpFoldResult(getInput())
             : OpFoldResult();
}

LogicalResult DequantOp::verify() {
  auto codes = tensorOf(getCodes()), scales = tensorOf(getScales());
  if (codes.getRank() != 2 || !isCode(codes.getElementType()) ||
      scales.getRank() != 2 || !isScale(scales.getElementType())) // C1
    return emitOpError()
           << "needs a matrix of codes (f8E4M3FN, ui4, si4) and a "
           << "matrix of scales, got " << codes << " and " << scales;
  if (getBlock().size() != 2 || getBlock()[0] < 1 || getBlock()[1] < 1) // C2
    return emitOpError("needs two positive block extents");
  for (int dim = 0; dim != 2; ++dim) {
    int64_t block = getBlock()[dim];
    int64_t needed = (codes.getDimSize(dim) + block - 1) / block;
    if (scales.getDimSize(dim) != needed) // C2
      return emitOpError() << "has " << scales.getDimSize(dim)
                           << " scales in dimension " << dim << ", but "
                           << codes.getDimSize(dim) << " codes in blocks of "
                           << block << " need " << needed;
  }
  auto result = tensorOf(getResult());
  if (!result.getElementType().isF32() ||
      result.getShape() != codes.getShape()) // C3
    return emitOpError() << "gives f32 of the codes' shape, not " << result;
  if (getTensorScale()) { // C4
    auto tensorScale = tensorOf(getTensorScale());
    if (tensorScale.getNumElements() != 1 ||
        !tensorScale.getElementType().isF32())
      return emitOpError() << "has the tensor scale " << tensorScale
                           << ", which is not one f32";
  } else if (getDivides()) { // C4
    return emitOpError("has no tensor scale that divides");
  }
  return success();
}

LogicalResult FusedOp::verify() {
  if (!getScales().empty() && getScales().size() != getInputs().size()) // C1
    return emitOpError() << "has " << getScales().size() << " scales for "
                         << getInputs().size() << " inputs";
  if (!getTensorScales().empty() &&
      getTensorScales().size() != getScales().size()) // C1
    return emitOpError() << "has " << getTensorScales().size()
                         << " tensor scales for " << getScales().size()
                         << " scales";
  if (!getBody().empty()) { // C2
    Block &block = getBody().front();
    size_t arguments = 1 + !getScales().empty() + !getTensorScales().empty();
    if (block.getNumArguments() != arguments)
      return emitOpError() << "body has " << block.getNumArguments()
                           << " arguments instead of " << arguments;
    auto give = block.empty() ? ReturnOp() : dyn_cast<ReturnOp>(block.back());
    Type element = tensorOf(getResult()).getElementType();
    if (!give || give.getValue().getType() != element)
      return emitOpError() << "body must return " << element;
  }
  for (auto box : getBoxes().getAsRange<BoxAttr>()) // C3
    if (box.getInput() < -1 ||
        box.getInput() >= static_cast<int64_t>(getInputs().size()) ||
        box.getCounts().size() != box.getSourceStrides().size() ||
        box.getCounts().size() != box.getTargetStrides().size())
      return emitOpError() << "has a malformed box: " << box;
  if (getScales().empty() == getBlock().has_value()) // C4
    return emitOpError("needs a block exactly if it has scales");
  return success();
}

LogicalResult ConvertOp::verify() {
  Type from = getInput().getType(), to = getResult().getType();
  bool widens = to.isF32() && !from.isF32() && (isScale(from) || isCode(from));
  bool narrows = from.isF32() && isNarrowFloat(to);
  if (!widens && !narrows) // C1
    return emitOpError() << "does not know how to turn " << from << " into "
                         << to;
  return success();
}

} // namespace mbc::map
