#include "tests/device/DeviceCases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace mbc::device::test {

KernelFormat KernelCase::format() const {
  return {
      static_cast<uint32_t>(bitSize(from)), static_cast<uint32_t>(bitSize(to)),
      scale < 0 ? 0
                : static_cast<uint32_t>(byteSize(static_cast<DType>(scale)))};
}

const Fixture &Fixture::get() {
  static const Fixture fixture;
  return fixture;
}

Fixture::Fixture() {
  auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() /
              "device-kernels.mbc";
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + path.string());
  bytes.assign(std::istreambuf_iterator<char>(file), {});
  plan = plan::GetPlan(bytes.data());
  for (size_t index = 0; index != plan->kernels()->size(); ++index) {
    KernelCase &kernel = cases.emplace_back();
    int from = 0, to = 0;
    std::istringstream note(plan->notes()->Get(index)->str());
    note >> from >> to >> kernel.scale >> kernel.exact >> kernel.added >>
        kernel.factor >> kernel.tensor;
    kernel.name = plan->kernels()->Get(index)->symbol()->str();
    kernel.from = static_cast<DType>(from);
    kernel.to = static_cast<DType>(to);
  }
  cpu = must(Kernels::load(*plan));
  Result<Device> opened = Device::open();
  if (!opened) {
    whyNot = opened.error().message;
    if (std::getenv("MBC_REQUIRE_DEVICE"))
      throw std::runtime_error(whyNot);
    return;
  }
  hasDevice = true;
  device = *opened;
  gpu = must(DeviceKernels::load(device, *plan));
  stream = must(device.makeStream());
}

Arena::Arena(const Device &device, size_t bytes)
    : host_(must(device.pin(bytes))), device_(must(device.allocate(bytes))) {}

void Arena::upload(const DeviceStream &stream) const {
  must(stream.upload(device(), {host(), host_.bytes()}));
}

void Arena::download(const DeviceStream &stream) const {
  must(stream.download({host(), host_.bytes()}, device()));
  must(stream.wait());
}

LostElement runBatch(const Fixture &fixture, size_t kernel,
                     const DeviceBatch &batch) {
  Arena tables(fixture.device, DeviceKernels::tableBytes(batch) + 128);
  DeviceKernels::writeTables(batch, tables.host());
  tables.upload(fixture.stream);
  must(fixture.gpu.launch(kernel, batch, tables.device(), fixture.stream));
  tables.download(fixture.stream);
  return DeviceKernels::lost(batch, tables.host());
}

} // namespace mbc::device::test
