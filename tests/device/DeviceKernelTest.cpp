#include "kernels/Reference.h"
#include "tests/device/DeviceCases.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace mbc::device::test {
namespace {

class DeviceKernel : public testing::Test {
protected:
  void SetUp() override {
    if (!Fixture::get().hasDevice)
      GTEST_SKIP() << Fixture::get().whyNot;
  }
};

float decode(DType dtype, uint32_t code) {
  switch (dtype) {
  case DType::F8_E4M3:
    return kernels::decodeE4M3(code);
  case DType::F4_E2M1:
    return kernels::decodeE2M1(code);
  case DType::I4:
    return kernels::decodeI4(code);
  case DType::F8_E8M0:
    return kernels::decodeE8M0(code);
  case DType::BF16:
    return kernels::decodeBF16(code);
  case DType::F16:
    return kernels::decodeF16(code);
  default:
    return std::bit_cast<float>(code);
  }
}

uint32_t encode(DType dtype, float value) {
  return dtype == DType::BF16  ? kernels::encodeBF16(value)
         : dtype == DType::F16 ? kernels::encodeF16(value)
                               : std::bit_cast<uint32_t>(value);
}

bool isNaN(DType dtype, uint32_t code) {
  return std::isnan(decode(dtype, code));
}

/// Bits are the same; of f32, any NaN equals any other (kernels/README.md).
bool same(DType dtype, uint32_t a, uint32_t b) {
  return a == b || (dtype == DType::F32 && isNaN(dtype, a) && isNaN(dtype, b));
}

/// The tensor scale of all that have one: no power of two, so that the order of
/// the roundings shows.
constexpr float tensorScale = 0.0123F;

/// What the definitions say, with every step rounded as the chain has it.
uint32_t expected(const KernelCase &kernel, float value, float scale) {
  if (kernel.tensor == 1)
    scale = scale * tensorScale;
  if (kernel.tensor == 2)
    scale = scale / tensorScale;
  if (kernel.scale >= 0)
    value = value * scale;
  if (kernel.added != 0)
    value = decode(kernel.to, encode(kernel.to, value + kernel.added));
  if (kernel.factor != 1)
    value = decode(kernel.to, encode(kernel.to, value * kernel.factor));
  return encode(kernel.to, value);
}

void putCode(std::byte *bytes, size_t index, unsigned bits, uint32_t code) {
  if (bits == 4)
    bytes[index / 2] |= static_cast<std::byte>(code << index % 2 * 4);
  else
    std::memcpy(bytes + index * bits / 8, &code, bits / 8);
}
uint32_t codeAt(const std::byte *bytes, size_t index, unsigned bits) {
  uint32_t code = 0;
  std::memcpy(&code, bytes + index * bits / 8, bits / 8);
  return code;
}

/// Every code of a format of up to 16 bits; of f32, numbers around every bf16
/// and every f16, where rounding is decided.
std::vector<uint32_t> codesOf(DType dtype) {
  std::vector<uint32_t> codes;
  if (dtype != DType::F32) {
    size_t count = size_t{1} << bitSize(dtype);
    for (uint32_t code = 0; code != std::max<size_t>(count, 256); ++code)
      codes.push_back(code % count);
    return codes;
  }
  for (uint32_t code = 0; code != 65536; ++code)
    for (float value : {kernels::decodeBF16(code), kernels::decodeF16(code)})
      for (int64_t delta : {-0x8001, -0x8000, -0x1001, -0x1000, -1, 0, 1,
                            0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001})
        codes.push_back(
            static_cast<uint32_t>(std::bit_cast<uint32_t>(value) + delta));
  return codes;
}

/// Every scale of up to 16 bits; of f32, its powers of two and random bits.
std::vector<uint32_t> scalesOf(int scale) {
  if (scale < 0)
    return {0};
  auto dtype = static_cast<DType>(scale);
  if (dtype != DType::F32)
    return codesOf(dtype);
  std::mt19937 random(3);
  std::vector<uint32_t> scales = {0, 0x80000000, 0x7F800000, 0x7FC00000, 1};
  for (uint32_t exponent = 0; exponent != 512; ++exponent)
    scales.push_back(exponent << 23);
  for (int count = 0; count != 3000; ++count)
    scales.push_back(random());
  return scales;
}

/// Every code under every scale, in vectors (`step` 1) or one by one.
void compareAllCodes(size_t index, int64_t step) {
  const Fixture &fixture = Fixture::get();
  const KernelCase &kernel = fixture.cases[index];
  std::vector<uint32_t> codes = codesOf(kernel.from);
  std::vector<uint32_t> scales = scalesOf(kernel.scale);
  if (step != 1 && scales.size() > 4096) // they only take another way there
    scales.resize(4096);
  KernelFormat format = kernel.format();
  size_t columns = codes.size(), rows = scales.size();
  size_t sourceBytes = columns * format.sourceBits / 8;
  Arena source(fixture.device, sourceBytes),
      scaling(fixture.device, std::max<size_t>(4, rows * format.scaleBytes)),
      target(fixture.device, rows * columns * step * format.targetBits / 8);
  std::memset(source.host(), 0, sourceBytes);
  for (size_t column = 0; column != columns; ++column)
    putCode(source.host(), column, format.sourceBits, codes[column]);
  for (size_t row = 0; row != rows && format.scaleBytes; ++row)
    putCode(scaling.host(), row, 8 * format.scaleBytes, scales[row]);
  source.upload(fixture.stream);
  scaling.upload(fixture.stream);

  DeviceBatch batch(format);
  DevicePiece piece{source.device(), scaling.device(), target.device(), {}};
  KernelGeometry &g = piece.geometry;
  g.rows = rows;
  g.columns = columns;
  g.sourceColumnStride = 1; // all rows read the same codes
  g.targetRowStride = columns * step;
  g.targetColumnStride = step;
  g.scaleColumns = g.blockRows = 1;
  g.blockColumns = columns;
  g.tensorScale = tensorScale;
  must(batch.add(piece));
  ASSERT_EQ(batch.elements.rows.empty(), step == 1) << kernel.name;
  LostElement lost = runBatch(fixture, index, batch);
  target.download(fixture.stream);

  std::vector<float> values;
  for (uint32_t code : codes)
    values.push_back(decode(kernel.from, code));
  int64_t firstLost = -1;
  size_t wrong = 0;
  std::string first;
  for (size_t row = 0; row != rows; ++row) {
    float scale = kernel.scale < 0
                      ? 1
                      : decode(static_cast<DType>(kernel.scale), scales[row]);
    for (size_t column = 0; column != columns; ++column) {
      uint32_t want = expected(kernel, values[column], scale);
      uint32_t have = codeAt(target.host(), (row * columns + column) * step,
                             format.targetBits);
      if (kernel.exact && firstLost < 0 && !std::isnan(values[column]) &&
          decode(kernel.to, want) != values[column])
        firstLost = row * columns + column;
      if (same(kernel.to, have, want))
        continue;
      if (wrong++ == 0)
        first = fmt::format("code {:#x}, scale {:#x}: {:#x}, not {:#x}",
                            codes[column], scales[row], have, want);
    }
  }
  EXPECT_EQ(wrong, 0u) << kernel.name << ", step " << step << ": " << first;
  EXPECT_EQ(lost.index, firstLost) << kernel.name << ", step " << step;
}

TEST_F(DeviceKernel, EveryCodeEqualsItsDefinition) {
  for (size_t index = 0; index != Fixture::get().cases.size(); ++index)
    for (int64_t step : {1, 2})
      compareAllCodes(index, step);
}

/// All 2^32 floats against the CPU's kernel.
TEST_F(DeviceKernel, EveryFloatRoundsAsOnTheCpu) {
  const Fixture &fixture = Fixture::get();
  constexpr size_t chunk = size_t{1} << 26;
  Arena source(fixture.device, chunk * 4), target(fixture.device, chunk * 2);
  std::vector<uint16_t> want(chunk);
  for (size_t index = 0; index != fixture.cases.size(); ++index) {
    const KernelCase &kernel = fixture.cases[index];
    if (kernel.from != DType::F32 || kernel.to == DType::F32 || kernel.exact)
      continue;
    for (uint64_t begin = 0; begin != uint64_t{1} << 32; begin += chunk) {
      auto *floats = reinterpret_cast<uint32_t *>(source.host());
      for (size_t i = 0; i != chunk; ++i)
        floats[i] = begin + i;
      source.upload(fixture.stream);
      DevicePiece piece{source.device(), 0, target.device(), {}};
      KernelGeometry &g = piece.geometry;
      g.rows = 1;
      g.columns = chunk;
      g.sourceColumnStride = g.targetColumnStride = 1;
      DeviceBatch batch(kernel.format());
      must(batch.add(piece));
      runBatch(fixture, index, batch);
      target.download(fixture.stream);
      fixture.cpu[index](floats, nullptr, want.data(), g.packed().data());
      ASSERT_EQ(std::memcmp(want.data(), target.host(), chunk * 2), 0)
          << kernel.name << ": in the floats from " << begin << " on";
    }
  }
}

/// Random pieces of one kernel, in one launch.
class RandomPieces {
public:
  RandomPieces(size_t index, unsigned seed)
      : index_(index), kernel_(Fixture::get().cases[index]),
        format_(kernel_.format()), random_(seed) {}

  void run(size_t count) {
    for (size_t piece = 0; piece != count; ++piece)
      addPiece();
    const Fixture &fixture = Fixture::get();
    Arena source(fixture.device, sourceBytes_ + 64),
        scales(fixture.device, scaleBytes_ + 64),
        target(fixture.device, targetBytes_ + 64);
    fill(source, scales);
    std::memset(target.host(), 0xA5, targetBytes_ + 64);
    for (const Arena *arena : {&source, &scales, &target})
      arena->upload(fixture.stream);
    DeviceBatch batch(format_);
    for (const Places &at : pieces_)
      must(batch.add({source.device() + at.source, scales.device() + at.scales,
                      target.device() + at.target, at.geometry}));
    LostElement lost = runBatch(fixture, index_, batch);
    std::vector<std::byte> want(targetBytes_ + 64, std::byte{0xA5});
    LostElement lostOnCpu;
    std::vector<bool> whole(pieces_.size(), true);
    for (uint32_t piece = 0; piece != pieces_.size(); ++piece) {
      const Places &at = pieces_[piece];
      int64_t bad = fixture.cpu[index_](
          source.host() + at.source, scales.host() + at.scales,
          want.data() + at.target, at.geometry.packed().data());
      whole[piece] = bad < 0;
      if (bad >= 0 && lostOnCpu.index < 0)
        lostOnCpu = {piece, bad};
    }
    target.download(fixture.stream);
    EXPECT_EQ(lost.index, lostOnCpu.index) << kernel_.name;
    EXPECT_EQ(lost.piece, lostOnCpu.piece) << kernel_.name;
    for (size_t piece = 0; piece != pieces_.size(); ++piece)
      if (whole[piece])
        compare(piece, want, target.host());
  }

private:
  struct Places {
    size_t source, scales, target, targetEnd;
    KernelGeometry geometry;
  };

  int64_t upTo(int64_t most) {
    return static_cast<int64_t>(random_() % (most + 1));
  }

  void addPiece() {
    Places at{};
    KernelGeometry &g = at.geometry;
    g.rows = upTo(3) ? 1 + upTo(40) : 1;
    g.columns = upTo(7) ? 1 + upTo(300) : 1 + upTo(20000);
    if (upTo(3) == 0)
      g.columns = (g.columns + 7) / 8 * 8;
    g.sourceColumnStride = upTo(3) ? 1 : 1 + upTo(2);
    g.targetColumnStride = upTo(3) ? 1 : 1 + upTo(2);
    g.sourceRowStride = g.columns * g.sourceColumnStride + upTo(1) * upTo(9);
    g.targetRowStride = g.columns * g.targetColumnStride + upTo(1) * upTo(9);
    if (upTo(1)) {
      g.sourceRowStride = (g.sourceRowStride + 7) / 8 * 8;
      g.targetRowStride = (g.targetRowStride + 7) / 8 * 8;
    }
    if (upTo(9) == 0 && g.columns < 400) { // columns of the source are rows
      g.sourceColumnStride = g.rows + upTo(3);
      g.sourceRowStride = 1;
    }
    if (format_.sourceBits == 4)
      g.sourcePhase = upTo(1);
    g.row0 = upTo(1) * upTo(300);
    g.column0 = upTo(2) ? upTo(40) * 8 : upTo(300);
    static constexpr int64_t extents[] = {1, 16, 32, 128, 7, 100, 1000, 100000};
    g.blockRows = extents[upTo(7)];
    g.blockColumns = extents[upTo(7)];
    g.tensorScale = tensorScale;
    g.scaleColumns = (g.column0 + g.columns - 1) / g.blockColumns + 1;
    size_t align = upTo(1) ? 16 : 1;
    at.source = (sourceBytes_ + align - 1) / align * align;
    size_t elements = g.sourcePhase + (g.rows - 1) * g.sourceRowStride +
                      (g.columns - 1) * g.sourceColumnStride + 1;
    sourceBytes_ = at.source + (elements * format_.sourceBits + 7) / 8;
    at.scales = upTo(3) ? (scaleBytes_ + 3) / 4 * 4 : scaleBytes_;
    size_t blockRows = (g.row0 + g.rows - 1) / g.blockRows + 1;
    scaleBytes_ = at.scales + blockRows * g.scaleColumns * format_.scaleBytes;
    size_t width = format_.targetBits / 8;
    at.target = (targetBytes_ + 15) / 16 * 16 + upTo(2) / 2 * width;
    targetBytes_ = at.targetEnd =
        at.target + ((g.rows - 1) * g.targetRowStride +
                     (g.columns - 1) * g.targetColumnStride + 1) *
                        width;
    pieces_.push_back(at);
  }

  /// Random bits; for exact kernels mostly numbers that the target has.
  void fill(const Arena &source, const Arena &scales) {
    for (size_t i = 0; i != sourceBytes_ + 64; ++i)
      source.host()[i] = static_cast<std::byte>(random_());
    for (size_t i = 0; i != scaleBytes_ + 64; ++i)
      scales.host()[i] = static_cast<std::byte>(random_());
    if (!kernel_.exact)
      return;
    size_t width = format_.sourceBits / 8;
    for (const Places &at : pieces_) {
      const KernelGeometry &g = at.geometry;
      for (int64_t r = 0; r != g.rows; ++r)
        for (int64_t c = 0; c != g.columns; ++c) {
          if (random_() % 400000 == 0)
            continue;
          // A number that both have, or NaN.
          uint32_t code =
              encode(kernel_.from, decode(kernel_.to, random_() & 0xFFF8));
          if (!(decode(kernel_.to,
                       encode(kernel_.to, decode(kernel_.from, code))) ==
                decode(kernel_.from, code)))
            code = 0x8000u << (format_.sourceBits - 16);
          std::memcpy(source.host() + at.source +
                          (r * g.sourceRowStride + c * g.sourceColumnStride) *
                              width,
                      &code, width);
        }
    }
  }

  void compare(size_t piece, const std::vector<std::byte> &want,
               const std::byte *have) {
    const Places &at = pieces_[piece];
    size_t width = format_.targetBits / 8;
    for (size_t byte = at.target; byte != at.targetEnd; byte += width) {
      uint32_t a = 0, b = 0;
      std::memcpy(&a, want.data() + byte, width);
      std::memcpy(&b, have + byte, width);
      const KernelGeometry &g = at.geometry;
      ASSERT_TRUE(same(kernel_.to, a, b))
          << kernel_.name << ", piece " << piece << " of " << g.rows << " x "
          << g.columns << ", target element " << (byte - at.target) / width
          << ": " << b << ", not " << a;
    }
  }

  size_t index_;
  const KernelCase &kernel_;
  KernelFormat format_;
  std::mt19937_64 random_;
  std::vector<Places> pieces_;
  size_t sourceBytes_ = 0, scaleBytes_ = 0, targetBytes_ = 0;
};

/// Shapes, strides, alignments, blocks and phases at random, the CPU's kernels
/// beside them; bytes between the elements stay as they were.
TEST_F(DeviceKernel, RandomPiecesEqualTheCpus) {
  size_t cases = 0;
  for (size_t index = 0; index != Fixture::get().cases.size(); ++index)
    for (unsigned round = 0; round != 2; ++round) {
      RandomPieces(index, 100 * index + round).run(120);
      cases += 120;
    }
  RecordProperty("pieces", static_cast<int>(cases));
  EXPECT_GE(cases, 10000u);
}

} // namespace
} // namespace mbc::device::test
