#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mbc::compiler::test {

/// A shared object that exists in memory only. Its descriptor stays open: the
/// loader takes two objects of one path for the same.
class SharedObject {
public:
  explicit SharedObject(const std::string &bytes) {
    descriptor = memfd_create("kernels", MFD_CLOEXEC);
    if (descriptor < 0 || write(descriptor, bytes.data(), bytes.size()) !=
                              static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("cannot write the object to memory");
    std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      throw std::runtime_error(dlerror());
  }
  ~SharedObject() {
    dlclose(handle);
    close(descriptor);
  }
  SharedObject(const SharedObject &) = delete;

  void *symbol(const std::string &name) const {
    void *address = dlsym(handle, name.c_str());
    if (!address)
      throw std::runtime_error("no symbol " + name);
    return address;
  }

private:
  int descriptor;
  void *handle;
};

} // namespace mbc::compiler::test
