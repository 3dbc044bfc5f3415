/// Kernels over instance tables, as ratios to device copies in the same run.
/// usage: mbc-device-bench   (kernels/README.md has results)
#include "tests/device/DeviceCases.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <random>

namespace mbc::device::test {
namespace {

constexpr size_t gigabyte = size_t{1} << 30;
/// Sets of buffers are this large together, far above any cache.
constexpr size_t working = 4 * gigabyte;

/// One kind of work: a batch of pieces within a set of buffers.
struct Work {
  std::string name;
  DType from = DType::F8_E4M3, to = DType::BF16;
  int scale = static_cast<int>(DType::F32);
  int tensor = 0;   ///< what the tensor scale does, as in KernelCase
  size_t count = 1; ///< weights of rows x columns
  int64_t rows = 0, columns = 0, blockRows = 128, blockColumns = 128;
  /// The part of each weight that is taken: rows and columns from, count.
  int64_t row0 = 0, takenRows = 0, column0 = 0, takenColumns = 0;
  bool launchEach = false;

  int64_t takes(int64_t taken, int64_t all) const {
    return taken ? taken : all;
  }
};

class Bench {
public:
  Bench() : fixture_(Fixture::get()) {
    if (!fixture_.hasDevice)
      throw std::runtime_error(fixture_.whyNot);
    source_ = must(fixture_.device.allocate(working));
    target_ = must(fixture_.device.allocate(working));
    fillSource();
    fmt::print("{}, driver for CUDA {}.{}\n", fixture_.device.name(),
               fixture_.device.driver() / 1000,
               fixture_.device.driver() % 1000 / 10);
    large_ = copyRate(2 * gigabyte);
    fmt::print("copy of 2 GiB: {:.0f} GB/s read and written\n", large_ / 1e9);
    fmt::print("{:<58} {:>6} {:>8} {:>8}\n", "", "GB/s", "of 2 GiB",
               "of equal");
  }

  void run(const Work &work) {
    size_t kernel = find(work);
    const KernelCase &kind = fixture_.cases[kernel];
    KernelFormat format = kind.format();
    int64_t rows = work.takes(work.takenRows, work.rows);
    int64_t columns = work.takes(work.takenColumns, work.columns);
    size_t weight = work.rows * work.columns * format.sourceBits / 8;
    size_t blockColumns = ceilOf(work.columns, work.blockColumns);
    size_t scales =
        ceilOf(work.rows, work.blockRows) * blockColumns * format.scaleBytes;
    size_t one = up(weight) + up(scales);
    size_t out = up(rows * columns * format.targetBits / 8);
    size_t set = std::max(one, out) * work.count;
    size_t sets = std::max<size_t>(1, working / set);

    std::vector<DeviceBatch> batches;
    for (size_t index = 0; index != sets; ++index) {
      if (!work.launchEach)
        batches.emplace_back(format);
      for (size_t instance = 0; instance != work.count; ++instance) {
        if (work.launchEach)
          batches.emplace_back(format);
        uint64_t at =
            source_.address() + index * work.count * one + instance * one;
        DevicePiece piece;
        piece.source = at + (work.row0 * work.columns + work.column0) *
                                format.sourceBits / 8;
        piece.scales = at + up(weight);
        piece.target =
            target_.address() + (index * work.count + instance) * out;
        piece.geometry = {rows,
                          columns,
                          work.columns,
                          1,
                          columns,
                          1,
                          work.row0,
                          work.column0,
                          static_cast<int64_t>(blockColumns),
                          work.blockRows,
                          work.blockColumns,
                          0,
                          0.0123F};
        must(batches.back().add(piece));
      }
    }
    size_t bytes = rows * columns * (format.sourceBits + format.targetBits) /
                   8 * work.count;
    report(work.name, kernel, batches, sets, bytes);
  }

private:
  static size_t up(size_t bytes) { return (bytes + 255) / 256 * 256; }
  static size_t ceilOf(size_t a, size_t b) { return (a + b - 1) / b; }

  size_t find(const Work &work) const {
    for (size_t index = 0; index != fixture_.cases.size(); ++index) {
      const KernelCase &kind = fixture_.cases[index];
      if (kind.from == work.from && kind.to == work.to &&
          kind.scale == work.scale && !kind.exact && kind.added == 0 &&
          kind.factor == 1 && kind.tensor == work.tensor)
        return index;
    }
    throw std::runtime_error("no kernel for " + work.name);
  }

  void fillSource() {
    constexpr size_t part = size_t{1} << 26;
    DeviceMemory host = must(fixture_.device.pin(part));
    std::mt19937_64 random(7);
    for (size_t at = 0; at != part; at += 8) {
      uint64_t value = random();
      std::memcpy(host.host() + at, &value, 8);
    }
    for (size_t at = 0; at != working; at += part)
      must(fixture_.stream.upload(source_.address() + at, {host.host(), part}));
    must(fixture_.stream.wait());
  }

  /// Seconds of the fastest of some repetitions, after a first one.
  double best(const std::function<Result<void>()> &work) const {
    must(work());
    double least = 1e9;
    for (int round = 0; round != 7; ++round)
      least = std::min(least, must(fixture_.stream.time(work)));
    return least;
  }

  /// Bytes read and written a second by copies of `bytes`.
  double copyRate(size_t bytes) const {
    bytes = std::min(bytes / 256 * 256, working);
    size_t copies = working / bytes;
    double seconds = best([&]() -> Result<void> {
      for (size_t index = 0; index != copies; ++index)
        if (auto done =
                fixture_.stream.copy(target_.address() + index * bytes,
                                     source_.address() + index * bytes, bytes);
            !done)
          return done;
      return {};
    });
    return 2.0 * bytes * copies / seconds;
  }

  void report(const std::string &name, size_t kernel,
              const std::vector<DeviceBatch> &batches, size_t sets,
              size_t bytes) const {
    std::vector<Arena> tables;
    for (const DeviceBatch &batch : batches) {
      tables.emplace_back(fixture_.device,
                          DeviceKernels::tableBytes(batch) + 128);
      DeviceKernels::writeTables(batch, tables.back().host());
      tables.back().upload(fixture_.stream);
    }
    double seconds = best([&]() -> Result<void> {
      for (size_t index = 0; index != batches.size(); ++index)
        if (auto done =
                fixture_.gpu.launch(kernel, batches[index],
                                    tables[index].device(), fixture_.stream);
            !done)
          return done;
      return {};
    });
    double rate = static_cast<double>(bytes) * sets / seconds;
    double equal = copyRate(bytes / 2);
    fmt::print("{:<58} {:>6.0f} {:>8.3f} {:>8.3f}\n", name, rate / 1e9,
               rate / large_, rate / equal);
    std::fflush(stdout);
  }

  const Fixture &fixture_;
  DeviceMemory source_, target_;
  double large_ = 0;
};

void runAll() {
  Bench bench;
  const int e8m0 = static_cast<int>(DType::F8_E8M0);
  const int bf16 = static_cast<int>(DType::BF16);
  bench.run({.name = "FP8 128x128 to bf16: 7168 x 18432",
             .rows = 7168,
             .columns = 18432});
  bench.run({.name = "256 of 2048 x 7168, one launch",
             .count = 256,
             .rows = 2048,
             .columns = 7168});
  bench.run({.name = "row slices 256 x 7168 of 128 weights, odd first row",
             .count = 128,
             .rows = 2048,
             .columns = 7168,
             .row0 = 257,
             .takenRows = 256});
  bench.run({.name = "column slices 2048 x 896 of 128 weights",
             .count = 128,
             .rows = 2048,
             .columns = 7168,
             .column0 = 896,
             .takenColumns = 896});
  bench.run({.name = "eight row slices 2304 x 7168, one launch",
             .count = 8,
             .rows = 2304,
             .columns = 7168});
  bench.run({.name = "eight row slices 2304 x 7168, a launch each",
             .count = 8,
             .rows = 2304,
             .columns = 7168,
             .launchEach = true});
  bench.run({.name = "14848 small shards 32 x 2048, one launch",
             .count = 14848,
             .rows = 32,
             .columns = 2048,
             .blockRows = 128});
  bench.run({.name = "one of as many bytes: 475136 x 2048",
             .rows = 475136,
             .columns = 2048});
  bench.run({.name = "FP8 128x128 to f32: 64 of 2048 x 7168",
             .to = DType::F32,
             .count = 64,
             .rows = 2048,
             .columns = 7168});
  bench.run({.name = "FP8 rows (bf16 scales) to bf16: 64 of 2048 x 7168",
             .scale = bf16,
             .count = 64,
             .rows = 2048,
             .columns = 7168,
             .blockRows = 1,
             .blockColumns = 7168});
  bench.run({.name = "MXFP4 (32, UE8M0) to bf16: 64 of 5760 x 2880",
             .from = DType::F4_E2M1,
             .scale = e8m0,
             .count = 64,
             .rows = 5760,
             .columns = 2880,
             .blockRows = 1,
             .blockColumns = 32});
  for (int level : {1, 2})
    bench.run({.name = fmt::format("NVFP4 (16, E4M3 {} f32) to bf16: 64 of "
                                   "5760 x 2880",
                                   level == 1 ? "times" : "over"),
               .from = DType::F4_E2M1,
               .scale = static_cast<int>(DType::F8_E4M3),
               .tensor = level,
               .count = 64,
               .rows = 5760,
               .columns = 2880,
               .blockRows = 1,
               .blockColumns = 16});
  bench.run({.name = "INT4 (32, bf16) to bf16: 64 of 2048 x 7168",
             .from = DType::I4,
             .scale = bf16,
             .count = 64,
             .rows = 2048,
             .columns = 7168,
             .blockRows = 1,
             .blockColumns = 32});
  bench.run({.name = "f32 to bf16: 64 of 2048 x 7168",
             .from = DType::F32,
             .scale = -1,
             .count = 32,
             .rows = 2048,
             .columns = 7168});
  bench.run({.name = "bf16 to f32: 64 of 2048 x 7168",
             .from = DType::BF16,
             .to = DType::F32,
             .scale = -1,
             .count = 32,
             .rows = 2048,
             .columns = 7168});
  bench.run({.name = "bf16 to f16: 64 of 2048 x 7168",
             .from = DType::BF16,
             .to = DType::F16,
             .scale = -1,
             .count = 64,
             .rows = 2048,
             .columns = 7168});
  bench.run({.name = "FP8 of 2047 x 7161 (nothing aligned), 64",
             .count = 64,
             .rows = 2047,
             .columns = 7161});
}

} // namespace
} // namespace mbc::device::test

int main() {
  try {
    mbc::device::test::runAll();
  } catch (const std::exception &error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
