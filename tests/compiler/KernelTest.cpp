#include "compiler/RuleClass.h"
#include "kernels/Reference.h"

#include "tests/compiler/RuleBuilder.h"
#include "tests/compiler/SharedObject.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

namespace mbc::compiler {
namespace {

using namespace test;

struct Geometry {
  int64_t rows = 1, columns = 1;
  int64_t sourceRow = 0, sourceColumn = 1, targetRow = 0, targetColumn = 1;
  int64_t row0 = 0, column0 = 0;
  int64_t scaleColumns = 1, blockRows = 128, blockColumns = 128;
  int64_t sourcePhase = 0;
  int64_t tensorScaleBits = 0;
};

/// Compiles one class and gives its only kernel.
class Kernel {
public:
  explicit Kernel(const Rule &rule, Direction direction = Direction::Import) {
    dsl::Diagnostics diagnostics;
    auto program = compileClasses({rule.type}, direction, {}, diagnostics);
    if (!program)
      throw std::runtime_error(program.error().message);
    if (program->kernels.size() != 1)
      throw std::runtime_error("not one kernel");
    symbol = program->kernels[0];
    object = std::make_unique<SharedObject>(program->kernelObject);
    call = reinterpret_cast<Function>(object->symbol(symbol));
  }

  template <typename S, typename C, typename T>
  int64_t run(const std::vector<S> &source, const std::vector<C> &scales,
              std::vector<T> &target, const Geometry &geometry) const {
    int64_t fields[13];
    static_assert(sizeof(fields) == sizeof(geometry));
    std::memcpy(fields, &geometry, sizeof(fields));
    return call(source.data(), scales.data(), target.data(), fields);
  }

  std::string symbol;

private:
  using Function = int64_t (*)(const void *, const void *, void *,
                               const int64_t *);
  std::unique_ptr<SharedObject> object;
  Function call;
};

const std::vector<float> noScales;

std::vector<uint16_t> allCodes() {
  std::vector<uint16_t> codes(65536);
  for (size_t code = 0; code != codes.size(); ++code)
    codes[code] = code;
  return codes;
}

Rule castRule(DType from, DType to, bool exact = false) {
  Rule rule = copyRule({4, 4}, dsl::ShardKind::Replicated, to, from);
  rule.type.exactCasts = exact;
  return rule;
}

bool sameFloat(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// All 65,536 codes in vectors, then one by one through strides of 2.
template <typename T>
void compareAll(const Kernel &kernel, const std::function<T(uint16_t)> &expect,
                const std::function<bool(T, T)> &same) {
  std::vector<uint16_t> codes = allCodes();
  std::vector<T> target(codes.size());
  Geometry geometry{.columns = 65536};
  EXPECT_EQ(kernel.run(codes, noScales, target, geometry), -1);
  size_t wrong = 0;
  for (size_t code = 0; code != codes.size(); ++code)
    wrong += !same(target[code], expect(code));
  EXPECT_EQ(wrong, 0u) << "vector path of " << kernel.symbol;

  std::vector<T> sparse(2 * codes.size());
  geometry.targetColumn = 2;
  EXPECT_EQ(kernel.run(codes, noScales, sparse, geometry), -1);
  wrong = 0;
  for (size_t code = 0; code != codes.size(); ++code)
    wrong += !same(sparse[2 * code], expect(code));
  EXPECT_EQ(wrong, 0u) << "scalar path of " << kernel.symbol;
}

const std::function<bool(uint16_t, uint16_t)> equalBits =
    std::equal_to<uint16_t>();

TEST(Kernel, BF16ToF32) {
  compareAll<float>(Kernel(castRule(DType::BF16, DType::F32)),
                    kernels::decodeBF16, sameFloat);
}

TEST(Kernel, F16ToF32) {
  compareAll<float>(Kernel(castRule(DType::F16, DType::F32)),
                    kernels::decodeF16, sameFloat);
}

TEST(Kernel, BF16ToF16) {
  compareAll<uint16_t>(
      Kernel(castRule(DType::BF16, DType::F16)),
      [](uint16_t code) {
        return kernels::encodeF16(kernels::decodeBF16(code));
      },
      equalBits);
}

TEST(Kernel, F16ToBF16) {
  compareAll<uint16_t>(
      Kernel(castRule(DType::F16, DType::BF16)),
      [](uint16_t code) {
        return kernels::encodeBF16(kernels::decodeF16(code));
      },
      equalBits);
}

/// Floats around every bf16 and every f16: the value, its neighbours and the
/// midpoints to the next, where rounding is decided.
std::vector<float> decisiveFloats() {
  std::vector<float> floats;
  for (uint16_t code : allCodes())
    for (float value : {kernels::decodeBF16(code), kernels::decodeF16(code)})
      for (int64_t delta : {-0x8001, -0x8000, -0x1001, -0x1000, -1, 0, 1,
                            0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001})
        floats.push_back(std::bit_cast<float>(
            static_cast<uint32_t>(std::bit_cast<uint32_t>(value) + delta)));
  return floats;
}

TEST(Kernel, F32ToNarrow) {
  std::vector<float> floats = decisiveFloats();
  std::vector<uint16_t> target(floats.size());
  Geometry geometry{.columns = static_cast<int64_t>(floats.size())};
  Kernel bf16(castRule(DType::F32, DType::BF16));
  EXPECT_EQ(bf16.run(floats, noScales, target, geometry), -1);
  size_t wrong = 0;
  for (size_t i = 0; i != floats.size(); ++i)
    wrong += target[i] != kernels::encodeBF16(floats[i]);
  EXPECT_EQ(wrong, 0u);
  Kernel f16(castRule(DType::F32, DType::F16));
  EXPECT_EQ(f16.run(floats, noScales, target, geometry), -1);
  wrong = 0;
  for (size_t i = 0; i != floats.size(); ++i)
    wrong += target[i] != kernels::encodeF16(floats[i]);
  EXPECT_EQ(wrong, 0u);
}

TEST(Kernel, ExactCastNamesTheFirstElementThatIsLost) {
  Kernel kernel(castRule(DType::F32, DType::BF16, true));
  Geometry geometry{.rows = 3, .columns = 40, .sourceRow = 40, .targetRow = 40};
  std::vector<float> source(120, 1.5f);
  std::vector<uint16_t> target(120);
  source[7] = std::nanf("");
  source[9] = -0.0f;
  EXPECT_EQ(kernel.run(source, noScales, target, geometry), -1);
  source[119] = 1.0f + 0x1p-20f;
  EXPECT_EQ(kernel.run(source, noScales, target, geometry), 119);
  source[61] = 1.0f + 0x1p-20f; // lane 5 of the second vector of row 1
  EXPECT_EQ(kernel.run(source, noScales, target, geometry), 61);
  source[60] = 3.4e38f; // rounds to infinity
  EXPECT_EQ(kernel.run(source, noScales, target, geometry), 60);
}

Rule dequantRule(Shape shape, Shape scales, DType to = DType::BF16) {
  Rule rule = copyRule(shape, dsl::ShardKind::Replicated, to, DType::F8_E4M3);
  rule.type.hf[0].scale = BlockScale{DType::F32, scales, 128, 128};
  return rule;
}

TEST(Kernel, DequantisesEveryCodeWithEveryKindOfScale) {
  Kernel kernel(dequantRule({1, 256}, {1, 2}));
  std::vector<uint8_t> codes(256);
  for (size_t code = 0; code != codes.size(); ++code)
    codes[code] = code;
  for (float scale : {1.0f, 0.0123f, -3.7e-5f, 1e-38f, 1e36f, 0.0f}) {
    std::vector<float> scales = {scale, 2 * scale};
    std::vector<uint16_t> target(256);
    Geometry geometry{.columns = 256, .scaleColumns = 2};
    EXPECT_EQ(kernel.run(codes, scales, target, geometry), -1);
    for (size_t code = 0; code != codes.size(); ++code)
      ASSERT_EQ(target[code], kernels::encodeBF16(kernels::decodeE4M3(code) *
                                                  scales[code / 128]))
          << "code " << code << ", scale " << scale;
  }
}

TEST(Kernel, BlockPhaseFollowsThePlaceInTheWeight) {
  // Rows 100..233 and columns 90..301 of a weight with 3 x 3 ragged blocks.
  Kernel kernel(dequantRule({300, 310}, {3, 3}));
  std::vector<uint8_t> codes(300 * 310);
  for (size_t i = 0; i != codes.size(); ++i)
    codes[i] = i * 37 % 127;
  std::vector<float> scales = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  int64_t rows = 133, columns = 211;
  std::vector<uint16_t> target(rows * columns);
  std::vector<uint8_t> box(codes.begin() + 100 * 310 + 90, codes.end());
  Geometry geometry{.rows = rows,
                    .columns = columns,
                    .sourceRow = 310,
                    .targetRow = columns,
                    .row0 = 100,
                    .column0 = 90,
                    .scaleColumns = 3};
  EXPECT_EQ(kernel.run(box, scales, target, geometry), -1);
  for (int64_t r = 0; r != rows; ++r)
    for (int64_t c = 0; c != columns; ++c) {
      int64_t row = 100 + r, column = 90 + c;
      float value = kernels::decodeE4M3(codes[row * 310 + column]) *
                    scales[row / 128 * 3 + column / 128];
      ASSERT_EQ(target[r * columns + c], kernels::encodeBF16(value));
    }
}

/// Packed values of `from`, groups of 32 under one E8M0 scale.
Rule packedRule(DType from, Shape shape) {
  Rule rule = copyRule(shape, dsl::ShardKind::Replicated, DType::BF16, from);
  rule.type.hf[0].scale =
      BlockScale{DType::F8_E8M0, {shape[0], shape[1] / 32}, 1, 32};
  return rule;
}

/// Every pair of codes with every scale, from the first, the second and the
/// third element on (a vector begins with a byte), and one by one.
void comparePacked(DType from, float (*decode)(uint8_t)) {
  Kernel kernel(packedRule(from, {256, 512}));
  std::vector<uint8_t> bytes(256 * 256), scales(256 * 16);
  for (size_t i = 0; i != bytes.size(); ++i)
    bytes[i] = i % 256;
  for (size_t i = 0; i != scales.size(); ++i)
    scales[i] = i / 16;
  auto expect = [&](int64_t row, int64_t column) {
    uint8_t pair = bytes[row * 256 + column / 2];
    return kernels::encodeBF16(decode(column % 2 ? pair >> 4 : pair & 15) *
                               kernels::decodeE8M0(row));
  };
  for (int64_t first : {0, 1, 2, 31})
    for (int64_t step : {1, 2}) {
      int64_t columns = 512 - first;
      std::vector<uint16_t> target(256 * 512 * step);
      std::vector<uint8_t> box(bytes.begin() + first / 2, bytes.end());
      box.resize(bytes.size());
      Geometry geometry{.rows = 256,
                        .columns = columns,
                        .sourceRow = 512,
                        .targetRow = 512 * step,
                        .targetColumn = step,
                        .column0 = first,
                        .scaleColumns = 16,
                        .blockRows = 1,
                        .blockColumns = 32,
                        .sourcePhase = first % 2};
      EXPECT_EQ(kernel.run(box, scales, target, geometry), -1);
      for (int64_t r = 0; r != 256; ++r)
        for (int64_t c = 0; c != columns; ++c)
          ASSERT_EQ(target[r * 512 * step + c * step], expect(r, first + c))
              << kernel.symbol << " from " << first << ": row " << r
              << ", column " << c;
    }
}

TEST(Kernel, PackedFP4WithEveryExponent) {
  comparePacked(DType::F4_E2M1, kernels::decodeE2M1);
}

TEST(Kernel, PackedI4WithEveryExponent) {
  comparePacked(DType::I4, kernels::decodeI4);
}

/// Every pair of codes under every E4M3 scale, which a tensor scale multiplies
/// or divides before it multiplies the code.
void compareTwoLevels(TensorScale level) {
  Rule rule = copyRule({256, 512}, dsl::ShardKind::Replicated, DType::BF16,
                       DType::F4_E2M1);
  rule.type.hf[0].scale = BlockScale{DType::F8_E4M3, {256, 32}, 1, 16, level};
  Kernel kernel(rule);
  std::vector<uint8_t> codes(256 * 256), scales(256 * 32);
  for (size_t i = 0; i != codes.size(); ++i)
    codes[i] = i % 256;
  for (size_t i = 0; i != scales.size(); ++i)
    scales[i] = i / 32;
  std::vector<uint16_t> target(256 * 512);
  for (float tensorScale : {1.0f, 0.0123f, 3.7e-5f, 1e-38f, 1e30f, 2688.0f}) {
    Geometry geometry{.rows = 256,
                      .columns = 512,
                      .sourceRow = 512,
                      .targetRow = 512,
                      .scaleColumns = 32,
                      .blockRows = 1,
                      .blockColumns = 16,
                      .tensorScaleBits = std::bit_cast<uint32_t>(tensorScale)};
    EXPECT_EQ(kernel.run(codes, scales, target, geometry), -1);
    for (size_t i = 0; i != target.size(); ++i) {
      float scale = kernels::decodeE4M3(i / 512);
      scale = level == TensorScale::Divides ? scale / tensorScale
                                            : scale * tensorScale;
      uint8_t pair = codes[i / 2];
      ASSERT_EQ(target[i],
                kernels::encodeBF16(
                    kernels::decodeE2M1(i % 2 ? pair >> 4 : pair & 15) * scale))
          << kernel.symbol << ", element " << i << ", tensor scale "
          << tensorScale;
    }
  }
}

TEST(Kernel, ScalesOfTwoLevels) {
  compareTwoLevels(TensorScale::Multiplies);
  compareTwoLevels(TensorScale::Divides);
}

TEST(Kernel, ScalesInBF16) {
  Rule rule = dequantRule({2, 256}, {2, 1});
  rule.type.hf[0].scale = BlockScale{DType::BF16, {2, 1}, 1, 256};
  Kernel kernel(rule);
  std::vector<uint8_t> codes(512);
  for (size_t i = 0; i != codes.size(); ++i)
    codes[i] = i;
  const std::vector<uint16_t> scales = {0x3F8B, 0xB912};
  std::vector<uint16_t> target(512);
  Geometry geometry{.rows = 2,
                    .columns = 256,
                    .sourceRow = 256,
                    .targetRow = 256,
                    .blockRows = 1,
                    .blockColumns = 256};
  EXPECT_EQ(kernel.run(codes, scales, target, geometry), -1);
  for (size_t i = 0; i != codes.size(); ++i)
    ASSERT_EQ(target[i],
              kernels::encodeBF16(kernels::decodeE4M3(codes[i]) *
                                  kernels::decodeBF16(scales[i / 256])));
}

TEST(Kernel, AddedConstantIsRoundedOnce) {
  SideBuilder side;
  side.constant(dsl::OpKind::Add, side.tensor(0), 1.0);
  Rule rule = makeRule(typed({4, 4}), {typed({4, 4})}, std::move(side));
  compareAll<uint16_t>(
      Kernel(rule),
      [](uint16_t code) {
        return kernels::encodeBF16(kernels::decodeBF16(code) + 1.0f);
      },
      equalBits);
  compareAll<uint16_t>(
      Kernel(rule, Direction::Export),
      [](uint16_t code) {
        return kernels::encodeBF16(kernels::decodeBF16(code) - 1.0f);
      },
      equalBits);
}

TEST(Kernel, RanksAndShapesShareAClass) {
  std::vector<Rule> rules;
  rules.push_back(dequantRule({256, 128}, {2, 1}));
  rules.push_back(dequantRule({128, 384}, {1, 3}));
  rules[0].mapping->shard.kind = dsl::ShardKind::Row;
  dsl::Diagnostics diagnostics;
  auto program = compileClasses({rules[0].type, rules[1].type},
                                Direction::Import, {4, 1}, diagnostics);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->kernels.size(), 1u);
  for (const FusedClass &fused : program->classes)
    for (const FusedOutput &output : fused.outputs)
      EXPECT_EQ(output.kernel, 0);
}

} // namespace
} // namespace mbc::compiler
