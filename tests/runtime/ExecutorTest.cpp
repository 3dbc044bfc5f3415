#include "runtime/Executor.h"
#include "tests/runtime/PlanBuilder.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>

namespace mbc::test {
namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string randomBytes(size_t count) {
  std::mt19937 random(7);
  std::string bytes(count, '\0');
  for (char &byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

/// Bytes [16, ...) of the source hold a matrix; its columns go to two shards,
/// followed by seven rows of a constant.
class ColumnShards : public testing::Test {
protected:
  static constexpr int64_t rows = 300, columns = 70, half = 35, padding = 7;
  static constexpr int64_t width = 2;

  ColumnShards() : matrix_(randomBytes(rows * columns * width)) {
    directory_.write("src/w.bin", std::string(16, 'h') + matrix_);
    uint32_t file = builder_.sourceFile("w.bin", 16 + matrix_.size());
    uint32_t from = builder_.source(file, 16);
    uint64_t bytes = (rows + padding) * half * width;
    uint32_t to = builder_.targetFile("model.safetensors", 8 + 2 * bytes);
    builder_.plan.files[to]->literal.assign(
        {'h', 'e', 'a', 'd', 'e', 'r', '!', '!'});
    std::vector<plan::OutputT> outputs;
    std::vector<uint32_t> items;
    for (int64_t shard : {0, 1}) {
      outputs.push_back(output(
          DType::BF16, {rows + padding, half},
          {box(0, shard * half, 0, {{rows, columns, half}, {half, 1, 1}}),
           fillBox(0x3f80, rows * half, padding * half)}));
      uint32_t tensor = builder_.tensor("w" + std::to_string(shard),
                                        DType::BF16, {rows + padding, half});
      items.push_back(builder_.item(to, tensor, 8 + shard * bytes));
    }
    addClass(builder_, classOf({input(DType::BF16, rows * columns)},
                               std::move(outputs), {from}, items));
    builder_.sidecar("config.json", "{}");
  }

  std::string expected() const {
    std::string bytes = "header!!";
    for (int64_t shard : {0, 1}) {
      for (int64_t row = 0; row != rows; ++row)
        bytes += matrix_.substr((row * columns + shard * half) * width,
                                half * width);
      for (int64_t element = 0; element != padding * half; ++element)
        bytes += std::string("\x80\x3f");
    }
    return bytes;
  }

  Result<RunSummary> run(RunOptions options = {}) {
    options.sync = false;
    return mbc::run(builder_.build(), directory_ / "src", directory_ / "dst",
                    options);
  }

  TemporaryDirectory directory_;
  std::string matrix_;
  PlanBuilder builder_{plan::TargetFormat_Safetensors};
};

TEST_F(ColumnShards, WritesSlicesAndConstants) {
  Result<RunSummary> summary = run();
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(readText(directory_ / "dst/model.safetensors"), expected());
  EXPECT_EQ(readText(directory_ / "dst/config.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "dst/.mbc-partial"));
  EXPECT_EQ(summary->tensors, 2u);
  EXPECT_EQ(summary->bytesWritten, expected().size() + 2);
}

// Whatever the bound, and so the number and borders of bands.
TEST_F(ColumnShards, AnyBudgetAndThreadsGiveTheSameBytes) {
  for (uint64_t memory : {300, 1000, 5000, 65536})
    for (unsigned threads : {1, 2, 3}) {
      std::filesystem::remove_all(directory_ / "dst");
      RunOptions options;
      options.memory = memory;
      options.threads = threads;
      Result<RunSummary> summary = run(options);
      ASSERT_TRUE(summary) << memory << ": " << summary.error().message;
      EXPECT_EQ(readText(directory_ / "dst/model.safetensors"), expected())
          << memory << " bytes, " << threads << " threads";
    }
}

// Both shards read the same rows, so the matrix is read once and no more than
// the rows at the borders of bands twice.
TEST_F(ColumnShards, ReadsASourceByteOnce) {
  Result<RunSummary> summary = run();
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->bytesRead, matrix_.size());
}

TEST_F(ColumnShards, RefusesABudgetBelowOneElement) {
  RunOptions options;
  options.memory = 100;
  Result<RunSummary> summary = run(options);
  ASSERT_FALSE(summary);
  EXPECT_NE(summary.error().message.find("--memory"), std::string::npos)
      << summary.error().message;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "dst"));
}

TEST_F(ColumnShards, RefusesASourceOfAnotherSize) {
  directory_.write("src/w.bin", "short");
  Result<RunSummary> summary = run();
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().message,
            directory_ / "src/w.bin" +
                ": 5 bytes, but the plan was compiled for 42016: complete the "
                "file, or compile the plan again");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "dst"));
}

TEST_F(ColumnShards, RefusesMoreThanFits) {
  builder_.plan.files[0]->size = uint64_t{1} << 60;
  Result<RunSummary> summary = run();
  ASSERT_FALSE(summary);
  EXPECT_NE(summary.error().message.find("needs 1152921504606846978 bytes"),
            std::string::npos)
      << summary.error().message;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "dst"));
}

TEST_F(ColumnShards, ComparesTiedCopies) {
  std::string copy = matrix_;
  copy[5 * columns * width + 3] ^= 1;
  directory_.write("src/copy.bin", copy);
  uint32_t file = builder_.sourceFile("copy.bin", copy.size());
  builder_.source(file, 0, "copy");
  auto pair = std::make_unique<plan::ComparisonT>();
  pair->first = 0;
  pair->second = 1;
  pair->bytes = copy.size();
  pair->row_bytes = columns * width;
  pair->first_name = "embed";
  pair->second_name = "head";
  builder_.plan.comparisons.push_back(std::move(pair));
  Result<RunSummary> summary = run();
  ASSERT_FALSE(summary);
  EXPECT_EQ(
      summary.error().message,
      "'head' is declared a copy of 'embed', but they differ in row 5 "
      "(byte 703 of 42000): correct the checkpoint, or give --copies drop "
      "to leave the copy out");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "dst"));

  directory_.write("src/copy.bin", matrix_);
  EXPECT_TRUE(run());
}

TEST_F(ColumnShards, ReportsPaddingThatIsNotZero) {
  directory_.write("src/rows.bin",
                   std::string(10, '\0') + "x" + std::string(9, '\0'));
  builder_.source(builder_.sourceFile("rows.bin", 20), 0);
  for (uint64_t bytes : {10, 20}) {
    auto zero = std::make_unique<plan::ComparisonT>();
    zero->first = 1;
    zero->second = -1;
    zero->bytes = bytes;
    zero->row_bytes = 4;
    zero->first_name = "embed";
    builder_.plan.comparisons.push_back(std::move(zero));
  }
  Result<RunSummary> summary = run();
  ASSERT_TRUE(summary) << summary.error().message;
  ASSERT_EQ(summary->notes.size(), 1u);
  EXPECT_NE(summary->notes[0].find("'embed': padding row 2 is not zero"),
            std::string::npos)
      << summary->notes[0];
}

TEST_F(ColumnShards, ComparesTheShapeOfCodes) {
  auto pair = std::make_unique<plan::ComparisonT>();
  pair->first =
      builder_.source(builder_.sourceFile("shape.bin", 24), 8, "w_shape");
  pair->second = 0;
  pair->bytes = 16;
  pair->shape = {6, 64};
  builder_.plan.comparisons.push_back(std::move(pair));
  const std::array<int64_t, 3> right{0, 6, 64}, wrong{6, 64, 6};
  auto bytes = [](const std::array<int64_t, 3> &numbers) {
    return std::string(reinterpret_cast<const char *>(numbers.data()), 24);
  };
  directory_.write("src/shape.bin", bytes(wrong));
  Result<RunSummary> summary = run();
  ASSERT_FALSE(summary);
  EXPECT_TRUE(summary.error().message.starts_with("'w_shape' says [64, 6], but "
                                                  "the values of '"))
      << summary.error().message;
  EXPECT_TRUE(summary.error().message.contains("' are [6, 64]: "))
      << summary.error().message;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "dst"));

  directory_.write("src/shape.bin", bytes(right));
  EXPECT_TRUE(run());
}

/// A weight of U8 with F32 scales for blocks of 16 x 32, ragged at both edges,
/// converted whole and as a column slice.
class Scaled : public testing::TestWithParam<uint64_t> {};

TEST_P(Scaled, MultipliesEveryElementByItsBlock) {
  constexpr int64_t rows = 50, columns = 100, first = 30, part = 45;
  TemporaryDirectory directory;
  std::string weight = randomBytes(rows * columns);
  std::vector<float> scales(4 * 4);
  for (size_t block = 0; block != scales.size(); ++block)
    scales[block] = 0.5f + block;
  directory.write("src/w.bin", weight);
  directory.write("src/s.bin", {reinterpret_cast<char *>(scales.data()), 64});
  PlanBuilder builder(plan::TargetFormat_Safetensors);
  uint32_t w = builder.source(builder.sourceFile("w.bin", weight.size()), 0);
  uint32_t s = builder.source(builder.sourceFile("s.bin", 64), 0);
  uint64_t whole = rows * columns * 4, slice = rows * part * 4;
  uint32_t file = builder.targetFile("model.safetensors", whole + slice);
  std::vector<plan::OutputT> outputs;
  outputs.push_back(output(DType::F32, {rows, columns},
                           {box(0, 0, 0, {{rows * columns, 1, 1}})}));
  outputs.push_back(
      output(DType::F32, {rows, part},
             {box(0, first, 0, {{rows, columns, part}, {part, 1, 1}})}));
  for (plan::OutputT &each : outputs) {
    each.kernel = 0;
    auto geometry = std::make_unique<plan::ScalesT>();
    geometry->weight = 0;
    geometry->input = 1;
    geometry->columns = columns;
    geometry->scale_columns = 4;
    geometry->block_rows = 16;
    geometry->block_columns = 32;
    each.scales.push_back(std::move(geometry));
  }
  uint32_t a =
      builder.item(file, builder.tensor("a", DType::F32, {50, 100}), 0);
  uint32_t b =
      builder.item(file, builder.tensor("b", DType::F32, {50, 45}), whole);
  addClass(builder,
           classOf({input(DType::U8, rows * columns), input(DType::F32, 16)},
                   std::move(outputs), {w, s}, {a, b}));
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->symbol = "scale_u8";
  builder.plan.kernels.push_back(std::move(kernel));
  std::string object = readText(SCALE_KERNEL);
  builder.plan.kernel_objects.assign(object.begin(), object.end());

  RunOptions options;
  options.memory = GetParam();
  options.sync = false;
  Result<RunSummary> summary =
      run(builder.build(), directory / "src", directory / "dst", options);
  ASSERT_TRUE(summary) << summary.error().message;
  std::string bytes = readText(directory / "dst/model.safetensors");
  ASSERT_EQ(bytes.size(), whole + slice);
  const char *at = bytes.data();
  auto expect = [&](int64_t row, int64_t column) {
    float value;
    std::memcpy(&value, at, 4);
    at += 4;
    ASSERT_EQ(value, uint8_t(weight[row * columns + column]) *
                         scales[row / 16 * 4 + column / 32])
        << row << ", " << column;
  };
  for (int64_t row = 0; row != rows; ++row)
    for (int64_t column = 0; column != columns; ++column)
      expect(row, column);
  for (int64_t row = 0; row != rows; ++row)
    for (int64_t column = first; column != first + part; ++column)
      expect(row, column);
}

INSTANTIATE_TEST_SUITE_P(Budgets, Scaled, testing::Values(1000, 4000, 1 << 20));

TEST(Exactness, NamesTheElementThatLosesBits) {
  TemporaryDirectory directory;
  std::vector<int16_t> values(100, 5);
  values[73] = 300;
  directory.write("src/w.bin", {reinterpret_cast<char *>(values.data()), 200});
  PlanBuilder builder(plan::TargetFormat_Safetensors);
  uint32_t w = builder.source(builder.sourceFile("w.bin", 200), 0, "layer.w");
  uint32_t file = builder.targetFile("model.safetensors", 100);
  uint32_t item =
      builder.item(file, builder.tensor("t", DType::I8, {10, 10}), 0);
  std::vector<plan::OutputT> outputs;
  outputs.push_back(output(DType::I8, {10, 10}, {box(0, 0, 0, {{100, 1, 1}})}));
  outputs.back().kernel = 0;
  addClass(builder,
           classOf({input(DType::I16, 100)}, std::move(outputs), {w}, {item}));
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->symbol = "narrow_i16";
  builder.plan.kernels.push_back(std::move(kernel));
  std::string object = readText(SCALE_KERNEL);
  builder.plan.kernel_objects.assign(object.begin(), object.end());
  Result<RunSummary> summary =
      run(builder.build(), directory / "src", directory / "dst", {});
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().message,
            "'t': element 73 (row-major index in 'layer.w') does not fit the "
            "target's dtype without losing bits: give --dtype to round, or "
            "--dtype keep");
}

} // namespace
} // namespace mbc::test
