#include "runtime/RunLock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace mbc {
namespace {

std::string ownName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}", getpid(), host.data());
}

std::string holder(int descriptor) {
  std::array<char, 300> text{};
  ssize_t count = pread(descriptor, text.data(), text.size(), 0);
  return count > 0 ? std::string(text.data(), count) : "another process";
}

} // namespace

Result<RunLock> RunLock::take(std::string path) {
  int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return fail("{}: cannot create: {}", path, std::strerror(errno));
  RunLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return fail("{}: {} is writing this target: wait for it, or choose "
                  "another directory",
                  path, holder(descriptor));
    return fail("{}: cannot lock: {}", path, std::strerror(errno));
  }
  std::string text = ownName();
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, text.data(), text.size(), 0) !=
          static_cast<ssize_t>(text.size()))
    return fail("{}: cannot write: {}", path, std::strerror(errno));
  return lock;
}

RunLock::RunLock(RunLock &&other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock::~RunLock() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

} // namespace mbc
