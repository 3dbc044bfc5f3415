#include "compiler/Export/DotText.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

using namespace mlir;

namespace mbc::compiler {
namespace {

using namespace map;

/// "8 x 16 bf16".
std::string describe(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleave(tensor.getShape(), out, " x ");
  out << (tensor.getRank() ? " " : "scalar ") << tensor.getElementType();
  return text;
}

class DotWriter {
public:
  explicit DotWriter(llvm::raw_ostream &out) : out(out) {}

  void run(ModuleOp module) {
    out << "digraph mbc {\n"
           "  rankdir=LR;\n"
           "  node [shape=box, style=rounded, fontname=\"Helvetica\", "
           "fontsize=11];\n"
           "  edge [fontname=\"Helvetica\", fontsize=9];\n";
    for (RuleOp rule : module.getOps<RuleOp>())
      writeRule(rule);
    out << "}\n";
  }

private:
  void writeRule(RuleOp rule) {
    out << "  subgraph \"cluster_" << rule.getSymName() << "\" {\n"
        << "    label=\""
        << escaped(rule.getLabel().value_or(rule.getSymName())) << "\\n"
        << stringifyShardKind(rule.getShard().getKind())
        << (rule.getShard().getExpert() ? " (expert)" : "")
        << "\";\n    color=gray60;\n";
    for (Operation &op : rule.getBody().front())
      writeOperation(op);
    out << "  }\n";
  }

  static std::string escaped(StringRef text) {
    std::string result;
    for (char c : text) {
      if (c == '"' || c == '\\')
        result += '\\';
      result += c;
    }
    return result;
  }

  void node(const std::string &name, const std::string &label,
            StringRef style) {
    out << "    " << name << " [label=\"" << label << "\"" << style << "];\n";
  }

  void writeOperation(Operation &op) {
    std::string name = fmt::format("n{}", count++);
    if (auto yield = dyn_cast<YieldOp>(op))
      return writeYield(yield);
    if (auto equate = dyn_cast<EquateOp>(op)) {
      node(name, "=", ", shape=circle");
      edge(equate.getMegatron(), name);
      edge(equate.getHf(), name);
      return;
    }
    names[op.getResult(0)] = name;
    node(name, labelOf(op),
         isa<OperandOp>(op) ? ", style=filled, fillcolor=\"#dbe9f6\"" : "");
    for (Value operand : op.getOperands())
      edge(operand, name);
  }

  void writeYield(YieldOp yield) {
    for (auto [value, attribute] :
         llvm::zip(yield.getValues(), yield.getTargets())) {
      auto target = cast<TargetAttr>(attribute);
      std::string name = fmt::format("n{}", count++);
      std::string label = fmt::format("target {}, rank {}, section {}\\nat [",
                                      target.getOperand(), target.getRank(),
                                      target.getSection());
      llvm::raw_string_ostream text(label);
      llvm::interleaveComma(target.getStart(), text);
      text << "]";
      node(name, label, ", style=filled, fillcolor=\"#dff0d8\"");
      edge(value, name);
    }
  }

  std::string labelOf(Operation &op) {
    std::string text;
    llvm::raw_string_ostream label(text);
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](OperandOp operand) {
          label << (operand.getSide() == Side::Hf ? "HF " : "Megatron ")
                << operand.getOrdinal();
          if (operand.getPart())
            label << ", part " << *operand.getPart();
          if (operand.getScales())
            label << ", scales";
          if (operand.getTensorScale())
            label << ", tensor scale";
        })
        .Case([&](FusedOp fused) {
          size_t boxes = fused.getBoxes().size();
          label << "fused, " << boxes << (boxes == 1 ? " box" : " boxes")
                << "\\n"
                << fused.getKernel().value_or("copy");
        })
        .Case(
            [&](ConcatOp concat) { label << "concat dim " << concat.getDim(); })
        .Case([&](StackOp stack) { label << "stack dim " << stack.getDim(); })
        .Case([&](FillOp fill) {
          label << "fill " << fill.getValue().convertToDouble();
        })
        .Case([&](AddOp add) {
          label << "add " << add.getValue().convertToDouble();
        })
        .Case([&](ScaleOp scale) {
          label << "scale " << scale.getValue().convertToDouble();
        })
        .Default([&](Operation *other) {
          label << other->getName().stripDialect();
        });
    label << "\\n" << describe(op.getResult(0).getType());
    return text;
  }

  void edge(Value from, const std::string &to) {
    out << "    " << names[from] << " -> " << to << ";\n";
  }

  llvm::raw_ostream &out;
  llvm::DenseMap<Value, std::string> names;
  size_t count = 0;
};

} // namespace

std::string dotText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  DotWriter(out).run(module);
  return text;
}

} // namespace mbc::compiler
