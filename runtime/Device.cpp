#include "runtime/Device.h"

#include <array>
#include <sys/mman.h>

namespace mbc {
namespace {

/// PTX that no driver since then fails to read.
constexpr int oldestDriver = 11000;

std::unexpected<Error> failed(const DeviceDriver &driver, int code,
                              const char *what) {
  return fail("the GPU failed {}: {}", what, driver.message(code));
}

Result<int> firstDevice(const DeviceDriver &driver, int ordinal) {
  int count = 0;
  int code = driver.cuInit(0);
  if (code == cuda::success)
    code = driver.cuDeviceGetCount(&count);
  if (code == cuda::noDevice || (code == cuda::success && count == 0))
    return fail("the driver sees no GPU; see what nvidia-smi says, and whether "
                "CUDA_VISIBLE_DEVICES hides it");
  if (code != cuda::success)
    return failed(driver, code, "to start");
  if (ordinal >= count)
    return fail("GPU {} was asked for, the driver sees {}: the first is 0",
                ordinal, count);
  int device = 0;
  code = driver.cuDeviceGet(&device, ordinal);
  if (code != cuda::success)
    return failed(driver, code, "to open");
  return device;
}

} // namespace

Result<void> DeviceStream::check(int code, const char *what) const {
  if (code == cuda::success)
    return {};
  return failed(*driver_, code, what);
}

Result<void> DeviceStream::upload(uint64_t target,
                                  std::span<const std::byte> source) const {
  return check(
      driver_->cuMemcpyHtoDAsync_v2(target, source.data(), source.size(),
                                    static_cast<cuda::Stream>(stream_.get())),
      "to take an upload");
}

Result<void> DeviceStream::download(std::span<std::byte> target,
                                    uint64_t source) const {
  return check(
      driver_->cuMemcpyDtoHAsync_v2(target.data(), source, target.size(),
                                    static_cast<cuda::Stream>(stream_.get())),
      "to take a download");
}

Result<void> DeviceStream::copy(uint64_t target, uint64_t source,
                                size_t bytes) const {
  return check(
      driver_->cuMemcpyDtoDAsync_v2(target, source, bytes,
                                    static_cast<cuda::Stream>(stream_.get())),
      "to take a copy");
}

Result<void> DeviceStream::fill(uint64_t target, uint8_t value,
                                size_t bytes) const {
  return check(
      driver_->cuMemsetD8Async(target, value, bytes,
                               static_cast<cuda::Stream>(stream_.get())),
      "to take a fill");
}

Result<void> DeviceStream::launch(cuda::Function function, uint32_t blocks,
                                  uint32_t threads, void **arguments) const {
  return check(driver_->cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0,
                                       static_cast<cuda::Stream>(stream_.get()),
                                       arguments, nullptr),
               "to take a kernel");
}

/// By an event, as waiting for the stream itself takes a processor while it
/// waits.
Result<void> DeviceStream::wait() const {
  auto event = static_cast<cuda::Event>(event_.get());
  Result<void> done = check(
      driver_->cuEventRecord(event, static_cast<cuda::Stream>(stream_.get())),
      "to take an event");
  return done ? check(driver_->cuEventSynchronize(event), "in its work") : done;
}

Result<double>
DeviceStream::time(const std::function<Result<void>()> &work) const {
  auto stream = static_cast<cuda::Stream>(stream_.get());
  std::array<cuda::Event, 2> events{};
  std::array<std::shared_ptr<void>, 2> owners;
  for (size_t index = 0; index != events.size(); ++index) {
    if (int code = driver_->cuEventCreate(&events[index], 0))
      return failed(*driver_, code, "to make a clock");
    owners[index] = {
        static_cast<void *>(events[index]), [driver = driver_](void *event) {
          driver->cuEventDestroy_v2(static_cast<cuda::Event>(event));
        }};
  }
  driver_->cuEventRecord(events[0], stream);
  if (Result<void> done = work(); !done)
    return std::unexpected(done.error());
  driver_->cuEventRecord(events[1], stream);
  if (int code = driver_->cuEventSynchronize(events[1]))
    return failed(*driver_, code, "in its work");
  float milliseconds = 0;
  driver_->cuEventElapsedTime(&milliseconds, events[0], events[1]);
  return milliseconds / 1e3;
}

/// By the text, as a driver that is asked in vain counts it as an error.
bool DeviceCode::holds(const std::string &name) const {
  return ptx_.find(".entry " + name + "(") != std::string::npos;
}

cuda::Function DeviceCode::find(const std::string &name) const {
  cuda::Function function = nullptr;
  driver_->cuModuleGetFunction(
      &function, static_cast<cuda::Module>(module_.get()), name.c_str());
  return function;
}

Result<Device> Device::open(int ordinal, const std::string &library) {
  Device device;
  auto loaded = DeviceDriver::load(library);
  if (!loaded)
    return std::unexpected(loaded.error());
  const DeviceDriver &driver = **loaded;
  device.driver_ = *loaded;
  int version = 0;
  if (int code = driver.cuDriverGetVersion(&version))
    return failed(driver, code, "to say its driver's version");
  if (version < oldestDriver)
    return fail("the driver is for CUDA {}.{}, the kernels need {}.{} or "
                "later: update NVIDIA's driver, or leave out --device",
                version / 1000, version % 1000 / 10, oldestDriver / 1000,
                oldestDriver % 1000 / 10);
  device.version_ = version;
  Result<int> handle = firstDevice(driver, ordinal);
  if (!handle)
    return std::unexpected(handle.error());
  int major = 0, minor = 0;
  driver.cuDeviceGetAttribute(&major, cuda::capabilityMajor, *handle);
  driver.cuDeviceGetAttribute(&minor, cuda::capabilityMinor, *handle);
  device.capability_ = 10 * major + minor;
  std::array<char, 128> name{};
  driver.cuDeviceGetName(name.data(), name.size() - 1, *handle);
  device.name_ = name.data();
  cuda::Context context = nullptr;
  if (int code = driver.cuDevicePrimaryCtxRetain(&context, *handle))
    return failed(driver, code, "to give a context");
  device.context_ = {static_cast<void *>(context),
                     [owner = *loaded, number = *handle](void *) {
                       owner->cuDevicePrimaryCtxRelease_v2(number);
                     }};
  if (Result<void> entered = device.enter(); !entered)
    return std::unexpected(entered.error());
  return device;
}

Result<void> Device::enter() const {
  int code =
      driver_->cuCtxSetCurrent(static_cast<cuda::Context>(context_.get()));
  if (code != cuda::success)
    return failed(*driver_, code, "to give a thread its context");
  return {};
}

size_t Device::freeMemory() const {
  size_t free = 0, total = 0;
  driver_->cuMemGetInfo_v2(&free, &total);
  return free;
}

Result<DeviceMemory> Device::allocate(size_t bytes) const {
  cuda::Pointer address = 0;
  int code = driver_->cuMemAlloc_v2(&address, bytes);
  if (code == cuda::outOfMemory) {
    size_t free = 0, total = 0;
    driver_->cuMemGetInfo_v2(&free, &total);
    return fail("{}: {} bytes do not fit into its memory, of whose {} bytes {} "
                "are free: give less --device-memory, or end what else uses "
                "the GPU",
                name_, bytes, total, free);
  }
  if (code != cuda::success)
    return failed(*driver_, code, "to give memory");
  DeviceMemory memory;
  memory.address_ = address;
  memory.bytes_ = bytes;
  memory.owner_ = {reinterpret_cast<void *>(address),
                   [driver = driver_, context = context_](void *block) {
                     driver->cuMemFree_v2(
                         reinterpret_cast<cuda::Pointer>(block));
                   }};
  return memory;
}

/// Large pages, all there before they are pinned: the driver's own allocation
/// takes them one by one, which took three times as long.
Result<DeviceMemory> Device::pin(size_t bytes) const {
  constexpr size_t page = size_t{2} << 20;
  const size_t size = (bytes + page - 1) / page * page;
  // Of a mapping that is one page longer, the part that begins at one.
  void *mapping = mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return fail("{} bytes of host memory cannot be pinned for the GPU: give "
                "less --memory",
                bytes);
  auto first = reinterpret_cast<uintptr_t>(mapping);
  void *address = reinterpret_cast<void *>((first + page - 1) / page * page);
  std::shared_ptr<void> mapped(
      mapping, [size](void *begin) { munmap(begin, size + page); });
  madvise(address, size, MADV_HUGEPAGE);
  madvise(address, size, MADV_POPULATE_WRITE); // else the driver does it
  int code = driver_->cuMemHostRegister_v2(address, size, cuda::portable);
  if (code == cuda::outOfMemory)
    return fail("{} bytes of host memory cannot be pinned for the GPU: give "
                "less --memory",
                bytes);
  if (code != cuda::success)
    return failed(*driver_, code, "to pin host memory");
  DeviceMemory memory;
  memory.address_ = reinterpret_cast<uintptr_t>(address);
  memory.bytes_ = bytes;
  memory.owner_ = {address,
                   [driver = driver_, context = context_, mapped](void *block) {
                     driver->cuMemHostUnregister(block);
                   }};
  return memory;
}

Result<DeviceStream> Device::makeStream() const {
  constexpr unsigned nonBlocking = 1;
  cuda::Stream made = nullptr;
  if (int code = driver_->cuStreamCreate(&made, nonBlocking))
    return failed(*driver_, code, "to make a stream");
  DeviceStream stream;
  stream.driver_ = driver_;
  stream.stream_ = {static_cast<void *>(made),
                    [driver = driver_, context = context_](void *handle) {
                      driver->cuStreamDestroy_v2(
                          static_cast<cuda::Stream>(handle));
                    }};
  cuda::Event event = nullptr;
  if (int code = driver_->cuEventCreate(&event, cuda::sleepingEvent))
    return failed(*driver_, code, "to make an event");
  stream.event_ = {static_cast<void *>(event),
                   [driver = driver_, context = context_](void *handle) {
                     driver->cuEventDestroy_v2(
                         static_cast<cuda::Event>(handle));
                   }};
  return stream;
}

Result<DeviceCode> Device::compile(const std::string &ptx) const {
  std::array<char, 4096> log{};
  std::array<int, 2> names = {cuda::errorLog, cuda::errorLogBytes};
  std::array<void *, 2> values = {log.data(),
                                  reinterpret_cast<void *>(log.size() - 1)};
  cuda::Module made = nullptr;
  int code = driver_->cuModuleLoadDataEx(&made, ptx.c_str(), names.size(),
                                         names.data(), values.data());
  if (code != cuda::success)
    return fail("the driver does not compile the plan's kernels: {}; {}",
                driver_->message(code), log.data());
  DeviceCode compiled;
  compiled.driver_ = driver_;
  compiled.ptx_ = ptx;
  compiled.module_ = {static_cast<void *>(made),
                      [driver = driver_, context = context_](void *handle) {
                        driver->cuModuleUnload(
                            static_cast<cuda::Module>(handle));
                      }};
  return compiled;
}

} // namespace mbc
