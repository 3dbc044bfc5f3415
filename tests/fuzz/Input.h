#pragma once

#include "runtime/File.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

/// What libFuzzer calls for each input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace mbc::fuzz {

inline std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// The bytes as a file, for readers of files: one in memory, written anew.
inline InputFile fileOf(const uint8_t *data, size_t size) {
  static const int descriptor = memfd_create("input", 0);
  const auto length = static_cast<ssize_t>(size);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, data, size, 0) != length)
    std::abort();
  auto file = InputFile::open("/proc/self/fd/" + std::to_string(descriptor));
  if (!file)
    std::abort();
  return std::move(*file);
}

} // namespace mbc::fuzz
