#include "runtime/DeviceDriver.h"

#include <dlfcn.h>

namespace mbc {

Result<std::shared_ptr<const DeviceDriver>>
DeviceDriver::load(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail("no GPU can be used, since NVIDIA's driver does not load: {}; "
                "install the driver, or leave out --device",
                dlerror());
  auto driver = std::make_shared<DeviceDriver>();
  driver->library =
      std::shared_ptr<void>(library, [](void *handle) { dlclose(handle); });
  const char *missing = nullptr;
  auto find = [&](const char *name, auto &function) {
    void *address = dlsym(library, name);
    if (!address)
      missing = name;
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define MBC_FIND(name) find(#name, driver->name)
  MBC_FIND(cuInit);
  MBC_FIND(cuDriverGetVersion);
  MBC_FIND(cuDeviceGetCount);
  MBC_FIND(cuDeviceGet);
  MBC_FIND(cuDeviceGetName);
  MBC_FIND(cuDeviceGetAttribute);
  MBC_FIND(cuDevicePrimaryCtxRetain);
  MBC_FIND(cuDevicePrimaryCtxRelease_v2);
  MBC_FIND(cuCtxSetCurrent);
  MBC_FIND(cuGetErrorString);
  MBC_FIND(cuMemGetInfo_v2);
  MBC_FIND(cuMemAlloc_v2);
  MBC_FIND(cuMemFree_v2);
  MBC_FIND(cuMemHostRegister_v2);
  MBC_FIND(cuMemHostUnregister);
  MBC_FIND(cuMemcpyHtoDAsync_v2);
  MBC_FIND(cuMemcpyDtoHAsync_v2);
  MBC_FIND(cuMemcpyDtoDAsync_v2);
  MBC_FIND(cuMemsetD8Async);
  MBC_FIND(cuStreamCreate);
  MBC_FIND(cuStreamDestroy_v2);
  MBC_FIND(cuEventCreate);
  MBC_FIND(cuEventDestroy_v2);
  MBC_FIND(cuEventRecord);
  MBC_FIND(cuEventSynchronize);
  MBC_FIND(cuEventElapsedTime);
  MBC_FIND(cuModuleLoadDataEx);
  MBC_FIND(cuModuleUnload);
  MBC_FIND(cuModuleGetFunction);
  MBC_FIND(cuLaunchKernel);
#undef MBC_FIND
  if (missing)
    return fail("the driver {} has no '{}': it is older than CUDA 11; update "
                "NVIDIA's driver, or leave out --device",
                path, missing);
  return driver;
}

std::string DeviceDriver::message(int code) const {
  const char *text = nullptr;
  if (cuGetErrorString(code, &text) != cuda::success || !text)
    return fmt::format("error {}", code);
  return fmt::format("{} (error {})", text, code);
}

} // namespace mbc
