#include "runtime/Device.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

namespace mbc {
namespace {

/// Settings of the fake driver, for as long as a test runs.
class DeviceErrors : public testing::Test {
protected:
  void set(const char *name, const char *value) { setenv(name, value, 1); }
  void TearDown() override {
    for (const char *name : {"MBC_FAKE_VERSION", "MBC_FAKE_DEVICES",
                             "MBC_FAKE_FAILS", "MBC_FAKE_CODE"})
      unsetenv(name);
  }
  static Result<Device> open(int ordinal = 0) {
    return Device::open(ordinal, MBC_FAKE_DRIVER);
  }
};

void expectMessage(const Error &error,
                   std::initializer_list<const char *> parts) {
  for (const char *part : parts)
    EXPECT_NE(error.message.find(part), std::string::npos)
        << "'" << part << "' is not in: " << error.message;
}

TEST_F(DeviceErrors, NoDriver) {
  Result<Device> device = Device::open(0, "libno-such-driver.so.1");
  ASSERT_FALSE(device);
  expectMessage(device.error(), {"no GPU can be used", "libno-such-driver.so.1",
                                 "install the driver", "--device"});
}

TEST_F(DeviceErrors, OldDriver) {
  set("MBC_FAKE_VERSION", "10020");
  Result<Device> device = open();
  ASSERT_FALSE(device);
  expectMessage(device.error(), {"CUDA 10.2", "11.0", "update"});
}

TEST_F(DeviceErrors, DriverWithoutGpu) {
  set("MBC_FAKE_DEVICES", "0");
  Result<Device> device = open();
  ASSERT_FALSE(device);
  expectMessage(device.error(), {"sees no GPU", "CUDA_VISIBLE_DEVICES"});
}

TEST_F(DeviceErrors, NumberOfAGpuThatIsNotThere) {
  Result<Device> device = open(3);
  ASSERT_FALSE(device);
  expectMessage(device.error(), {"GPU 3", "sees 1"});
}

TEST_F(DeviceErrors, OutOfMemoryNamesBothNumbers) {
  Result<Device> device = open();
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->capability(), 90u);
  set("MBC_FAKE_FAILS", "cuMemAlloc_v2");
  set("MBC_FAKE_CODE", "2");
  Result<DeviceMemory> memory = device->allocate(4096);
  ASSERT_FALSE(memory);
  expectMessage(memory.error(),
                {"Fake GPU", "4096", "5000", "1000", "--device-memory"});
}

TEST_F(DeviceErrors, PinnedMemoryThatIsNotThere) {
  Result<Device> device = open();
  ASSERT_TRUE(device);
  set("MBC_FAKE_FAILS", "cuMemHostRegister_v2");
  set("MBC_FAKE_CODE", "2");
  Result<DeviceMemory> memory = device->pin(4096);
  ASSERT_FALSE(memory);
  expectMessage(memory.error(), {"4096", "--memory"});
}

TEST_F(DeviceErrors, LostDevice) {
  Result<Device> device = open();
  ASSERT_TRUE(device);
  Result<DeviceStream> stream = device->makeStream();
  ASSERT_TRUE(stream);
  set("MBC_FAKE_FAILS", "cuEventSynchronize");
  set("MBC_FAKE_CODE", "719");
  Result<void> done = stream->wait();
  ASSERT_FALSE(done);
  expectMessage(done.error(), {"in its work", "719"});
}

TEST_F(DeviceErrors, KernelsThatTheDriverRefuses) {
  Result<Device> device = open();
  ASSERT_TRUE(device);
  set("MBC_FAKE_FAILS", "cuModuleLoadDataEx");
  Result<DeviceCode> code = device->compile("nonsense");
  ASSERT_FALSE(code);
  expectMessage(code.error(), {"does not compile", "no such instruction"});
}

TEST_F(DeviceErrors, BytesGoThereAndBack) {
  Result<Device> device = open();
  ASSERT_TRUE(device);
  Result<DeviceMemory> memory = device->allocate(64), host = device->pin(64);
  Result<DeviceStream> stream = device->makeStream();
  ASSERT_TRUE(memory && host && stream);
  std::array<std::byte, 64> bytes{};
  bytes[5] = std::byte{7};
  ASSERT_TRUE(stream->upload(memory->address(), bytes));
  ASSERT_TRUE(stream->download({host->host(), 64}, memory->address()));
  ASSERT_TRUE(stream->wait());
  EXPECT_EQ(host->host()[5], std::byte{7});
}

} // namespace
} // namespace mbc
