#include "compiler/RuleClass.h"

#include "tests/compiler/RuleBuilder.h"

#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

using namespace test;

FusedClass compileOne(const Rule &rule, Direction direction,
                      const ShardLayout &layout) {
  dsl::Diagnostics diagnostics;
  auto program = compileClasses({rule.type}, direction, layout, diagnostics);
  if (!program) {
    for (const dsl::Diagnostic &diagnostic : diagnostics.all())
      ADD_FAILURE() << diagnostic.text;
    throw std::runtime_error(program.error().message);
  }
  return program->classes.at(0);
}

std::string firstError(const Rule &rule, Direction direction,
                       const ShardLayout &layout) {
  dsl::Diagnostics diagnostics;
  auto program = compileClasses({rule.type}, direction, layout, diagnostics);
  EXPECT_FALSE(program);
  if (diagnostics.all().empty())
    return "";
  EXPECT_EQ(diagnostics.all()[0].where.line, 3u);
  return diagnostics.all()[0].text;
}

std::vector<int64_t> valuesOf(const FusedClass &fused, size_t output) {
  const FusedOutput &made = fused.outputs.at(output);
  return applyBoxes(made.shape.elements(), made.boxes, numbered(fused));
}

/// Query groups as Megatron lays them out: H/G query heads, a key head and a
/// value head for each group.
Rule qkvRule(int64_t H, int64_t G, int64_t d, int64_t h) {
  SideBuilder side;
  uint32_t q = side.reshape(side.tensor(0, H * d), {G, H / G * d}, true);
  uint32_t k = side.reshape(side.tensor(1, G * d), {G, d}, true);
  uint32_t v = side.reshape(side.tensor(2, G * d), {G, d}, true);
  side.reshape(side.concat({q, k, v}, 1), {(H + 2 * G) * d}, true);
  return makeRule(typed({(H + 2 * G) * d, h}),
                  {typed({H * d, h}), typed({G * d, h}), typed({G * d, h})},
                  std::move(side), dsl::ShardKind::Column);
}

int64_t expectedQkv(int64_t H, int64_t G, int64_t d, int64_t h, int64_t row,
                    int64_t column) {
  int64_t group = row / ((H / G + 2) * d), inGroup = row % ((H / G + 2) * d);
  int64_t queries = H / G * d;
  if (inGroup < queries)
    return (group * queries + inGroup) * h + column;
  int64_t operand = inGroup < queries + d ? 1 : 2;
  int64_t within = inGroup - queries - (operand - 1) * d;
  return operand * 1000000 + (group * d + within) * h + column;
}

void checkQkv(int64_t H, int64_t G, int64_t tp) {
  int64_t d = 4, h = 6, rows = (H + 2 * G) * d / tp;
  FusedClass fused =
      compileOne(qkvRule(H, G, d, h), Direction::Import, {tp, 1});
  ASSERT_EQ(fused.outputs.size(), static_cast<size_t>(tp));
  for (int64_t rank = 0; rank != tp; ++rank) {
    EXPECT_EQ(fused.outputs[rank].rank, rank);
    EXPECT_EQ(fused.outputs[rank].kernel, -1);
    EXPECT_EQ(fused.outputs[rank].start, (Shape{rank * rows, 0}));
    std::vector<int64_t> values = valuesOf(fused, rank);
    for (int64_t row = 0; row != rows; ++row)
      for (int64_t column = 0; column != h; ++column)
        ASSERT_EQ(values[row * h + column],
                  expectedQkv(H, G, d, h, rank * rows + row, column));
  }
}

TEST(CompileClasses, QkvInterleavesGroups) {
  checkQkv(8, 2, 1);
  checkQkv(8, 4, 2);
  checkQkv(8, 8, 4);
}

TEST(CompileClasses, QkvWithFewerGroupsThanRanks) { checkQkv(8, 2, 4); }

TEST(CompileClasses, QkvOfOneRankIsThreeStridedBoxes) {
  FusedClass fused =
      compileOne(qkvRule(32, 8, 128, 4096), Direction::Import, {1, 1});
  EXPECT_EQ(fused.outputs[0].boxes.size(), 3u);
}

Rule gatedRule(int64_t F, int64_t h) {
  SideBuilder side;
  uint32_t gate = side.tensor(0);
  side.concat({gate, side.tensor(1)});
  Rule rule = makeRule(typed({2 * F, h}), {typed({F, h}), typed({F, h})},
                       std::move(side), dsl::ShardKind::Gated);
  rule.type.sections = {{F, F}};
  return rule;
}

TEST(CompileClasses, GatedChunksStartInTheJoinedTensor) {
  FusedClass fused = compileOne(gatedRule(6, 2), Direction::Import, {2, 1});
  ASSERT_EQ(fused.outputs.size(), 4u);
  int64_t starts[] = {0, 6, 3, 9}; // rank 0: gate, up; rank 1: gate, up
  for (size_t output = 0; output != 4; ++output) {
    EXPECT_EQ(fused.outputs[output].rank, static_cast<int64_t>(output / 2));
    EXPECT_EQ(fused.outputs[output].section, static_cast<int64_t>(output % 2));
    EXPECT_EQ(fused.outputs[output].start, (Shape{starts[output], 0}));
    EXPECT_EQ(fused.outputs[output].shape, (Shape{3, 2}));
    int64_t first = output % 2 * 1000000 + output / 2 * 6;
    EXPECT_EQ(valuesOf(fused, output),
              (std::vector<int64_t>{first, first + 1, first + 2, first + 3,
                                    first + 4, first + 5}));
  }
}

TEST(CompileClasses, GatedSectionsJoinInPerRankFiles) {
  FusedClass fused =
      compileOne(gatedRule(4, 1), Direction::Import, {2, 1, 1, true});
  ASSERT_EQ(fused.outputs.size(), 2u);
  EXPECT_EQ(valuesOf(fused, 0), (std::vector<int64_t>{0, 1, 1000000, 1000001}));
  EXPECT_EQ(valuesOf(fused, 1), (std::vector<int64_t>{2, 3, 1000002, 1000003}));
}

TEST(CompileClasses, NamedSectionsStartWithinThemselves) {
  SideBuilder side;
  side.tensor(0);
  Rule rule = makeRule(typed({6}), {typed({6})}, std::move(side),
                       dsl::ShardKind::Section);
  rule.mapping->shard.sections = {"query", "key"};
  rule.type.sections = {{4, 2}};
  FusedClass fused = compileOne(rule, Direction::Import, {2, 1});
  ASSERT_EQ(fused.outputs.size(), 4u);
  EXPECT_EQ(fused.outputs[1].start, (Shape{0})); // rank 0, key
  EXPECT_EQ(valuesOf(fused, 1), (std::vector<int64_t>{4}));
  EXPECT_EQ(fused.outputs[2].start, (Shape{2})); // rank 1, query
  EXPECT_EQ(valuesOf(fused, 2), (std::vector<int64_t>{2, 3}));
}

TEST(CompileClasses, RowShardsAreColumns) {
  FusedClass fused = compileOne(copyRule({2, 4}, dsl::ShardKind::Row),
                                Direction::Import, {2, 1});
  EXPECT_EQ(fused.outputs[1].start, (Shape{0, 2}));
  EXPECT_EQ(valuesOf(fused, 1), (std::vector<int64_t>{2, 3, 6, 7}));
}

TEST(CompileClasses, ExpertsAreCutOverEtp) {
  Rule rule = copyRule({4}, dsl::ShardKind::Column);
  rule.mapping->shard.expert = true;
  FusedClass fused = compileOne(rule, Direction::Import, {4, 2});
  ASSERT_EQ(fused.outputs.size(), 2u);
  EXPECT_EQ(valuesOf(fused, 1), (std::vector<int64_t>{2, 3}));
}

// Over any number of ranks: each row once and in order, no rank with fewer than
// one behind it, none with two more than another, and some with none at all.
TEST(CompileClasses, RowsDealtOutOverExpertRanks) {
  for (int64_t rows = 1; rows != 8; ++rows)
    for (int64_t ranks = 1; ranks != 6; ++ranks) {
      SCOPED_TRACE(fmt::format("{} rows, {} ranks", rows, ranks));
      // Converted, so that there is a kernel, too.
      FusedClass fused = compileOne(
          copyRule({rows, 2}, dsl::ShardKind::ExpertRows, DType::F32),
          Direction::Import, {2, 2, ranks});
      ASSERT_EQ(fused.outputs.size(), static_cast<size_t>(ranks));
      std::vector<int64_t> joined, expected(rows * 2);
      std::iota(expected.begin(), expected.end(), 0);
      for (int64_t rank = 0; rank != ranks; ++rank) {
        const FusedOutput &output = fused.outputs[rank];
        EXPECT_EQ(output.rank, rank);
        EXPECT_EQ(output.start,
                  (Shape{static_cast<int64_t>(joined.size()) / 2, 0}));
        EXPECT_EQ(output.shape[0], rows / ranks + (rank < rows % ranks));
        std::vector<int64_t> values = valuesOf(fused, rank);
        joined.insert(joined.end(), values.begin(), values.end());
      }
      EXPECT_EQ(joined, expected);
    }
}

Rule vocabRule() {
  SideBuilder side;
  side.tensor(0);
  Rule rule = makeRule(typed({8, 2}), {typed({5, 2})}, std::move(side),
                       dsl::ShardKind::Vocab);
  rule.type.vocabRows = 5;
  return rule;
}

TEST(CompileClasses, VocabularyIsPaddedWithZeros) {
  FusedClass fused = compileOne(vocabRule(), Direction::Import, {2, 1});
  // -1 is the constant whose bits are 0.
  EXPECT_EQ(valuesOf(fused, 1),
            (std::vector<int64_t>{8, 9, -1, -1, -1, -1, -1, -1}));
}

TEST(CompileClasses, PaddingIsDroppedFromParts) {
  Rule rule = vocabRule();
  for (int64_t rank : {0, 1}) {
    StoredPart part{{4, 2}, {{{0, 0}, {4 * rank, 0}, {4, 2}}}};
    rule.type.megatron[0].parts.push_back(part);
  }
  FusedClass fused = compileOne(rule, Direction::Export, {});
  ASSERT_EQ(fused.inputs.size(), 2u);
  EXPECT_EQ(fused.inputs[1].part, 1u);
  // Both parts number their own elements.
  EXPECT_EQ(valuesOf(fused, 0),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1}));
}

TEST(CompileClasses, StackedAndTransposedExperts) {
  // megatron e [2, 3] is hf[e] [3, 2] transposed
  SideBuilder hf, megatron;
  hf.transpose(hf.tensor(0), {0, 2, 1});
  uint32_t first = megatron.tensor(0);
  megatron.stack({first, megatron.tensor(1)});
  Rule rule = makeRule(typed({2, 3}), {typed({2, 3, 2})}, std::move(hf));
  rule.mapping->megatron = megatron.nodes;
  rule.type.megatron.push_back(rule.type.megatron[0]);
  FusedClass imported = compileOne(rule, Direction::Import, {});
  ASSERT_EQ(imported.outputs.size(), 2u);
  EXPECT_EQ(valuesOf(imported, 1), (std::vector<int64_t>{6, 8, 10, 7, 9, 11}));
  FusedClass exported = compileOne(rule, Direction::Export, {});
  EXPECT_EQ(valuesOf(exported, 0),
            (std::vector<int64_t>{0, 3, 1, 4, 2, 5, 1000000, 1000003, 1000001,
                                  1000004, 1000002, 1000005}));
}

TEST(CompileClasses, AlternatingSectionsAreSortedAndGoBack) {
  // Rows a0 b0 c0 a1 b1 c1 of two elements each; b and c are one section.
  SideBuilder side;
  side.deinterleave(side.tensor(0), {2, 1, 2});
  Rule rule = makeRule(typed({6, 2}), {typed({6, 2})}, std::move(side));
  EXPECT_EQ(valuesOf(compileOne(rule, Direction::Import, {}), 0),
            (std::vector<int64_t>{0, 1, 6, 7, 2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(valuesOf(compileOne(rule, Direction::Export, {}), 0),
            (std::vector<int64_t>{0, 1, 4, 5, 6, 7, 2, 3, 8, 9, 10, 11}));
}

TEST(CompileClasses, OfCopiesTheFirstComesBack) {
  SideBuilder side;
  const uint32_t first = side.tensor(0, 1);
  side.concat({first, side.repeat(side.tensor(1, 2), 2)});
  Rule rule =
      makeRule(typed({5, 2}), {typed({1, 2}), typed({2, 2})}, std::move(side));
  EXPECT_EQ(valuesOf(compileOne(rule, Direction::Import, {}), 0),
            (std::vector<int64_t>{0, 1, 1000000, 1000001, 1000002, 1000003,
                                  1000000, 1000001, 1000002, 1000003}));
  FusedClass exported = compileOne(rule, Direction::Export, {});
  EXPECT_EQ(valuesOf(exported, 0), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(valuesOf(exported, 1), (std::vector<int64_t>{2, 3, 4, 5}));
}

TEST(CompileClasses, DequantisedBoxesKeepRowsApart) {
  Rule rule =
      copyRule({256, 130}, dsl::ShardKind::Column, DType::BF16, DType::F8_E4M3);
  rule.type.hf[0].scale = BlockScale{DType::F32, {2, 2}, 128, 128};
  FusedClass fused = compileOne(rule, Direction::Import, {2, 1});
  const FusedOutput &second = fused.outputs.at(1);
  ASSERT_EQ(second.boxes.size(), 1u);
  EXPECT_EQ(second.boxes[0],
            (Box{0, 128 * 130, 0, {{128, 130, 130}, {130, 1, 1}}, 0}));
  ASSERT_TRUE(second.scales.at(0));
  EXPECT_EQ(second.scales[0]->columns, 130);
  EXPECT_EQ(second.scales[0]->scaleColumns, 2);
  EXPECT_TRUE(fused.inputs.at(second.scales[0]->input).role == Role::Scales);
}

TEST(CompileClasses, SidesOfUnequalShape) {
  SideBuilder side;
  side.tensor(0);
  Rule rule = makeRule(typed({4, 2}), {typed({2, 4})}, std::move(side));
  EXPECT_EQ(firstError(rule, Direction::Import, {}),
            "equate: sides differ in shape: Megatron's is 'tensor<4x2xbf16>', "
            "Hugging Face's is 'tensor<2x4xbf16>' (rule of "
            "'decoder.layers.{i}.a')");
}

TEST(CompileClasses, ExtentThatDoesNotHold) {
  SideBuilder side;
  side.tensor(0, 3);
  Rule rule = makeRule(typed({4}), {typed({4})}, std::move(side));
  EXPECT_EQ(firstError(rule, Direction::Import, {}),
            "written with extent 3, but the tensor is 4 wide in dimension 0 "
            "(rule of 'decoder.layers.{i}.a')");
}

TEST(CompileClasses, ShardThatDoesNotDivide) {
  EXPECT_EQ(firstError(copyRule({6, 2}, dsl::ShardKind::Column),
                       Direction::Import, {4, 1}),
            "extent 6 of dimension 0 does not divide by --tp 4 (rule of "
            "'decoder.layers.{i}.a')");
}

TEST(CompileClasses, FactorWithoutExactInverse) {
  SideBuilder side;
  side.constant(dsl::OpKind::Scale, side.tensor(0), 3);
  Rule rule = makeRule(typed({4}), {typed({4})}, std::move(side));
  EXPECT_EQ(firstError(rule, Direction::Export, {}),
            "scale: by 3.000000e+00 cannot be undone exactly; only powers of "
            "two can (rule of 'decoder.layers.{i}.a')");
}

TEST(CompileClasses, PartsThatLeaveAGap) {
  Rule rule = copyRule({4, 2}, dsl::ShardKind::Replicated);
  rule.type.megatron[0].parts = {{{3, 2}, {{{0, 0}, {0, 0}, {3, 2}}}}};
  EXPECT_EQ(firstError(rule, Direction::Export, {}),
            "the tensor 'tensor<4x2xbf16>' is not written exactly once: 6 of 8 "
            "elements are written, element 6 is not; the stored parts do not "
            "add up to the whole (rule of 'decoder.layers.{i}.a')");
}

TEST(CompileClasses, GraphTextShowsBothStages) {
  Rule rule = gatedRule(4, 2);
  auto rules =
      graphText({rule.type}, Direction::Import, {2, 1}, "rules", "mlir");
  ASSERT_TRUE(rules);
  EXPECT_NE(rules->find("mb.equate"), std::string::npos);
  auto fused =
      graphText({rule.type}, Direction::Import, {2, 1}, "fused", "dot");
  ASSERT_TRUE(fused);
  EXPECT_NE(fused->find("target 0, rank 1, section 1"), std::string::npos);
  EXPECT_FALSE(graphText({rule.type}, Direction::Import, {}, "plan", "mlir"));
}

} // namespace
} // namespace mbc::compiler
