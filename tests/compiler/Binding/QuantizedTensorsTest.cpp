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
  declared.group = 16;
  EXPECT_EQ(refusal(stored, declared),
            "a.weight_scale is BF16 [6, 2]; the scales of a.weight [6, 64] are "
            "one for each 16 values of a row, [6, 4]");
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

TEST(QuantizedTensors, ScalesOfTwoLevelsAreRefused) {
  Stored stored;
  stored.add("a.weight", DType::U8, {2, 32});
  stored.add("a.weight_scale", DType::F8_E4M3, {2, 4});
  EXPECT_EQ(refusal(stored),
            "a.weight_scale is F8_E4M3 [2, 4]; mbc reads scales of F8_E8M0 or "
            "U8 (MXFP4) for the U8 codes of a.weight, not those of two levels "
            "(NVFP4)");
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
