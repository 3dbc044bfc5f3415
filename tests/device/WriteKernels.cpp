#include "runtime/Plan_generated.h"
#include "tests/compiler/RuleBuilder.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>

namespace mbc::compiler::test {
namespace {

/// What a kernel does, as a line of the plan's notes: the dtypes as numbers,
/// -1 for none, the constant that is added or multiplied, and what the tensor
/// scale does.
struct Case {
  DType from, to;
  int scale = -1;
  bool exact = false;
  float added = 0, factor = 1;
  TensorScale tensor = TensorScale::None;
};

std::vector<Case> allCases() {
  std::vector<Case> cases;
  const DType floats[] = {DType::BF16, DType::F16, DType::F32};
  for (DType from : floats)
    for (DType to : floats)
      if (from != to) {
        cases.push_back({from, to});
        if (to != DType::F32)
          cases.push_back({.from = from, .to = to, .exact = true});
      }
  for (DType from : {DType::F8_E4M3, DType::F4_E2M1, DType::I4})
    for (DType to : floats)
      for (DType scale : {DType::F32, DType::BF16, DType::F16, DType::F8_E8M0})
        cases.push_back({from, to, static_cast<int>(scale)});
  for (DType to : floats)
    for (TensorScale level : {TensorScale::Multiplies, TensorScale::Divides})
      cases.push_back({.from = DType::F4_E2M1,
                       .to = to,
                       .scale = static_cast<int>(DType::F8_E4M3),
                       .tensor = level});
  for (DType type : floats) {
    cases.push_back({.from = type, .to = type, .added = 1});
    cases.push_back({.from = type, .to = type, .factor = 0.3f});
  }
  cases.push_back({.from = DType::BF16, .to = DType::F16, .added = -1});
  return cases;
}

Rule ruleOf(const Case &kind) {
  Shape shape = {4, 256};
  SideBuilder side;
  uint32_t node = side.tensor(0);
  if (kind.added != 0)
    node = side.constant(dsl::OpKind::Add, node, kind.added);
  if (kind.factor != 1)
    node = side.constant(dsl::OpKind::Scale, node, kind.factor);
  OperandType source = typed(shape, kind.from);
  if (kind.scale >= 0)
    source.scale =
        BlockScale{static_cast<DType>(kind.scale), {4, 2}, 1, 128, kind.tensor};
  Rule rule = makeRule(typed(shape, kind.to), {source}, std::move(side));
  rule.type.exactCasts = kind.exact;
  return rule;
}

/// A plan of kernels alone.
std::string writePlan(const TensorProgram &program,
                      const std::vector<std::string> &notes) {
  flatbuffers::FlatBufferBuilder builder;
  plan::PlanT content;
  for (const std::string &symbol : program.kernels) {
    content.kernels.push_back(std::make_unique<plan::KernelT>());
    content.kernels.back()->symbol = symbol;
  }
  content.kernel_objects.assign(program.kernelObject.begin(),
                                program.kernelObject.end());
  for (const DeviceModule &module : program.deviceModules) {
    auto &row = *content.device_modules.emplace_back(
        std::make_unique<plan::DeviceModuleT>());
    row.capability = module.capability;
    row.driver = module.driver;
    row.ptx = module.ptx;
  }
  content.notes = notes;
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &content));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

int run(const char *path) {
  std::vector<Rule> rules;
  std::vector<RuleClass> classes;
  std::vector<std::string> notes;
  for (const Case &kind : allCases()) {
    rules.push_back(ruleOf(kind));
    classes.push_back(rules.back().type);
    notes.push_back(
        fmt::format("{} {} {} {} {} {} {}", static_cast<int>(kind.from),
                    static_cast<int>(kind.to), kind.scale, kind.exact ? 1 : 0,
                    kind.added, kind.factor, static_cast<int>(kind.tensor)));
  }
  dsl::Diagnostics diagnostics;
  auto program = compileClasses(classes, Direction::Import, {}, diagnostics);
  if (!program || program->kernels.size() != notes.size()) {
    std::cerr << (program ? "kernels are shared or missing"
                          : program.error().message)
              << "\n";
    return 1;
  }
  std::ofstream out(path, std::ios::binary);
  out << writePlan(*program, notes);
  return out.good() ? 0 : 1;
}

} // namespace
} // namespace mbc::compiler::test

/// usage: mbc-device-kernels OUT
/// Writes the kernels of all number formats, for the CPU and as PTX.
int main(int argc, char **argv) {
  return argc == 2 ? mbc::compiler::test::run(argv[1]) : 2;
}
