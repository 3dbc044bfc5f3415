#include "runtime/CompilerLibrary.h"

#include <dlfcn.h>

namespace mbc {

Result<const mbc_compiler *> compilerLibrary() {
  static const mbc_compiler *table = nullptr;
  if (table)
    return table;
  void *handle = dlopen("libmbc-compiler.so", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return fail("this command needs the compiler, and it does not load: {}. "
                "Install package mbc-compiler, or build with "
                "-DMBC_BUILD_COMPILER=ON; 'mbc run' and 'mbc ls' work without "
                "it",
                dlerror());
  auto entry = reinterpret_cast<decltype(&mbc_compiler_table)>(
      dlsym(handle, "mbc_compiler_table"));
  const mbc_compiler *found = entry ? entry() : nullptr;
  if (!found || found->abi != MBC_COMPILER_ABI)
    return fail("libmbc-compiler.so speaks interface {}, this mbc speaks {}: "
                "install both from one release",
                found ? found->abi : 0, MBC_COMPILER_ABI);
  return table = found;
}

mbc_sink streamSink(FILE *stream) {
  return {[](void *context, const char *bytes, size_t count) {
            std::fwrite(bytes, 1, count, static_cast<FILE *>(context));
          },
          stream};
}

mbc_sink bytesSink(std::vector<uint8_t> &bytes) {
  return {[](void *context, const char *begin, size_t count) {
            auto *into = static_cast<std::vector<uint8_t> *>(context);
            into->insert(into->end(), begin, begin + count);
          },
          &bytes};
}

} // namespace mbc
