/// A driver that fails as the environment asks: MBC_FAKE_VERSION, the CUDA
/// version it states, MBC_FAKE_DEVICES, how many GPUs it sees, and
/// MBC_FAKE_FAILS, the name of a function that fails with code
/// MBC_FAKE_CODE. Device memory is the host's.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int number(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

int outcome(const char *function) {
  const char *fails = std::getenv("MBC_FAKE_FAILS");
  if (fails && std::strcmp(fails, function) == 0)
    return number("MBC_FAKE_CODE", 999);
  return 0;
}

} // namespace

extern "C" {

using Handle = void *;
using Pointer = unsigned long long;

int cuInit(unsigned) { return outcome("cuInit"); }
int cuDriverGetVersion(int *version) {
  *version = number("MBC_FAKE_VERSION", 12040);
  return 0;
}
int cuDeviceGetCount(int *count) {
  *count = number("MBC_FAKE_DEVICES", 1);
  return 0;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char *name, int, int) {
  std::strcpy(name, "Fake GPU");
  return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(Handle *context, int) {
  static int made;
  *context = &made;
  return outcome("cuDevicePrimaryCtxRetain");
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(Handle) { return 0; }
int cuGetErrorString(int code, const char **text) {
  *text = code == 2 ? "out of memory" : "unknown error";
  return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = 1000;
  *total = 5000;
  return 0;
}
int cuMemAlloc_v2(Pointer *address, size_t bytes) {
  *address = reinterpret_cast<Pointer>(std::malloc(bytes));
  return outcome("cuMemAlloc_v2");
}
int cuMemFree_v2(Pointer address) {
  std::free(reinterpret_cast<void *>(address));
  return 0;
}
int cuMemHostRegister_v2(void *, size_t, unsigned) {
  return outcome("cuMemHostRegister_v2");
}
int cuMemHostUnregister(void *) { return 0; }
int cuMemcpyHtoDAsync_v2(Pointer target, const void *source, size_t bytes,
                         Handle) {
  std::memcpy(reinterpret_cast<void *>(target), source, bytes);
  return outcome("cuMemcpyHtoDAsync_v2");
}
int cuMemcpyDtoHAsync_v2(void *target, Pointer source, size_t bytes, Handle) {
  std::memcpy(target, reinterpret_cast<void *>(source), bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(Pointer target, Pointer source, size_t bytes, Handle) {
  std::memcpy(reinterpret_cast<void *>(target),
              reinterpret_cast<void *>(source), bytes);
  return 0;
}
int cuMemsetD8Async(Pointer target, unsigned char value, size_t bytes, Handle) {
  std::memset(reinterpret_cast<void *>(target), value, bytes);
  return 0;
}
int cuStreamCreate(Handle *stream, unsigned) {
  static int made;
  *stream = &made;
  return 0;
}
int cuStreamDestroy_v2(Handle) { return 0; }
int cuEventCreate(Handle *, unsigned) { return 0; }
int cuEventDestroy_v2(Handle) { return 0; }
int cuEventRecord(Handle, Handle) { return 0; }
int cuEventSynchronize(Handle) { return outcome("cuEventSynchronize"); }
int cuEventElapsedTime(float *milliseconds, Handle, Handle) {
  *milliseconds = 1;
  return 0;
}
int cuModuleLoadDataEx(Handle *module, const void *, unsigned, int *,
                       void **values) {
  static int made;
  *module = &made;
  int code = outcome("cuModuleLoadDataEx");
  if (code)
    std::strcpy(static_cast<char *>(values[0]), "line 1: no such instruction");
  return code;
}
int cuModuleUnload(Handle) { return 0; }
/// Kernels that do nothing.
int cuModuleGetFunction(Handle *function, Handle, const char *) {
  static int made;
  *function = &made;
  return 0;
}
int cuLaunchKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, unsigned, Handle, void **, void **) {
  return outcome("cuLaunchKernel");
}
}
