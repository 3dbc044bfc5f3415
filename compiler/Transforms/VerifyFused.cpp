#include "compiler/Transforms/IndexMaps.h"
#include "compiler/Transforms/Passes.h"

using namespace mlir;

namespace mbc::compiler {

#define GEN_PASS_DEF_MBVERIFYFUSED
#include "compiler/Transforms/Passes.h.inc"

namespace {

using namespace map;

LogicalResult verifySources(FusedOp fused, const BoxMap &map) {
  for (const Box &box : map.boxes) {
    if (box.input < 0)
      continue;
    int64_t last = box.sourceOffset;
    for (const BoxDim &dim : box.dims)
      last += (dim.count - 1) * dim.source;
    int64_t elements = shapeOf(fused.getInputs()[box.input]).elements();
    if (box.sourceOffset < 0 || last >= elements)
      return fused.emitError()
             << "a box reads elements " << box.sourceOffset << " to " << last
             << " of an input with " << elements;
  }
  return success();
}

LogicalResult verifyFused(FusedOp fused) {
  BoxMap map{shapeOf(fused.getResult()).elements(), {}};
  for (auto box : fused.getBoxes().getAsRange<BoxAttr>())
    map.boxes.push_back(boxOf(box));
  if (std::optional<std::string> problem = checkTiling(map))
    return fused.emitError() << "the tensor " << fused.getResult().getType()
                             << " is not written exactly once: " << *problem
                             << "; the stored parts do not add up to the whole";
  return verifySources(fused, map);
}

struct VerifyFused : impl::MbVerifyFusedBase<VerifyFused> {
  void runOnOperation() override {
    for (RuleOp rule : getOperation().getOps<RuleOp>()) {
      for (Operation &op : rule.getBody().front()) {
        auto fused = dyn_cast<FusedOp>(op);
        if (fused && failed(verifyFused(fused)))
          signalPassFailure();
        if (!isa<OperandOp, FusedOp, YieldOp>(op)) {
          op.emitOpError("is left after fusion");
          signalPassFailure();
        }
      }
    }
  }
};

} // namespace
} // namespace mbc::compiler
