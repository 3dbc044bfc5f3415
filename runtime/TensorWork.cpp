#include "runtime/TensorWork.h"
#include "runtime/Comparisons.h"
#include "runtime/UnitGraph.h"

#include <algorithm>
#include <thread>

namespace mbc {
namespace {

/// Output bytes of a unit: large enough for whole reads, small enough that the
/// bytes are still in the cache when they are written (with 8 MiB a copy took
/// three times the processor time).
constexpr uint64_t unitBytes = 2 << 20;
/// With a GPU: large enough for its copies, small enough that few pinned bytes
/// serve all threads.
constexpr uint64_t deviceUnitBytes = 4 << 20;
constexpr uint64_t comparisonChunk = 1 << 20;

unsigned threadsOf(const WorkOptions &options) {
  return options.threads ? options.threads
                         : std::max(1u, std::thread::hardware_concurrency());
}

} // namespace

TensorWork::TensorWork(const plan::Plan &plan, const std::string &source,
                       const WorkOptions &options)
    : plan_(plan), options_(options), threads_(threadsOf(options)),
      limit_(tbb::global_control::max_allowed_parallelism, threads_),
      arena_(static_cast<int>(threads_)), sources_(plan, source) {}

Result<void> TensorWork::prepare() {
  raiseOpenFileLimit();
  if (Result<void> sizes = sources_.checkHeaders(); !sizes)
    return sizes;
  Result<Kernels> kernels = Kernels::load(plan_);
  if (!kernels)
    return std::unexpected(kernels.error());
  kernels_ = std::move(*kernels);
  if (Result<void> fits =
          holdWholeTensors(plan_, options_.memory, options_.device >= 0);
      !fits)
    return fits;
  if (options_.device < 0)
    return {};
  auto device =
      DeviceCompute::make(plan_, options_.device, options_.deviceMemory);
  if (!device)
    return std::unexpected(device.error());
  device_ = std::move(*device);
  return {};
}

Result<std::vector<std::string>> TensorWork::compare() {
  return arena_.execute(
      [&] { return compareSources(plan_, sources_, comparisonChunk); });
}

Result<void> TensorWork::move(BandSink &sink, bool crc,
                              std::vector<bool> wanted) {
  uint64_t most = options_.memory / (2 * threads_);
  // A unit and what it is made from have room on the device.
  uint64_t largest =
      device_ ? std::min(deviceUnitBytes, device_->memory() / 8) : unitBytes;
  Schedule schedule(
      plan_, std::clamp<uint64_t>(most, 1, std::max<uint64_t>(1, largest)),
      std::move(wanted));
  UnitGraph graph(
      schedule,
      {plan_, kernels_, sources_, sink, crc, device_.get(), options_.progress},
      options_.memory, threads_);
  Result<void> done = arena_.execute([&] { return graph.run(); });
  bytesRead_ = graph.bytesRead();
  anew_ = graph.quantizedAnew();
  return done;
}

} // namespace mbc
