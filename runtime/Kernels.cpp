#include "runtime/Kernels.h"
#include "runtime/Plan.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mbc {
namespace {

Result<void> checkProcessor() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2"))
    return fail("the plan's kernels are for x86-64-v3 (AVX2, FMA, BMI2), which "
                "this processor lacks: run the plan on another machine");
  return {};
#else
  return fail("the plan's kernels are for x86-64: run it on such a machine");
#endif
}

Result<void> writeAll(int descriptor, const uint8_t *bytes, size_t count) {
  while (count != 0) {
    ssize_t written = ::write(descriptor, bytes, count);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return fail("the plan's kernels ({} bytes) do not fit into memory: {}",
                  count, std::strerror(errno));
    bytes += written;
    count -= written;
  }
  return {};
}

/// The loader wants a path: an anonymous file has one under /proc.
Result<void *> openObject(const flatbuffers::Vector<uint8_t> &bytes) {
  int descriptor = memfd_create("mbc-kernels", MFD_CLOEXEC);
  if (descriptor < 0)
    return fail("the plan's kernels need an anonymous file: {}",
                std::strerror(errno));
  Result<void> written = writeAll(descriptor, bytes.data(), bytes.size());
  void *handle = nullptr;
  if (written)
    handle = dlopen(fmt::format("/proc/self/fd/{}", descriptor).c_str(),
                    RTLD_NOW | RTLD_LOCAL);
  ::close(descriptor);
  if (!written)
    return std::unexpected(written.error());
  if (!handle)
    return fail("the plan's kernels do not load: {}", dlerror());
  return handle;
}

} // namespace

Result<Kernels> Kernels::load(const plan::Plan &plan) {
  Kernels kernels;
  if (length(plan.kernels()) == 0)
    return kernels;
  if (Result<void> processor = checkProcessor(); !processor)
    return std::unexpected(processor.error());
  if (length(plan.kernel_objects()) == 0)
    return fail("the plan names {} kernels and carries none: compile it again",
                plan.kernels()->size());
  Result<void *> handle = openObject(*plan.kernel_objects());
  if (!handle)
    return std::unexpected(handle.error());
  kernels.object_ = std::shared_ptr<void>(*handle, [](void *h) { dlclose(h); });
  for (const plan::Kernel *kernel : *plan.kernels()) {
    const char *symbol = kernel->symbol() ? kernel->symbol()->c_str() : "";
    void *address = dlsym(*handle, symbol);
    if (!address)
      return fail("the plan's kernels lack '{}': compile it again", symbol);
    kernels.functions_.push_back(reinterpret_cast<KernelFunction>(address));
  }
  return kernels;
}

} // namespace mbc
