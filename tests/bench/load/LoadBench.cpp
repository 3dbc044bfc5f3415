/// A rank's tensors loaded from files into a GPU's memory, beside what limits
/// it, in one run. Files are in the page cache, or on tmpfs.
/// usage: mbc-load-bench PLAN SOURCE [THREADS [MEMORY_IN_MIB [RUNS]]]
#include "runtime/File.h"
#include "runtime/Load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <span>
#include <thread>

namespace mbc::bench {
namespace {

constexpr size_t chunk = size_t{16} << 20;

template <typename T> T must(Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
  return std::move(*result);
}

void must(Result<void> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
}

double seconds(const std::function<void()> &work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// Bytes a second from pinned memory to the GPU, 2 GiB in one stream.
double uploadRate(const Device &device) {
  DeviceMemory host = must(device.pin(16 * chunk));
  DeviceMemory target = must(device.allocate(16 * chunk));
  DeviceStream stream = must(device.makeStream());
  std::memset(host.host(), 1, host.bytes());
  double took = must(stream.time([&]() -> Result<void> {
    for (int i = 0; i != 8; ++i)
      if (auto done =
              stream.upload(target.address(), {host.host(), host.bytes()});
          !done)
        return done;
    return {};
  }));
  return 8.0 * host.bytes() / took;
}

/// Bytes a second of plain reads of all files, by `threads`, each into one
/// pinned buffer: nothing is done with them.
double readRate(const Plan &plan, const std::string &source,
                const Device &device, unsigned threads) {
  struct Part {
    const InputFile *file;
    uint64_t offset, length;
  };
  std::vector<InputFile> files;
  for (const plan::SourceFile *file : *plan->source_files())
    files.push_back(
        must(InputFile::open(joinPath(source, file->path()->string_view()))));
  std::vector<Part> parts;
  uint64_t bytes = 0;
  for (const InputFile &file : files)
    for (uint64_t at = 0; at < file.size(); at += chunk) {
      parts.push_back({&file, at, std::min<uint64_t>(chunk, file.size() - at)});
      bytes += parts.back().length;
    }
  std::vector<DeviceMemory> buffers;
  for (unsigned i = 0; i != threads; ++i)
    buffers.push_back(must(device.pin(chunk)));
  std::atomic<size_t> next = 0;
  double took = seconds([&] {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i != threads; ++i)
      workers.emplace_back([&, i] {
        for (size_t part; (part = next++) < parts.size();)
          must(parts[part].file->readAt(
              parts[part].offset, {buffers[i].host(), parts[part].length}));
      });
  });
  return bytes / took;
}

/// Whether the GPU holds what the host gets.
void check(const Plan &plan, const std::string &source, const Device &device,
           const LoadedTensors &loaded) {
  LoadedTensors expected = must(load(plan, source, LoadOptions{}));
  DeviceStream stream = must(device.makeStream());
  std::vector<std::byte> bytes;
  for (size_t i = 0; i != expected.tensors.size(); ++i) {
    const LoadedTensor &tensor = expected.tensors[i];
    size_t size = byteSize(tensor.dtype);
    for (int64_t extent : tensor.shape)
      size *= extent;
    bytes.resize(size);
    must(stream.download(bytes, loaded.tensors[i].address));
    must(stream.wait());
    if (std::memcmp(bytes.data(), reinterpret_cast<void *>(tensor.address),
                    size) != 0)
      throw std::runtime_error(tensor.name + " differs from the host's");
  }
  fmt::print("{} tensors equal the host's\n", expected.tensors.size());
}

struct Arguments {
  std::string plan, source;
  unsigned threads = std::thread::hardware_concurrency();
  uint64_t memory = 512; ///< MiB
  int runs = 5;
};

Arguments parse(std::span<char *> words) {
  if (words.size() < 3)
    throw std::runtime_error("usage: mbc-load-bench PLAN SOURCE [THREADS "
                             "[MEMORY_IN_MIB [RUNS]]]");
  Arguments arguments{words[1], words[2]};
  if (words.size() > 3)
    arguments.threads = std::stoul(words[3]);
  if (words.size() > 4)
    arguments.memory = std::stoul(words[4]);
  if (words.size() > 5)
    arguments.runs = std::stoi(words[5]);
  return arguments;
}

void run(const Arguments &arguments) {
  const Plan plan = must(Plan::open(arguments.plan));
  const Device device = must(Device::open(0));
  LoadOptions options;
  options.device = 0;
  options.threads = arguments.threads;
  options.memory = arguments.memory << 20;
  fmt::print("{}, {} threads, {} MiB of buffers\n", device.name(),
             options.threads, arguments.memory);
  check(plan, arguments.source, device,
        must(load(plan, arguments.source, options)));
  fmt::print("GB/s: {:>6} {:>6} | {:>6} {:>7}, {:>7} {:>6}\n", "upload", "read",
             "load s", "read", "tensors", "ratio");
  for (int i = 0; i != arguments.runs; ++i) {
    const double upload = uploadRate(device);
    const double read =
        readRate(plan, arguments.source, device, options.threads);
    const LoadedTensors loaded = must(load(plan, arguments.source, options));
    const double rate = loaded.bytesRead / loaded.seconds;
    fmt::print("      {:>6.1f} {:>6.1f} | {:>6.3f} {:>7.1f}, {:>7.1f} "
               "{:>6.3f}\n",
               upload / 1e9, read / 1e9, loaded.seconds, rate / 1e9,
               loaded.bytes / loaded.seconds / 1e9,
               rate / std::min(upload, read));
  }
}

} // namespace
} // namespace mbc::bench

int main(int count, char **arguments) {
  try {
    using namespace mbc::bench;
    run(parse({arguments, static_cast<size_t>(count)}));
    return 0;
  } catch (const std::exception &exception) {
    fmt::print(stderr, "{}\n", exception.what());
    return 1;
  }
}
