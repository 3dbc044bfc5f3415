#pragma once

#include "runtime/Result.h"

#include <cstddef>
#include <memory>
#include <string>

/// The part of NVIDIA's driver interface that is used, declared here: the build
/// needs no CUDA.
namespace mbc::cuda {

using Pointer = unsigned long long;
struct OpaqueContext;
struct OpaqueModule;
struct OpaqueFunction;
struct OpaqueStream;
struct OpaqueEvent;
using Context = OpaqueContext *;
using Module = OpaqueModule *;
using Function = OpaqueFunction *;
using Stream = OpaqueStream *;
using Event = OpaqueEvent *;

constexpr int success = 0, outOfMemory = 2, noDevice = 100;
constexpr int capabilityMajor = 75, capabilityMinor = 76; ///< attributes
constexpr unsigned portable = 1; ///< of pinned memory: for all contexts
/// Who waits for it sleeps; it takes no time.
constexpr unsigned sleepingEvent = 1 | 2;
constexpr int errorLog = 5, errorLogBytes = 6; ///< of compilation

} // namespace mbc::cuda

namespace mbc {

/// Functions of libcuda.so.1 under the names that they have there.
struct DeviceDriver {
  /// Loads the library; `path` is a name that the loader finds or a path.
  static Result<std::shared_ptr<const DeviceDriver>>
  load(const std::string &path);
  /// What a code means, in the driver's words.
  std::string message(int code) const;

  int (*cuInit)(unsigned flags);
  int (*cuDriverGetVersion)(int *version);
  int (*cuDeviceGetCount)(int *count);
  int (*cuDeviceGet)(int *device, int ordinal);
  int (*cuDeviceGetName)(char *name, int length, int device);
  int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
  int (*cuDevicePrimaryCtxRetain)(cuda::Context *context, int device);
  int (*cuDevicePrimaryCtxRelease_v2)(int device);
  int (*cuCtxSetCurrent)(cuda::Context context);
  int (*cuGetErrorString)(int code, const char **text);
  int (*cuMemGetInfo_v2)(size_t *free, size_t *total);
  int (*cuMemAlloc_v2)(cuda::Pointer *address, size_t bytes);
  int (*cuMemFree_v2)(cuda::Pointer address);
  int (*cuMemHostRegister_v2)(void *address, size_t bytes, unsigned flags);
  int (*cuMemHostUnregister)(void *address);
  int (*cuMemcpyHtoDAsync_v2)(cuda::Pointer target, const void *source,
                              size_t bytes, cuda::Stream stream);
  int (*cuMemcpyDtoHAsync_v2)(void *target, cuda::Pointer source, size_t bytes,
                              cuda::Stream stream);
  int (*cuMemcpyDtoDAsync_v2)(cuda::Pointer target, cuda::Pointer source,
                              size_t bytes, cuda::Stream stream);
  int (*cuMemsetD8Async)(cuda::Pointer target, unsigned char value,
                         size_t bytes, cuda::Stream stream);
  int (*cuStreamCreate)(cuda::Stream *stream, unsigned flags);
  int (*cuStreamDestroy_v2)(cuda::Stream stream);
  int (*cuEventCreate)(cuda::Event *event, unsigned flags);
  int (*cuEventDestroy_v2)(cuda::Event event);
  int (*cuEventRecord)(cuda::Event event, cuda::Stream stream);
  int (*cuEventSynchronize)(cuda::Event event);
  int (*cuEventElapsedTime)(float *milliseconds, cuda::Event from,
                            cuda::Event to);
  int (*cuModuleLoadDataEx)(cuda::Module *module, const void *image,
                            unsigned options, int *names, void **values);
  int (*cuModuleUnload)(cuda::Module module);
  int (*cuModuleGetFunction)(cuda::Function *function, cuda::Module module,
                             const char *name);
  int (*cuLaunchKernel)(cuda::Function function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned shared, cuda::Stream stream,
                        void **arguments, void **extra);

  std::shared_ptr<void> library; ///< handle of dlopen
};

} // namespace mbc
