#include "runtime/Plan.h"
#include "tests/runtime/PlanBuilder.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <functional>
#include <gtest/gtest.h>

namespace mbc::test {
namespace {

/// A sound plan: one tensor of six elements, moved as it stands.
PlanBuilder sound() {
  PlanBuilder builder(plan::TargetFormat_Safetensors);
  uint32_t source = builder.source(builder.sourceFile("w.bin", 12), 0);
  uint32_t item = builder.item(builder.targetFile("model.safetensors", 12),
                               builder.tensor("t", DType::BF16, {6}), 0);
  std::vector<plan::OutputT> outputs;
  outputs.push_back(output(DType::BF16, {6}, {box(0, 0, 0, {{6, 1, 1}})}));
  addClass(builder, classOf({input(DType::BF16, 6)}, std::move(outputs),
                            {source}, {item}));
  return builder;
}

TEST(Plan, OpensAFile) {
  TemporaryDirectory directory;
  std::vector<uint8_t> bytes = sound().bytes();
  std::string path = directory.write(
      "p.mbc", {reinterpret_cast<char *>(bytes.data()), bytes.size()});
  Result<Plan> plan = Plan::open(path);
  ASSERT_TRUE(plan) << plan.error().message;
  PlanTotals all = totals(**plan);
  EXPECT_EQ(all.sourceBytes, 12u);
  EXPECT_EQ(all.targetBytes, 12u);
  EXPECT_EQ(all.instances, 1u);
  EXPECT_EQ(all.ranks, 1u);
}

TEST(Plan, RefusesWhatIsNoPlan) {
  TemporaryDirectory directory;
  EXPECT_FALSE(Plan::open(directory / "absent.mbc"));
  EXPECT_FALSE(Plan::open(directory.write("empty.mbc", "")));
  EXPECT_FALSE(Plan::open(directory.write("text.mbc", "hello, this is text")));
}

TEST(Plan, RefusesEveryTruncation) {
  std::vector<uint8_t> bytes = sound().bytes();
  for (size_t size = 0; size < bytes.size(); size += 4)
    EXPECT_FALSE(Plan::fromBytes({bytes.begin(), bytes.begin() + size}, "cut"))
        << size;
}

TEST(Plan, RefusesScalesOfNoWeight) {
  for (int32_t weight : {-1, 0, 1}) {
    PlanBuilder builder = sound();
    auto scales = std::make_unique<plan::ScalesT>();
    scales->input = 0;
    scales->weight = weight;
    scales->columns = scales->block_rows = scales->block_columns =
        scales->scale_columns = 1;
    builder.plan.classes[0]->outputs[0]->scales.push_back(std::move(scales));
    EXPECT_EQ(Plan::fromBytes(builder.bytes(), "p.mbc").has_value(),
              weight == 0)
        << weight;
  }
}

// A kernel would read past the last scale.
TEST(Plan, RefusesFewerScalesThanBlocks) {
  for (int64_t scaleColumns : {0, 1, 2}) {
    PlanBuilder builder = sound();
    auto scales = std::make_unique<plan::ScalesT>();
    scales->input = scales->weight = 0;
    scales->columns = scales->block_rows = scales->block_columns = 1;
    scales->scale_columns = scaleColumns;
    builder.plan.classes[0]->outputs[0]->scales.push_back(std::move(scales));
    EXPECT_EQ(Plan::fromBytes(builder.bytes(), "p.mbc").has_value(),
              scaleColumns == 1)
        << scaleColumns;
  }
}

/// A plan whose tensor of 4 x 6 elements leaves as codes with 2 x 2 scales.
PlanBuilder encoded() {
  PlanBuilder builder(plan::TargetFormat_Safetensors);
  uint32_t source = builder.source(builder.sourceFile("w.bin", 48), 0);
  uint32_t file = builder.targetFile("model.safetensors", 40);
  std::vector<uint32_t> items = {
      builder.item(file, builder.tensor("t", DType::F8_E4M3, {4, 6}), 0),
      builder.item(file, builder.tensor("s", DType::F32, {2, 2}), 24)};
  std::vector<plan::OutputT> outputs;
  outputs.push_back(output(DType::BF16, {4, 6}, {box(0, 0, 0, {{24, 1, 1}})}));
  auto encoding = std::make_unique<plan::EncodingT>();
  encoding->codes = static_cast<uint8_t>(DType::F8_E4M3);
  encoding->scale = static_cast<uint8_t>(DType::F32);
  encoding->columns = 6;
  encoding->block_rows = 2;
  encoding->block_columns = 5;
  outputs.back().encoding = std::move(encoding);
  outputs.push_back(output(DType::F32, {2, 2}, {}));
  outputs.back().is_scales = true;
  addClass(builder, classOf({input(DType::BF16, 24)}, std::move(outputs),
                            {source}, items));
  return builder;
}

TEST(Plan, RefusesEncodingsThatMakeNoSense) {
  EXPECT_TRUE(Plan::fromBytes(encoded().bytes(), "p.mbc"));
  using Damage = std::function<void(plan::ClassT &)>;
  const std::vector<Damage> damages = {
      [](auto &kind) { kind.outputs[0]->encoding->codes = 0; },
      [](auto &kind) { kind.outputs[0]->encoding->columns = 5; },
      [](auto &kind) { kind.outputs[0]->encoding->block_rows = 0; },
      [](auto &kind) { kind.outputs[0]->encoding->block_rows = 4; },
      [](auto &kind) { kind.outputs[0]->encoding->block_columns = -1; },
      [](auto &kind) { kind.outputs[0]->encoding->original_codes = 1; },
      [](auto &kind) { kind.outputs[0]->encoding->original_codes = 0; },
      [](auto &kind) { kind.outputs[0]->encoding.reset(); },
      [](auto &kind) { kind.outputs[1]->is_scales = false; },
      [](auto &kind) { std::swap(kind.outputs[0], kind.outputs[1]); }};
  for (size_t i = 0; i != damages.size(); ++i) {
    PlanBuilder builder = encoded();
    damages[i](*builder.plan.classes[0]);
    EXPECT_FALSE(Plan::fromBytes(builder.bytes(), "p.mbc")) << i;
  }
}

/// A plan whose tensor of 2 x 32 elements leaves as codes with 2 x 2 scales
/// under a tensor scale.
PlanBuilder encodedInTwoLevels() {
  PlanBuilder builder(plan::TargetFormat_Safetensors);
  uint32_t source = builder.source(builder.sourceFile("w.bin", 128), 0);
  uint32_t file = builder.targetFile("model.safetensors", 40);
  std::vector<uint32_t> items = {
      builder.item(file, builder.tensor("t", DType::U8, {2, 16}), 0),
      builder.item(file, builder.tensor("s", DType::F8_E4M3, {2, 2}), 32),
      builder.item(file, builder.tensor("o", DType::F32, {}), 36)};
  std::vector<plan::OutputT> outputs;
  outputs.push_back(output(DType::BF16, {2, 32}, {box(0, 0, 0, {{64, 1, 1}})}));
  auto encoding = std::make_unique<plan::EncodingT>();
  encoding->codes = static_cast<uint8_t>(DType::F4_E2M1);
  encoding->scale = static_cast<uint8_t>(DType::F8_E4M3);
  encoding->columns = 32;
  encoding->block_rows = 1;
  encoding->block_columns = 16;
  encoding->level = static_cast<uint8_t>(TensorScale::Multiplies);
  outputs.back().encoding = std::move(encoding);
  outputs.push_back(output(DType::F8_E4M3, {2, 2}, {}));
  outputs.back().is_scales = true;
  outputs.push_back(output(DType::F32, {}, {}));
  outputs.back().is_tensor_scale = true;
  addClass(builder, classOf({input(DType::BF16, 64)}, std::move(outputs),
                            {source}, items));
  return builder;
}

TEST(Plan, RefusesTensorScalesThatMakeNoSense) {
  auto whole = Plan::fromBytes(encodedInTwoLevels().bytes(), "p.mbc");
  EXPECT_TRUE(whole) << whole.error().message;
  using Damage = std::function<void(plan::ClassT &)>;
  const std::vector<Damage> damages = {
      [](auto &kind) { kind.outputs[0]->encoding->level = 0; },
      [](auto &kind) { kind.outputs[0]->encoding->level = 3; },
      [](auto &kind) {
        kind.outputs[0]->encoding->scale = static_cast<uint8_t>(DType::F32);
      },
      [](auto &kind) { kind.outputs[0]->encoding->original_tensor_scale = 0; },
      [](auto &kind) { kind.outputs[1]->is_tensor_scale = true; },
      [](auto &kind) { kind.outputs[2]->is_tensor_scale = false; },
      [](auto &kind) { kind.outputs[2]->is_scales = true; },
      [](auto &kind) {
        kind.outputs[2]->dtype = static_cast<uint8_t>(DType::I32);
      },
      [](auto &kind) { kind.outputs[2]->elements = 2; },
      [](auto &kind) { std::swap(kind.outputs[1], kind.outputs[2]); }};
  for (size_t i = 0; i != damages.size(); ++i) {
    PlanBuilder builder = encodedInTwoLevels();
    damages[i](*builder.plan.classes[0]);
    EXPECT_FALSE(Plan::fromBytes(builder.bytes(), "p.mbc")) << i;
  }
}

TEST(Plan, RefusesACheckpointsFileAfterThoseBesideIt) {
  PlanBuilder builder = sound();
  builder.targetFile("last.safetensors", 0);
  EXPECT_TRUE(Plan::fromBytes(builder.bytes(), "p.mbc"));
  builder.plan.files[0]->plain = true;
  EXPECT_FALSE(Plan::fromBytes(builder.bytes(), "p.mbc"));
}

TEST(Plan, RefusesAnotherVersion) {
  PlanBuilder builder = sound();
  builder.plan.version = 2;
  Result<Plan> plan = Plan::fromBytes(builder.bytes(), "p.mbc");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "p.mbc: plan version 2, this mbc reads version 1: compile the plan "
            "again with this mbc");
}

struct Damage {
  const char *name;
  std::function<void(plan::PlanT &)> apply;
  const char *message;
};

class Damaged : public testing::TestWithParam<Damage> {};

TEST_P(Damaged, IsRefused) {
  PlanBuilder builder = sound();
  GetParam().apply(builder.plan);
  Result<Plan> plan = Plan::fromBytes(builder.bytes(), "p.mbc");
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find(GetParam().message), std::string::npos)
      << plan.error().message;
}

plan::BoxT &firstBox(plan::PlanT &plan) {
  return *plan.classes[0]->outputs[0]->boxes[0];
}

std::unique_ptr<plan::ComparisonT> shape(int64_t codes, uint64_t bytes) {
  auto comparison = std::make_unique<plan::ComparisonT>();
  comparison->second = codes;
  comparison->bytes = bytes;
  comparison->shape = {2, 3};
  return comparison;
}

INSTANTIATE_TEST_SUITE_P(
    Plan, Damaged,
    testing::Values(
        Damage{"source", [](auto &p) { p.classes[0]->sources[0] = 1; },
               "names a source or item that is not there"},
        Damage{"item", [](auto &p) { p.classes[0]->items[0] = 7; },
               "names a source or item that is not there"},
        Damage{"file",
               [](auto &p) {
                 p.sources[0] = {3, 0};
               },
               "source 0: its file is not there"},
        Damage{"shapeOfNothing",
               [](auto &p) { p.comparisons.push_back(shape(-1, 16)); },
               "comparison 0: its codes are not there"},
        Damage{"shapeOfOddBytes",
               [](auto &p) { p.comparisons.push_back(shape(0, 12)); },
               "comparison 0: its integers have neither 4 nor 8 bytes"},
        Damage{"past", [](auto &p) { firstBox(p).source_offset = 1; },
               "leaves its input of 6 elements"},
        Damage{"before", [](auto &p) { firstBox(p).source_offset = -1; },
               "leaves its input of 6 elements"},
        Damage{"target", [](auto &p) { firstBox(p).target_offset = 1; },
               "leaves its output of 6 elements"},
        Damage{"input", [](auto &p) { firstBox(p).input = 1; },
               "reads input 1 of 1"},
        Damage{"inputOfNothing",
               [](auto &p) {
                 firstBox(p).input = 1;
                 firstBox(p).dims[0] = {0, 1, 1};
               },
               "reads input 1 of 1"},
        Damage{"hole",
               [](auto &p) {
                 firstBox(p).dims[0] = {5, 1, 1};
               },
               "its boxes fill 5 of 6 elements"},
        Damage{"wraps",
               [](auto &p) {
                 firstBox(p).dims[0] = {6, int64_t{1} << 62, 1};
               },
               "leaves its input of 6 elements"},
        Damage{"kernel", [](auto &p) { p.classes[0]->outputs[0]->kernel = 0; },
               "kernel 0 of 0"},
        Damage{"width",
               [](auto &p) {
                 p.classes[0]->inputs[0]->dtype = uint8_t(DType::F32);
               },
               "movement between dtypes of different widths"},
        Damage{"path", [](auto &p) { p.files[0]->path = "../outside"; },
               "absolute or leaves its directory"},
        Damage{"absolute", [](auto &p) { p.source_files[0]->path = "/etc/x"; },
               "absolute or leaves its directory"}),
    [](const auto &info) { return info.param.name; });

} // namespace
} // namespace mbc::test
