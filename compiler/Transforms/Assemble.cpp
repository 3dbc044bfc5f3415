#include "compiler/Transforms/Passes.h"

using namespace mlir;

namespace mbc::compiler {

#define GEN_PASS_DEF_MBASSEMBLE
#include "compiler/Transforms/Passes.h.inc"

namespace {

using namespace map;

void assemble(OperandOp operand) {
  OpBuilder builder(operand);
  auto whole = operand.getResult().getType();
  SmallVector<Value> values;
  for (auto [index, attribute] : llvm::enumerate(*operand.getParts())) {
    auto part = cast<PartAttr>(attribute);
    values.push_back(builder.create<OperandOp>(
        operand.getLoc(), whole.clone(part.getShape()), operand.getSide(),
        operand.getOrdinal(), false, false, builder.getI64IntegerAttr(index),
        ArrayAttr()));
  }
  Value gathered = builder.create<GatherOp>(operand.getLoc(), whole, values,
                                            *operand.getParts());
  operand.getResult().replaceAllUsesWith(gathered);
  operand.erase();
}

struct Assemble : impl::MbAssembleBase<Assemble> {
  void runOnOperation() override {
    getOperation().walk([](OperandOp operand) {
      if (operand.getParts())
        assemble(operand);
    });
  }
};

} // namespace
} // namespace mbc::compiler
