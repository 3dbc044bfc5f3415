#include "tests/end-to-end/SmallDisk.h"

#include <array>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace mbc::test {

SmallDisk::SmallDisk(std::string path, uint64_t bytes)
    : path_(std::move(path)) {
  std::filesystem::create_directories(path_);
  const std::string size = "size=" + std::to_string(bytes);
  mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

SmallDisk::~SmallDisk() {
  if (mounted_)
    umount2(path_.c_str(), MNT_DETACH);
}

uint64_t SmallDisk::freeBytes() const {
  struct statvfs status{};
  statvfs(path_.c_str(), &status);
  return status.f_bavail * status.f_frsize;
}

void SmallDisk::fill(const std::string &name) const {
  const int file = open((*this / name).c_str(), O_WRONLY | O_CREAT, 0666);
  if (const uint64_t room = freeBytes(); room != 0)
    (void)posix_fallocate(file, 0, static_cast<off_t>(room));
  close(file);
}

HeldReads::HeldReads(const std::string &directory, std::function<void()> look)
    : look_(std::move(look)) {
  events_ = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);
  if (events_ < 0)
    return;
  if (pipe2(end_, O_CLOEXEC) != 0 ||
      fanotify_mark(events_, FAN_MARK_ADD, FAN_ACCESS_PERM | FAN_EVENT_ON_CHILD,
                    AT_FDCWD, directory.c_str()) != 0) {
    close(std::exchange(events_, -1));
    return;
  }
  thread_ = std::thread([this] {
    pollfd waiting[] = {{events_, POLLIN, 0}, {end_[0], POLLIN, 0}};
    while (poll(waiting, 2, -1) >= 0 && waiting[1].revents == 0)
      answer();
  });
}

void HeldReads::answer() {
  alignas(fanotify_event_metadata) std::array<char, 4096> block;
  ssize_t left = read(events_, block.data(), block.size());
  const auto *event =
      reinterpret_cast<const fanotify_event_metadata *>(block.data());
  for (; FAN_EVENT_OK(event, left); event = FAN_EVENT_NEXT(event, left)) {
    look_();
    const fanotify_response allowed{event->fd, FAN_ALLOW};
    (void)!write(events_, &allowed, sizeof allowed);
    close(event->fd);
  }
}

HeldReads::~HeldReads() {
  if (thread_.joinable()) {
    (void)!write(end_[1], "", 1);
    thread_.join();
  }
  for (int descriptor : {events_, end_[0], end_[1]})
    if (descriptor >= 0)
      close(descriptor); // lets go of whoever is still held
}

} // namespace mbc::test
