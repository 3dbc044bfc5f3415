#include "compiler/Transforms/ElementSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

using namespace map;

Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

APFloat rounded(APFloat number, const llvm::fltSemantics &semantics) {
  bool losesInfo = false;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  return number;
}

/// The value of a chain while its body is written; arithmetic is in f32.
class BodyWriter {
public:
  BodyWriter(OpBuilder &builder, Location location, Block &body)
      : current(body.getArgument(0)), builder(builder), location(location),
        body(body) {}

  Value current;

  void convertTo(Type type, bool exact = false) {
    if (current.getType() == type)
      return;
    if (!current.getType().isF32() && !type.isF32())
      convertTo(builder.getF32Type());
    bool widens = type.isF32(); // which loses nothing
    current =
        builder.create<ConvertOp>(location, type, current, exact && !widens);
  }

  void run(const ElementStep &step) {
    if (step.kind == ElementStep::Cast)
      return convertTo(step.type, step.exact);
    convertTo(builder.getF32Type());
    if (step.kind == ElementStep::Dequant) {
      Value codes = current;
      current = body.getArgument(1);
      convertTo(builder.getF32Type());
      if (body.getNumArguments() > 2)
        applyTensorScale(step.divides);
      current = builder.create<arith::MulFOp>(location, codes, current);
      return;
    }
    Value constant = builder.create<arith::ConstantOp>(
        location, builder.getF32FloatAttr(static_cast<float>(step.value)));
    if (step.kind == ElementStep::Add)
      current = builder.create<arith::AddFOp>(location, current, constant);
    else
      current = builder.create<arith::MulFOp>(location, current, constant);
    convertTo(step.type);
  }

private:
  /// Before the codes are multiplied: the formats' programs round here.
  void applyTensorScale(bool divides) {
    Value tensorScale = body.getArgument(2);
    if (divides)
      current = builder.create<arith::DivFOp>(location, current, tensorScale);
    else
      current = builder.create<arith::MulFOp>(location, current, tensorScale);
  }

  OpBuilder &builder;
  Location location;
  Block &body;
};

} // namespace

std::optional<ElementStep> stepOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<ElementStep>>(op)
      .Case([](DequantOp dequant) {
        return ElementStep{ElementStep::Dequant, elementOf(dequant.getResult()),
                           false, 0, dequant.getDivides()};
      })
      .Case([](CastOp cast) {
        return ElementStep{ElementStep::Cast, elementOf(cast.getResult()),
                           cast.getExact()};
      })
      .Case([](AddOp add) {
        return ElementStep{ElementStep::Add, elementOf(add.getResult()), false,
                           add.getValue().convertToDouble()};
      })
      .Case([](ScaleOp scale) {
        return ElementStep{ElementStep::Scale, elementOf(scale.getResult()),
                           false, scale.getValue().convertToDouble()};
      })
      .Default([](Operation *) { return std::nullopt; });
}

uint64_t foldConstant(uint64_t bits, Type from, const ElementStep &step) {
  auto fromFloat = dyn_cast<FloatType>(from);
  auto toFloat = dyn_cast<FloatType>(step.type);
  if (!fromFloat || !toFloat)
    return bits;
  const llvm::fltSemantics &single = APFloat::IEEEsingle();
  APFloat number(fromFloat.getFloatSemantics(),
                 APInt(fromFloat.getWidth(), bits));
  number = rounded(number, single);
  APFloat constant = rounded(APFloat(step.value), single);
  if (step.kind == ElementStep::Add)
    number.add(constant, APFloat::rmNearestTiesToEven);
  else if (step.kind == ElementStep::Scale)
    number.multiply(constant, APFloat::rmNearestTiesToEven);
  return rounded(number, toFloat.getFloatSemantics())
      .bitcastToAPInt()
      .getZExtValue();
}

void buildBody(OpBuilder &builder, Location location,
               ArrayRef<ElementStep> steps, Block &body) {
  BodyWriter writer(builder, location, body);
  for (const ElementStep &step : steps)
    writer.run(step);
  builder.create<ReturnOp>(location, writer.current);
}

} // namespace mbc::compiler
