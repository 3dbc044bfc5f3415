#include "compiler/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace mbc::compiler {

#define GEN_PASS_DEF_MBCLASSIFY
#include "compiler/Transforms/Passes.h.inc"

namespace {

using namespace map;

/// The bits of the constant operand of an f32 operation, or what else it is.
std::string factorOf(Operation &op) {
  auto constant = op.getOperand(1).getDefiningOp<arith::ConstantOp>();
  if (!constant) {
    auto argument = dyn_cast<BlockArgument>(op.getOperand(1));
    return argument && argument.getArgNumber() == 2 ? "tensorscale" : "scale";
  }
  APFloat value = cast<FloatAttr>(constant.getValue()).getValue();
  return llvm::utohexstr(value.bitcastToAPInt().getZExtValue());
}

/// The chain spelt out as a symbol: mbc_f8E4M3FN_f32_mul_scale_bf16.
std::string symbolOf(FusedOp fused) {
  std::string name;
  llvm::raw_string_ostream out(name);
  Block &body = fused.getBody().front();
  out << "mbc_" << body.getArgument(0).getType();
  for (Operation &op : body) {
    if (auto convert = dyn_cast<ConvertOp>(op)) {
      // An argument that is widened before the multiplication is its scale.
      bool ofScale = body.getNumArguments() > 1 &&
                     convert.getInput() == body.getArgument(1);
      out << (ofScale ? "_scale" : "_") << convert.getResult().getType()
          << (convert.getExact() ? "_exact" : "");
    } else if (isa<arith::MulFOp>(op)) {
      out << "_mul_" << factorOf(op);
    } else if (isa<arith::DivFOp>(op)) {
      out << "_div_" << factorOf(op);
    } else if (isa<arith::AddFOp>(op)) {
      out << "_add_" << factorOf(op);
    }
  }
  if (body.getNumArguments() > 1)
    out << "_by_" << body.getArgument(1).getType();
  return name;
}

struct Classify : impl::MbClassifyBase<Classify> {
  void runOnOperation() override {
    getOperation().walk([](FusedOp fused) {
      if (!fused.getBody().empty())
        fused.setKernel(symbolOf(fused));
    });
  }
};

} // namespace
} // namespace mbc::compiler
