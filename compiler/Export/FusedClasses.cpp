#include "compiler/Export/FusedClasses.h"

#include "compiler/Transforms/IndexMaps.h"

#include <algorithm>

using namespace mlir;

namespace mbc::compiler {
namespace {

using namespace map;

/// Collects one rule. Inputs are numbered when an output first uses them.
class ClassExporter {
public:
  ClassExporter(const RuleClass &rule, Direction direction,
                TensorProgram &program, std::vector<FusedOp> &bodies)
      : sources(direction == Direction::Export ? rule.megatron : rule.hf),
        targets(direction == Direction::Export ? rule.hf : rule.megatron),
        program(program), bodies(bodies) {}

  FusedClass run(RuleOp rule) {
    auto yield = cast<YieldOp>(rule.getBody().front().back());
    for (auto [value, target] :
         llvm::zip(yield.getValues(), yield.getTargets()))
      addOutput(value.getDefiningOp<FusedOp>(), cast<TargetAttr>(target));
    for (FusedOutput &output : result.outputs)
      output.scales.resize(result.inputs.size());
    return std::move(result);
  }

private:
  uint32_t inputOf(Value value) {
    auto operand = value.getDefiningOp<OperandOp>();
    FusedInput input;
    input.operand = operand.getOrdinal();
    input.part = operand.getPart().value_or(0);
    input.role = operand.getScales()        ? Role::Scales
                 : operand.getTensorScale() ? Role::TensorScale
                                            : Role::Values;
    for (size_t index = 0; index != result.inputs.size(); ++index) {
      const FusedInput &known = result.inputs[index];
      if (known.operand == input.operand && known.part == input.part &&
          known.role == input.role)
        return index;
    }
    const OperandType &source = sources[input.operand];
    input.dtype = input.role == Role::Values   ? source.dtype
                  : input.role == Role::Scales ? source.scale->dtype
                                               : DType::F32;
    input.elements = operand.getResult().getType().getNumElements();
    result.inputs.push_back(input);
    return result.inputs.size() - 1;
  }

  void addOutput(FusedOp fused, TargetAttr target) {
    FusedOutput output;
    output.operand = target.getOperand();
    output.rank = target.getRank();
    output.section = target.getSection();
    ArrayRef<int64_t> start = target.getStart();
    output.start = Shape(std::span<const int64_t>(start.data(), start.size()));
    output.shape = shapeOf(fused.getResult());
    output.dtype = targets[output.operand].dtype;
    std::vector<uint32_t> inputs;
    for (auto [index, value] : llvm::enumerate(fused.getInputs())) {
      inputs.push_back(inputOf(value));
      if (!fused.getScales().empty())
        addScales(fused, index, inputs.back(), output);
    }
    for (auto attribute : fused.getBoxes().getAsRange<BoxAttr>()) {
      Box box = boxOf(attribute);
      if (box.input >= 0)
        box.input = inputs[box.input];
      output.boxes.push_back(std::move(box));
    }
    if (fused.getKernel())
      output.kernel = kernelOf(fused);
    result.outputs.push_back(std::move(output));
  }

  void addScales(FusedOp fused, size_t index, uint32_t weight,
                 FusedOutput &output) {
    InputScales scales;
    scales.input = inputOf(fused.getScales()[index]);
    if (!fused.getTensorScales().empty())
      scales.tensorScale = inputOf(fused.getTensorScales()[index]);
    scales.columns = shapeOf(fused.getInputs()[index])[1];
    scales.scaleColumns = shapeOf(fused.getScales()[index])[1];
    scales.blockRows = (*fused.getBlock())[0];
    scales.blockColumns = (*fused.getBlock())[1];
    output.scales.resize(std::max<size_t>(output.scales.size(), weight + 1));
    output.scales[weight] = scales;
  }

  int32_t kernelOf(FusedOp fused) {
    std::string symbol = fused.getKernel()->str();
    auto known = std::ranges::find(program.kernels, symbol);
    if (known == program.kernels.end()) {
      program.kernels.push_back(symbol);
      bodies.push_back(fused);
      known = std::prev(program.kernels.end());
    }
    return known - program.kernels.begin();
  }

  const std::vector<OperandType> &sources, &targets;
  TensorProgram &program;
  std::vector<FusedOp> &bodies;
  FusedClass result;
};

} // namespace

void exportClasses(ModuleOp module, const std::vector<RuleClass> &classes,
                   Direction direction, TensorProgram &program,
                   std::vector<FusedOp> &bodies) {
  size_t index = 0;
  for (RuleOp rule : module.getOps<RuleOp>())
    program.classes.push_back(
        ClassExporter(classes[index++], direction, program, bodies).run(rule));
}

} // namespace mbc::compiler
