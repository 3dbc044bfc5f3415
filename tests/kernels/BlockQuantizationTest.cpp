#include "kernels/BlockQuantization.h"
#include "kernels/Reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

/// Whole blocks, against the definitions of Reference.h one element at a time.
namespace mbc::kernels {
namespace {

float decode(Codes codes, uint8_t code) {
  return codes == Codes::E4M3   ? decodeE4M3(code)
         : codes == Codes::E2M1 ? decodeE2M1(code)
                                : decodeI4(code);
}

uint8_t encode(Codes codes, float value) {
  return codes == Codes::E4M3   ? encodeE4M3(value)
         : codes == Codes::E2M1 ? encodeE2M1(value)
                                : encodeI4(value);
}

struct Coded {
  std::vector<std::byte> codes, scales;
};

template <typename Word>
const std::byte *bytesOf(const std::vector<Word> &words) {
  return reinterpret_cast<const std::byte *>(words.data());
}

size_t scaleBytes(const BlockFormat &format) {
  return format.scale == Number::F32                                    ? 4
         : format.scale == Number::E8M0 || format.scale == Number::E4M3 ? 1
                                                                        : 2;
}

int64_t stripes(const BlockFormat &format, int64_t rows) {
  return (rows + format.blockRows - 1) / format.blockRows;
}

template <typename Word>
Coded coded(const BlockFormat &format, const std::vector<Word> &values) {
  const auto elements = static_cast<int64_t>(values.size());
  const int64_t rows = elements / format.columns;
  Coded made;
  made.codes.resize(format.codes == Codes::E4M3 ? elements : elements / 2);
  made.scales.resize(stripes(format, rows) * format.scaleColumns() *
                     scaleBytes(format));
  quantize(format, rows, bytesOf(values), made.codes.data(),
           made.scales.data());
  return made;
}

uint8_t codeAt(const BlockFormat &format, const Coded &made, int64_t at) {
  if (format.codes == Codes::E4M3)
    return std::to_integer<uint8_t>(made.codes[at]);
  return std::to_integer<uint8_t>(made.codes[at / 2]) >> at % 2 * 4 & 15;
}

/// The scale that codes were divided by, and as it is stored.
struct Scale {
  float divisor;
  std::vector<std::byte> stored;
};

template <typename Word> std::vector<std::byte> bytesOfOne(Word word) {
  std::vector<std::byte> bytes(sizeof(word));
  std::memcpy(bytes.data(), &word, sizeof(word));
  return bytes;
}

Scale scaleFor(const BlockFormat &format, float amax) {
  float scale = format.codes == Codes::I4     ? std::fmax(amax / 7, 1e-10F)
                : amax == 0                   ? 1
                : format.codes == Codes::E4M3 ? amax / 448
                                              : amax / 6;
  switch (format.scale) {
  case Number::F32:
    return {scale, bytesOfOne(scale)};
  case Number::F16:
    return {scale, bytesOfOne(encodeF16(scale))};
  case Number::BF16:
    return {scale, bytesOfOne(encodeBF16(scale))};
  case Number::E8M0:
    return {decodeE8M0(encodeE8M0(scale)), bytesOfOne(encodeE8M0(scale))};
  case Number::E4M3: // of NVFP4, below
    break;
  }
  return {};
}

/// Compares with quantisation one block and one element at a time.
void expectDefinition(const BlockFormat &format,
                      const std::vector<float> &values) {
  const auto rows = static_cast<int64_t>(values.size()) / format.columns;
  const Coded made = coded(format, values);
  for (int64_t block = 0; block != stripes(format, rows); ++block)
    for (int64_t side = 0; side != format.scaleColumns(); ++side) {
      std::vector<int64_t> elements;
      float amax = 0;
      for (int64_t i = block * format.blockRows;
           i != std::min(rows, (block + 1) * format.blockRows); ++i)
        for (int64_t j = side * format.blockColumns;
             j != std::min(format.columns, (side + 1) * format.blockColumns);
             ++j) {
          elements.push_back(i * format.columns + j);
          amax = std::fmax(amax, std::fabs(values[elements.back()]));
        }
      const Scale scale = scaleFor(format, amax);
      const int64_t at = block * format.scaleColumns() + side;
      ASSERT_EQ(std::memcmp(made.scales.data() + at * scaleBytes(format),
                            scale.stored.data(), scale.stored.size()),
                0)
          << "scale " << at;
      for (int64_t element : elements)
        ASSERT_EQ(codeAt(format, made, element),
                  encode(format.codes, values[element] / scale.divisor))
            << element << ": " << values[element];
    }
}

BlockFormat formatOf(Codes codes, Number scale, int64_t columns,
                     int64_t blockRows, int64_t blockColumns,
                     Number value = Number::F32) {
  return {codes, scale, value, columns, blockRows, blockColumns};
}

/// Every number of a format, every point half way between two, and the floats
/// next to each. `largest` is put at the end, so that the scale is 1.
std::vector<float> decisive(Codes codes, int last, float largest) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values;
  auto add = [&](float value) {
    for (float near : {std::nextafter(value, -infinity), value,
                       std::nextafter(value, infinity)})
      if (std::fabs(near) <= largest)
        values.insert(values.end(), {near, -near});
  };
  for (int code = 0; code != last; ++code) {
    const float low = decode(codes, code), high = decode(codes, code + 1);
    add(low);
    add((low + high) / 2);
  }
  while (values.size() % 32 != 31)
    values.push_back(0);
  values.push_back(largest);
  return values;
}

TEST(BlockQuantization, AroundEveryNumberAndThreshold) {
  const auto expectRow = [](Codes codes, const std::vector<float> &values) {
    const auto columns = static_cast<int64_t>(values.size());
    expectDefinition(formatOf(codes, Number::F32, columns, 1, columns), values);
  };
  expectRow(Codes::E4M3, decisive(Codes::E4M3, 0x7E, 448));
  expectRow(Codes::E2M1, decisive(Codes::E2M1, 7, 6));
  expectRow(Codes::I4, decisive(Codes::I4, 15, 7));
}

// By hand: 448 and its eighths, halves that go to the even code, the smallest
// number 2^-9, half of which is 0.
TEST(BlockQuantization, NumbersThatAPersonKnows) {
  const std::vector<float> values = {448, -448,    1,        17,
                                     19,  0x1p-9F, 0x1p-10F, 0x1.8p-9F};
  const Coded made = coded(formatOf(Codes::E4M3, Number::F32, 8, 1, 8), values);
  const uint8_t expected[] = {0x7E, 0xFE, 0x38, 0x58, 0x5A, 1, 0, 2};
  EXPECT_EQ(std::memcmp(made.codes.data(), expected, 8), 0);
  std::vector<float> row(32, 0);
  const float mx[] = {6, -6, 0.25F, 0.26F, -0.1F, 5, 5.01F, 3.5F};
  std::copy(std::begin(mx), std::end(mx), row.begin());
  const Coded packed =
      coded(formatOf(Codes::E2M1, Number::E8M0, 32, 1, 32), row);
  const uint8_t bytes[] = {0xF7, 0x10, 0x68, 0x57};
  EXPECT_EQ(std::memcmp(packed.codes.data(), bytes, 4), 0);
  EXPECT_EQ(std::to_integer<int>(packed.scales[0]), 127);
}

TEST(BlockQuantization, EveryBF16) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits != 0x10000; ++bits)
    if (const float value = decodeBF16(bits); std::isfinite(value))
      values.push_back(value);
  while (values.size() % 128 != 0)
    values.push_back(0);
  for (int64_t columns : {128, 32})
    for (auto [codes, scale] : {std::pair(Codes::E4M3, Number::F32),
                                {Codes::E4M3, Number::E8M0},
                                {Codes::E2M1, Number::E8M0},
                                {Codes::I4, Number::BF16}})
      expectDefinition(formatOf(codes, scale, 128, 1, columns), values);
}

TEST(BlockQuantization, RaggedBlocks) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (auto [rows, columns] :
       {std::pair<int64_t, int64_t>{130, 200}, {1, 1}, {128, 128}, {257, 3}}) {
    std::vector<float> values(rows * columns);
    for (float &value : values)
      value = normal(random) * std::pow(10.0F, normal(random));
    values[0] = 0;
    for (Number scale : {Number::F32, Number::E8M0, Number::BF16, Number::F16})
      expectDefinition(formatOf(Codes::E4M3, scale, columns, 128, 128), values);
    expectDefinition(formatOf(Codes::E4M3, Number::F32, columns, 1, columns),
                     values);
  }
}

// A scale is 2^-127 at least, and its value then no normal number.
TEST(BlockQuantization, ExtremeScales) {
  for (float amax : {0x1p-149F, 0x1p-133F, 0x1p-120F, 0x1p-118F, 0x1.8p126F,
                     std::numeric_limits<float>::max()}) {
    std::vector<float> values(32, 0);
    values[3] = amax;
    values[4] = -amax / 3;
    for (Codes codes : {Codes::E4M3, Codes::E2M1})
      for (Number scale : {Number::E8M0, Number::F32})
        expectDefinition(formatOf(codes, scale, 32, 1, 32), values);
  }
}

TEST(BlockQuantization, ABlockOfZeros) {
  const std::vector<float> zeros(32, 0);
  const Coded made =
      coded(formatOf(Codes::E4M3, Number::F32, 32, 1, 32), zeros);
  float scale = 0;
  std::memcpy(&scale, made.scales.data(), 4);
  EXPECT_EQ(scale, 1);
  EXPECT_EQ(made.codes, std::vector<std::byte>(32));
}

// What is no number stays none, and does not spoil its neighbours' codes.
TEST(BlockQuantization, NaNInABlock) {
  std::vector<float> values(32, 2);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  const Coded made =
      coded(formatOf(Codes::E4M3, Number::F32, 32, 1, 32), values);
  EXPECT_EQ(std::to_integer<int>(made.codes[5]) & 0x7F, 0x7F);
  EXPECT_EQ(std::to_integer<int>(made.codes[6]), 0x40);
}

BlockFormat nvfp4(TensorScale level, int64_t columns) {
  BlockFormat format = formatOf(Codes::E2M1, Number::E4M3, columns, 1, 16);
  format.level = level;
  return format;
}

/// A whole tensor by the formulas of ModelOpt (Multiplies) and
/// compressed-tensors (Divides), one block and one element at a time.
void expectNvfp4(TensorScale level, int64_t columns,
                 const std::vector<float> &values) {
  BlockFormat format = nvfp4(level, columns);
  const bool divides = level == TensorScale::Divides;
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  float most = 0;
  for (float value : values)
    most = std::fmax(most, std::fabs(value));
  ASSERT_EQ(largestMagnitude(format, rows, bytesOf(values)), most);
  const float one = divides ? most == 0 ? 1 : 2688 / most : most / 2688;
  ASSERT_EQ(tensorScaleFor(level, most), one);
  format.tensorScale = one;
  const Coded made = coded(format, values);
  for (size_t first = 0; first != values.size(); first += 16) {
    float amax = 0;
    for (size_t at = first; at != first + 16; ++at)
      amax = std::fmax(amax, std::fabs(values[at]));
    float scale = divides     ? one * (amax / 6)
                  : amax == 0 ? 1
                              : std::fmax(amax / (6 * one), 0x1p-9F);
    uint8_t stored = encodeE4M3(scale);
    if (divides && stored == 0)
      stored = encodeE4M3(0.125F);
    ASSERT_EQ(std::to_integer<int>(made.scales[first / 16]), stored) << first;
    const float divisor =
        divides ? decodeE4M3(stored) / one : decodeE4M3(stored) * one;
    for (size_t at = first; at != first + 16; ++at)
      ASSERT_EQ(codeAt(format, made, static_cast<int64_t>(at)),
                encodeE2M1Even(values[at] / divisor))
          << at << ": " << values[at];
  }
}

TEST(BlockQuantization, ScalesOfTwoLevels) {
  std::vector<float> bf16;
  for (uint32_t bits = 0; bits != 0x10000; ++bits)
    if (const float value = decodeBF16(bits);
        std::isfinite(value) && std::fabs(value) < 1e4F)
      bf16.push_back(value);
  bf16.resize(bf16.size() / 64 * 64);
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> spread(64 * 300);
  for (float &value : spread)
    value = normal(random) * std::pow(10.0F, normal(random));
  // The block's largest is 6 under a scale of 1: thresholds as they are.
  std::vector<float> decided = decisive(Codes::E2M1, 7, 6);
  decided.resize(64);
  std::vector<float> blocks;
  for (size_t at = 0; at != decided.size(); ++at) {
    if (at % 15 == 0)
      blocks.push_back(6);
    blocks.push_back(decided[at]);
  }
  blocks.resize(128);
  blocks[0] = 2688; // and of the tensor under 1
  for (TensorScale level : {TensorScale::Multiplies, TensorScale::Divides})
    for (const std::vector<float> &values :
         {bf16, spread, blocks, std::vector<float>(64, 0)})
      expectNvfp4(level, 64, values);
}

// By hand: the largest value is 6 times 448, so the tensor scale is 1; halves
// go to the even code. The second block's scale is 1.
TEST(BlockQuantization, NVFP4ThatAPersonKnows) {
  std::vector<float> row(32, 0);
  row[0] = -2688;
  const float second[] = {6,    -6,    0.25F, 0.75F, -1.25F, 1.75F,
                          2.5F, -3.5F, 5,     0.26F, -0.1F,  5.01F};
  std::copy(std::begin(second), std::end(second), row.begin() + 16);
  BlockFormat format = nvfp4(TensorScale::Multiplies, 32);
  const Coded made = coded(format, row);
  EXPECT_EQ(std::to_integer<int>(made.scales[0]), 0x7E); // 448
  EXPECT_EQ(std::to_integer<int>(made.scales[1]), 0x38); // 1
  const uint8_t bytes[] = {0x0F, 0,    0,    0,    0,    0,    0, 0,
                           0xF7, 0x20, 0x4A, 0xE4, 0x16, 0x78, 0, 0};
  for (size_t at = 0; at != 16; ++at)
    EXPECT_EQ(std::to_integer<int>(made.codes[at]), bytes[at]) << at;
}

TEST(BlockQuantization, TwoLevelsStandForTheirValuesAlone) {
  for (TensorScale level : {TensorScale::Multiplies, TensorScale::Divides}) {
    BlockFormat format = nvfp4(level, 32);
    format.value = Number::BF16;
    format.tensorScale = 0.0123F;
    std::vector<uint8_t> codes(16), scales = {0x31, 0x5B};
    for (size_t at = 0; at != codes.size(); ++at)
      codes[at] = static_cast<uint8_t>(at * 37 + 1);
    std::vector<uint16_t> values;
    for (int64_t at = 0; at != 32; ++at) {
      const float stored = decodeE4M3(scales[at / 16]);
      const float scale = level == TensorScale::Divides
                              ? stored / format.tensorScale
                              : stored * format.tensorScale;
      values.push_back(
          encodeBF16(decodeE2M1(codes[at / 2] >> at % 2 * 4 & 15) * scale));
    }
    const auto stand = [&] {
      return standFor(format, 1, bytesOf(codes), bytesOf(scales),
                      bytesOf(values));
    };
    EXPECT_TRUE(stand());
    format.tensorScale = 0.0124F;
    EXPECT_FALSE(stand());
  }
}

// All codes under several scales, in each format of values; then each bit of a
// value in turn.
TEST(BlockQuantization, StandForTheirValuesAlone) {
  for (Codes codes : {Codes::E4M3, Codes::E2M1, Codes::I4}) {
    const int64_t columns = 256;
    std::vector<uint8_t> bytes(codes == Codes::E4M3 ? 256 : 128);
    for (size_t at = 0; at != bytes.size(); ++at)
      bytes[at] = static_cast<uint8_t>(codes == Codes::E4M3 ? at : at * 37);
    const std::vector<float> scales = {0.37F, 1.5F};
    const BlockFormat format =
        formatOf(codes, Number::F32, columns, 1, 128, Number::BF16);
    std::vector<uint16_t> values;
    for (int64_t at = 0; at != columns; ++at) {
      const uint8_t code =
          codes == Codes::E4M3 ? bytes[at] : bytes[at / 2] >> at % 2 * 4 & 15;
      values.push_back(encodeBF16(decode(codes, code) * scales[at / 128]));
    }
    const auto stand = [&] {
      return standFor(format, 1, bytesOf(bytes), bytesOf(scales),
                      bytesOf(values));
    };
    EXPECT_TRUE(stand());
    for (int bit = 0; bit != 16; ++bit) {
      values[100] ^= 1 << bit;
      EXPECT_FALSE(stand()) << bit;
      values[100] ^= 1 << bit;
    }
  }
}

} // namespace
} // namespace mbc::kernels
