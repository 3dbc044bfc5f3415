#include "compiler/RuleClass.h"

#include "tests/compiler/RuleBuilder.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace mbc::compiler {
namespace {

using namespace test;

TensorProgram compile(const Rule &rule) {
  dsl::Diagnostics diagnostics;
  auto program =
      compileClasses({rule.type}, Direction::Import, {}, diagnostics);
  if (!program)
    throw std::runtime_error(program.error().message);
  return std::move(*program);
}

Rule dequantRule(DType codes, DType scale, DType to) {
  Rule rule = copyRule({4, 256}, dsl::ShardKind::Replicated, to, codes);
  rule.type.hf[0].scale = BlockScale{scale, {4, 2}, 1, 128};
  return rule;
}

/// The lines of one entry of a module.
std::string entryOf(const DeviceModule &module, const std::string &name) {
  size_t begin = module.ptx.find(".entry " + name + "(");
  if (begin == std::string::npos)
    return {};
  return module.ptx.substr(begin, module.ptx.find("\n}", begin) - begin);
}

bool holds(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(GpuKernel, FP8HasAModuleForEachGeneration) {
  TensorProgram program =
      compile(dequantRule(DType::F8_E4M3, DType::F32, DType::BF16));
  ASSERT_EQ(program.deviceModules.size(), 2u);
  EXPECT_EQ(program.deviceModules[0].capability, 80u);
  EXPECT_EQ(program.deviceModules[1].capability, 90u);
  for (const DeviceModule &module : program.deviceModules) {
    std::string vectors = entryOf(module, program.kernels[0]);
    ASSERT_FALSE(vectors.empty());
    EXPECT_FALSE(entryOf(module, program.kernels[0] + "_any").empty());
    // Whole vectors on both sides, and the pairwise rounding.
    EXPECT_TRUE(holds(vectors, "ld.global.v2.u32"));
    EXPECT_TRUE(holds(vectors, "st.global.v4.b32") ||
                holds(vectors, "st.global.v4.u32"));
    EXPECT_TRUE(holds(vectors, "cvt.rn.bf16x2.f32"));
    EXPECT_FALSE(holds(vectors, "fma.")) << "products are rounded";
    EXPECT_EQ(holds(vectors, "cvt.rn.f16x2.e4m3x2"), module.capability >= 90);
  }
}

TEST(GpuKernel, NaNsTakeOneInstructionWhereThereIsOne) {
  for (DType codes : {DType::F4_E2M1, DType::I4}) {
    TensorProgram program =
        compile(dequantRule(codes, DType::F8_E8M0, DType::F16));
    ASSERT_EQ(program.deviceModules.size(), 2u);
    for (const DeviceModule &module : program.deviceModules) {
      std::string vectors = entryOf(module, program.kernels[0]);
      EXPECT_TRUE(holds(vectors, "cvt.rn.f16x2.f32"));
      EXPECT_EQ(holds(vectors, "min.s16x2"), module.capability >= 90);
    }
  }
}

TEST(GpuKernel, ATensorScaleIsAppliedToTheScale) {
  for (TensorScale level : {TensorScale::Multiplies, TensorScale::Divides}) {
    Rule rule = dequantRule(DType::F4_E2M1, DType::F8_E4M3, DType::BF16);
    rule.type.hf[0].scale->tensor = level;
    TensorProgram program = compile(rule);
    for (const DeviceModule &module : program.deviceModules) {
      std::string vectors = entryOf(module, program.kernels[0]);
      ASSERT_FALSE(vectors.empty());
      EXPECT_EQ(holds(vectors, "div.rn.f32"), level == TensorScale::Divides);
      EXPECT_FALSE(holds(vectors, "fma.")) << "products are rounded";
    }
  }
}

TEST(GpuKernel, WideningNeedsOneModule) {
  TensorProgram program = compile(
      copyRule({4, 4}, dsl::ShardKind::Replicated, DType::F32, DType::BF16));
  EXPECT_EQ(program.deviceModules.size(), 1u);
}

TEST(GpuKernel, PureMovementHasNone) {
  TensorProgram program = compile(copyRule({4, 4}, dsl::ShardKind::Replicated));
  EXPECT_TRUE(program.deviceModules.empty());
}

TEST(GpuKernel, ExactCastsReportWhatTheyLose) {
  Rule rule =
      copyRule({4, 4}, dsl::ShardKind::Replicated, DType::BF16, DType::F32);
  for (bool exact : {false, true}) {
    rule.type.exactCasts = exact;
    TensorProgram program = compile(rule);
    std::string vectors =
        entryOf(program.deviceModules.at(0), program.kernels[0]);
    EXPECT_EQ(holds(vectors, ".min.u64"), exact);
  }
}

std::string findAssembler() {
  for (const char *path : {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"})
    if (std::ifstream(path))
      return path;
  return {};
}

/// Every format's kernels are assembled, where NVIDIA's assembler is there.
TEST(GpuKernel, EveryModuleIsAssembled) {
  std::string assembler = findAssembler();
  if (assembler.empty())
    GTEST_SKIP() << "no ptxas on this machine";
  std::vector<Rule> rules;
  for (DType to : {DType::BF16, DType::F16, DType::F32}) {
    for (DType codes : {DType::F8_E4M3, DType::F4_E2M1, DType::I4})
      rules.push_back(dequantRule(codes, DType::F8_E8M0, to));
    for (TensorScale level : {TensorScale::Multiplies, TensorScale::Divides}) {
      rules.push_back(dequantRule(DType::F4_E2M1, DType::F8_E4M3, to));
      rules.back().type.hf[0].scale->tensor = level;
    }
    for (DType from : {DType::BF16, DType::F16, DType::F32})
      if (from != to)
        for (bool exact : {false, true}) {
          rules.push_back(
              copyRule({4, 4}, dsl::ShardKind::Replicated, to, from));
          rules.back().type.exactCasts = exact;
        }
  }
  std::vector<RuleClass> classes;
  for (const Rule &rule : rules)
    classes.push_back(rule.type);
  dsl::Diagnostics diagnostics;
  auto program = compileClasses(classes, Direction::Import, {}, diagnostics);
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->deviceModules.size(), 2u);
  for (const DeviceModule &module : program->deviceModules) {
    std::string path = testing::TempDir() + "mbc-kernels-" +
                       std::to_string(module.capability) + ".ptx";
    std::ofstream(path) << module.ptx;
    std::string command = fmt::format("{} -arch=sm_{} -o /dev/null {}",
                                      assembler, module.capability, path);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::remove(path.c_str());
  }
}

} // namespace
} // namespace mbc::compiler
