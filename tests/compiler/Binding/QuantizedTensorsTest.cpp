#include "compiler/Binding/QuantizedTensors.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

/// A checkpoint of codes and scales, as headers give it.
class Stored {
public:
  uint32_t add(std::string_view name, DType dtype, const Shape &shape) {
    StoredTensor &tensor = checkpoint.tensors.emplace_back();
    tensor.name = store->keep(name);
    tensor.dtype = dtype;
    tensor.shape = store->keep(shape);
    return checkpoint.tensors.size() - 1;
  }

  /// The type of the tensor that is named X, or what does not fit.
  std::expected<Quantized, std::string>
  quantized(const Quantization &declared = {}) {
    checkpoint.indexNames();
    nameValues(checkpoint);
    uint32_t codes = checkpoint.find("a.weight");
    EXPECT_NE(codes, Checkpoint::none);
    const StoredTensor &tensor = checkpoint.tensors[codes];
    uint32_t scales = scalesOf(checkpoint, tensor);
    EXPECT_NE(scales, Checkpoint::none);
    return quantizedTensor(checkpoint, tensor, scales, declared);
  }

  Checkpoint checkpoint;

private:
  std::shared_ptr<HeaderStore> store = std::make_shared<HeaderStore>();
};

struct Expected {
  DType element;
  Shape values;
  BlockScale scale;
};

void expectType(Stored &stored, const Expected &expected,
                const Quantization &declared = {}) {
  auto found = stored.quantized(declared);
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(found->type.dtype, expected.element);
  EXPECT_EQ(found->type.shape, expected.values);
  ASSERT_TRUE(found->type.scale);
  EXPECT_EQ(found->type.scale->dtype, expected.scale.dtype);
  EXPECT_EQ(found->type.scale->shape, expected.scale.shape);
  EXPECT_EQ(found->type.scale->blockRows, expected.scale.blockRows);
  EXPECT_EQ(found->type.scale->blockColumns, expected.scale.blockColumns);
}

std::string refusal(Stored &stored, const Quantization &declared = {}) {
  auto found = stored.quantized(declared);
  return found ? "accepted" : found.error();
}

TEST(QuantizedTensors, FP8InBlocks) {
  Stored stored;
  stored.add("a.weight", DType::F8_E4M3, {130, 200});
  stored.add("a.weight_scale_inv", DType::F32, {2, 2});
  expectType(stored,
             {DType::F8_E4M3, {130, 200}, {DType::F32, {2, 2}, 128, 128}});
}

TEST(QuantizedTensors, FP8InBlocksOfStackedExperts) {
  Stored stored;
  stored.add("a.weight", DType::F8_E4M3, {3, 256, 200});
  stored.add("a.weight_scale_inv", DType::BF16, {3, 2, 2});
  expectType(stored,
             {DType::F8_E4M3, {3, 256, 200}, {DType::BF16, {6, 2}, 128, 128}});
}

TEST(QuantizedTensors, BlocksThatWouldReachIntoTheNextExpertAreRefused) {
  Stored stored;
  stored.add("a.weight", DType::F8_E4M3, {3, 130, 200});
  stored.add("a.weight_scale_inv", DType::F32, {3, 2, 2});
  EXPECT_EQ(refusal(stored),
            "a.weight_scale_inv is F32 [3, 2, 2]; the scales of a.weight "
            "[3, 130, 200] are one, one a row, [3, 130], one for each group of "
            "a row, or one for each block of 128 x 128, [3, 2, 2] (if 130 rows "
            "were whole blocks)");
}

TEST(QuantizedTensors, FP8WithOneScaleInEachOfItsShapes) {
  for (const Shape &one : {Shape{}, Shape{1}, Shape{1, 1}}) {
    Stored stored;
    stored.add("a.weight", DType::F8_E4M3, {130, 200});
    stored.add("a.weight_scale", DType::BF16, one);
    expectType(stored, {DType::F8_E4M3,
                        {130, 200},
                        {DType::BF16, {1, 1}, wholeAxis, wholeAxis}});
  }
}

TEST(QuantizedTensors, FP8WithAScaleForEachRow) {
  for (const Shape &rows : {Shape{130}, Shape{130, 1}}) {
    Stored stored;
    stored.add("a.weight", DType::F8_E4M3, {130, 200});
    stored.add("a.weight_scale", DType::F32, rows);
    expectType(
        stored,
        {DType::F8_E4M3, {130, 200}, {DType::F32, {130, 1}, 1, wholeAxis}});
  }
}

TEST(QuantizedTensors, FP8UnderExponents) {
  Stored stored;
  stored.add("a.weight", DType::F8_E4M3, {130, 200});
  stored.add("a.scale", DType::F8_E8M0, {2, 2});
  expectType(stored,
             {DType::F8_E4M3, {130, 200}, {DType::F8_E8M0, {2, 2}, 128, 128}});
}

TEST(QuantizedTensors, BytesWithAScaleAreFP4) {
  Stored stored;
  stored.add("a.weight", DType::I8, {2, 32});
  stored.add("a.scale", DType::F8_E8M0, {2, 2});
  expectType(stored,
             {DType::F4_E2M1, {2, 64}, {DType::F8_E8M0, {2, 2}, 1, 32}});
}

TEST(QuantizedTensors, PackedFP4HasTheNameOfItsValues) {
  Stored stored;
  uint32_t codes = stored.add("a.weight_packed", DType::U8, {2, 32});
  stored.add("a.weight_scale", DType::U8, {2, 2});
  expectType(stored,
             {DType::F4_E2M1, {2, 64}, {DType::F8_E8M0, {2, 2}, 1, 32}});
  EXPECT_EQ(stored.checkpoint.tensors[codes].name, "a.weight");
  EXPECT_EQ(stored.checkpoint.tensors[codes].key, "a.weight_packed");
  EXPECT_TRUE(isCompanion(stored.checkpoint, "a.weight_scale"));
}

TEST(QuantizedTensors, PackedINT4) {
  Stored stored;
  stored.add("a.weight_packed", DType::I32, {6, 8});
  stored.add("a.weight_scale", DType::BF16, {6, 2});
  uint32_t shape = stored.add("a.weight_shape", DType::I32, {2});
  Quantization declared;
  declared.group = 32;
  expectType(stored, {DType::I4, {6, 64}, {DType::BF16, {6, 2}, 1, 32}},
             declared);
  EXPECT_EQ(stored.quantized(declared)->shape, shape);
}

TEST(QuantizedTensors, BlocksOfFP4) {
  Stored stored;
  stored.add("a.weight_blocks", DType::U8, {4, 6, 3, 16});
  stored.add("a.weight_scales", DType::U8, {4, 6, 3});
  expectType(stored,
             {DType::F4_E2M1, {4, 6, 96}, {DType::F8_E8M0, {24, 3}, 1, 32}});
}

TEST(QuantizedTensors, DeclaredBlocksExcludeOtherScales) {
  Stored stored;
  stored.add("a.weight", DType::F8_E4M3, {130, 200});
  stored.add("a.weight_scale_inv", DType::F32, {1, 1});
  Quantization declared;
  declared.block = {128, 128};
  EXPECT_EQ(refusal(stored, declared),
            "a.weight_scale_inv is F32 [1, 1]; the scales of a.weight "
            "[130, 200] are one for each block of 128 x 128, [2, 2]");
}

TEST(QuantizedTensors, ScalesOfTwoLevels) {
  for (const Shape &one : {Shape{}, Shape{1}}) {
    Stored stored;
    stored.add("a.weight", DType::U8, {2, 32});
    stored.add("a.weight_scale", DType::F8_E4M3, {2, 4});
    uint32_t tensorScale = stored.add("a.weight_scale_2", DType::F32, one);
    stored.add("a.input_scale", DType::F32, {});
    stored.add("a.k_scale", DType::F32, {});
    expectType(stored,
               {DType::F4_E2M1, {2, 64}, {DType::F8_E4M3, {2, 4}, 1, 16}});
    EXPECT_EQ(stored.quantized()->tensorScale, tensorScale);
    EXPECT_EQ(stored.quantized()->type.scale->tensor, TensorScale::Multiplies);
    for (const char *name :
         {"a.weight_scale", "a.weight_scale_2", "a.input_scale", "a.k_scale"})
      EXPECT_TRUE(isCompanion(stored.checkpoint, name)) << name;
  }
}

TEST(QuantizedTensors, ScalesOfTwoLevelsAsCompressedTensorsNamesThem) {
  Stored stored;
  stored.add("a.weight_packed", DType::U8, {2, 32});
  stored.add("a.weight_scale", DType::F8_E4M3, {2, 4});
  uint32_t tensorScale = stored.add("a.weight_global_scale", DType::F32, {1});
  stored.add("a.input_global_scale", DType::F32, {1});
  expectType(stored,
             {DType::F4_E2M1, {2, 64}, {DType::F8_E4M3, {2, 4}, 1, 16}});
  EXPECT_EQ(stored.quantized()->tensorScale, tensorScale);
  EXPECT_EQ(stored.quantized()->type.scale->tensor, TensorScale::Divides);
  for (const char *name : {"a.weight_global_scale", "a.input_global_scale"})
    EXPECT_TRUE(isCompanion(stored.checkpoint, name)) << name;
}

TEST(QuantizedTensors, ScalesOfTwoLevelsNeedBoth) {
  Stored stored;
  stored.add("a.weight", DType::U8, {2, 32});
  stored.add("a.weight_scale", DType::F8_E4M3, {2, 4});
  stored.checkpoint.root = "hf";
  EXPECT_EQ(refusal(stored),
            "a.weight_scale is F8_E4M3 [2, 4]: scales of NVFP4 have one F32 "
            "for the tensor, a.weight_scale_2 or a.weight_global_scale, which "
            "is not in hf: add the file that holds it");
  stored.add("a.weight_scale_2", DType::F32, {2});
  EXPECT_EQ(refusal(stored),
            "a.weight_scale_2 is F32 [2]; beside the scales a.weight_scale "
            "[2, 4] it has to be one F32 for the whole tensor, [] or [1]");
}

TEST(QuantizedTensors, GroupsOfNVFP4AreOf16) {
  Stored stored;
  stored.add("a.weight", DType::U8, {2, 32});
  stored.add("a.weight_scale", DType::F8_E4M3, {2, 2});
  EXPECT_EQ(refusal(stored),
            "a.weight_scale is F8_E4M3 [2, 2]; the scales of a.weight [2, 64] "
            "are one for each 16 values of a row, [2, 4]");
}

TEST(QuantizedTensors, AShapeDecidesWhatScalesOfDeepSeekAre) {
  Quantization declared;
  declared.block = {128, 128};
  const std::vector<std::pair<Shape, BlockScale>> forms = {
      {{260}, {DType::F32, {260, 1}, 1, wholeAxis}},
      {{3}, {DType::F32, {3, 1}, 128, wholeAxis}},
      {{260, 4}, {DType::F32, {260, 4}, 1, 64}},
      {{3, 2}, {DType::F32, {3, 2}, 128, 128}}};
  for (const auto &[shape, scale] : forms) {
    Stored stored;
    stored.add("a.weight", DType::F8_E4M3, {260, 256});
    stored.add("a.scale", DType::F32, shape);
    expectType(stored, {DType::F8_E4M3, {260, 256}, scale}, declared);
    Stored others;
    others.add("a.weight", DType::F8_E4M3, {260, 256});
    others.add("a.weight_scale_inv", DType::F32, shape);
    EXPECT_EQ(refusal(others, declared) == "accepted", shape == (Shape{3, 2}));
  }
}

/// INT4 of compressed-tensors: 6 rows of 64 values in groups of 32.
struct Int4 : Stored {
  Int4() {
    checkpoint.root = "hf";
    add("a.weight_packed", DType::I32, {6, 8});
    add("a.weight_scale", DType::BF16, {6, 2});
  }
};

TEST(QuantizedTensors, WhatConfigJsonDeniesIsRefused) {
  auto refusalOf = [](auto declare) {
    Int4 stored;
    Quantization declared;
    declare(declared);
    return refusal(stored, declared);
  };
  const std::string fix =
      ": correct config.json, or take the tensors that belong to it";
  const std::string declares = "hf/config.json: quantization_config declares ";
  EXPECT_EQ(refusalOf([](Quantization &q) { q.bits = 8; }),
            declares +
                "num_bits 8 of weights, but a.weight_packed is I32 "
                "[6, 8], codes of 4 bits" +
                fix);
  EXPECT_EQ(refusalOf([](Quantization &q) { q.type = "float"; }),
            declares +
                "type float of weights, but a.weight_packed is I32 "
                "[6, 8], codes of type int" +
                fix);
  EXPECT_EQ(refusalOf([](Quantization &q) { q.group = 16; }),
            declares +
                "group_size 16, but a.weight_scale is BF16 [6, 2] for "
                "a.weight [6, 64], one for 32 values" +
                fix);
  EXPECT_EQ(refusalOf([](Quantization &q) { q.symmetric = false; }),
            declares +
                "symmetric: false, but a.weight_packed is I32 [6, 8], "
                "without a.weight_zero_point" +
                fix);
  EXPECT_EQ(refusalOf([](Quantization &q) { q.actorder = "group"; }),
            declares +
                "actorder group, but a.weight_packed is I32 [6, 8], "
                "without a.weight_g_idx" +
                fix);
  EXPECT_EQ(refusalOf([](Quantization &q) { q.strategy = "channel"; }),
            declares +
                "strategy channel of weights, scales one a row, [6, 1], "
                "but a.weight_scale is BF16 [6, 2] for a.weight "
                "[6, 64]" +
                fix);
  EXPECT_EQ(refusalOf([](Quantization &q) {
              q.bits = 4;
              q.type = "int";
              q.strategy = "group";
              q.group = 32;
              q.symmetric = true;
              q.actorder = "weight";
            }),
            "accepted");
}

TEST(QuantizedTensors, AStrategyIsHeldAgainstTheScales) {
  auto isRead = [](const std::string &strategy, const Shape &scales) {
    Stored stored;
    stored.add("a.weight", DType::F8_E4M3, {260, 256});
    stored.add("a.weight_scale", DType::F32, scales);
    Quantization declared;
    declared.strategy = strategy;
    return refusal(stored, declared) == "accepted";
  };
  EXPECT_TRUE(isRead("tensor", {1}));
  EXPECT_FALSE(isRead("tensor", {260, 1}));
  EXPECT_TRUE(isRead("channel", {260, 1}));
  EXPECT_FALSE(isRead("channel", {1}));
  EXPECT_FALSE(isRead("channel", {260, 2}));
  EXPECT_TRUE(isRead("group", {260, 2}));
  EXPECT_FALSE(isRead("group", {1}));
  EXPECT_FALSE(isRead("group", {3, 2}));
}

TEST(QuantizedTensors, AShapeTensorHasANumberForEachAxis) {
  for (const Shape &shape : {Shape{2}, Shape{3}}) {
    Int4 stored;
    stored.add("a.weight_shape", DType::I64, shape);
    EXPECT_EQ(refusal(stored),
              shape == Shape{2}
                  ? "accepted"
                  : "a.weight_shape is I64 [3]; the shape of a.weight [6, 64] "
                    "is 2 integers, I64 or I32: take the tensors of one "
                    "checkpoint");
  }
}

// 100 columns in 13 words and 4 groups of 32: no 26 values share a scale.
TEST(QuantizedTensors, GroupsOfINT4AreWholeWords) {
  Stored stored;
  stored.add("a.weight_packed", DType::I32, {6, 13});
  stored.add("a.weight_scale", DType::BF16, {6, 4});
  EXPECT_EQ(refusal(stored),
            "a.weight_scale is BF16 [6, 4]; the scales of a.weight [6, 104] "
            "are one for each group of values of a row");
}

TEST(QuantizedTensors, ZeroPointsAndColumnOrdersAreRefused) {
  Int4 zeros;
  zeros.add("a.weight_zero_point", DType::I32, {1, 2});
  Quantization declared;
  declared.symmetric = true;
  EXPECT_EQ(
      refusal(zeros, declared),
      "a.weight_zero_point is I32 [1, 2]: a.weight has zero points, which "
      "mbc does not read and config.json denies (symmetric: true); "
      "quantise it symmetrically, or take the checkpoint that is not "
      "quantised");
  EXPECT_TRUE(isCompanion(zeros.checkpoint, "a.weight_zero_point"));
  Int4 order;
  order.add("a.weight_g_idx", DType::I32, {64});
  EXPECT_EQ(refusal(order),
            "a.weight_g_idx is I32 [64]: the groups of a.weight are of columns "
            "in another order, which mbc does not undo; quantise it without "
            "actorder, or with actorder weight");
}

TEST(QuantizedTensors, ColumnsThatAreNoWholeGroupsAreNamed) {
  Stored stored;
  stored.add("a.weight_packed", DType::U8, {40, 24});
  stored.add("a.weight_scale", DType::U8, {40, 1});
  EXPECT_EQ(refusal(stored),
            "a.weight_scale is U8 [40, 1]; the scales of a.weight [40, 48] are "
            "one for each 32 values of a row, which 48 values do not divide "
            "into");
}

TEST(QuantizedTensors, AScaleOfAnotherTensorIsNone) {
  Stored stored;
  uint32_t plain = stored.add("a.weight", DType::BF16, {2, 32});
  stored.add("a.weight_scale", DType::F32, {1});
  stored.checkpoint.indexNames();
  EXPECT_EQ(scalesOf(stored.checkpoint, stored.checkpoint.tensors[plain]),
            Checkpoint::none);
  EXPECT_FALSE(isCompanion(stored.checkpoint, "a.weight_scale"));
}

TEST(QuantizedTensors, ExtentsThatOverflowAreRefused) {
  Stored stored;
  stored.add("a.weight_packed", DType::I32, {0, int64_t{1} << 61});
  stored.add("a.weight_scale", DType::BF16, {0, 1});
  EXPECT_NE(refusal(stored), "accepted");
}

} // namespace
} // namespace mbc::compiler
