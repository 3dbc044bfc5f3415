#include "runtime/File.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mbc {
namespace {

/// Linux moves at most 0x7ffff000 bytes in one call.
constexpr size_t maxTransfer = size_t{1} << 30;

std::unexpected<Error> systemError(std::string_view what,
                                   std::string_view path) {
  return fail("{}: {}: {}", path, what, std::strerror(errno));
}

Result<void> syncDescriptor(int descriptor, std::string_view path) {
  // Some file systems cannot sync a directory; they need no such call.
  if (::fsync(descriptor) != 0 && errno != EINVAL)
    return systemError("cannot sync", path);
  return {};
}

} // namespace

Result<InputFile> InputFile::open(std::string path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return systemError("cannot open", path);
  InputFile file(std::move(path), descriptor, 0);
  struct stat status{};
  if (::fstat(descriptor, &status) != 0)
    return systemError("cannot read the size", file.path_);
  if (!S_ISREG(status.st_mode))
    return fail("{}: is not a regular file", file.path_);
  file.size_ = static_cast<uint64_t>(status.st_size);
  return file;
}

Result<void> InputFile::readAt(uint64_t offset,
                               std::span<std::byte> into) const {
  if (offset > size_ || into.size() > size_ - offset)
    return fail("{}: bytes {} to {} were asked for, the file has {}", path_,
                offset, offset + into.size(), size_);
  size_t done = 0;
  while (done < into.size()) {
    ssize_t count = ::pread(descriptor_, into.data() + done,
                            std::min(into.size() - done, maxTransfer),
                            static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(fmt::format("cannot read at byte {}", offset + done),
                         path_);
    if (count == 0)
      return fail("{}: ended at byte {} while it was read, it had {}", path_,
                  offset + done, size_);
    done += static_cast<size_t>(count);
  }
  return {};
}

Result<std::string> InputFile::readAt(uint64_t offset, uint64_t count,
                                      uint64_t spare) const {
  if (offset > size_ || count > size_ - offset)
    return fail("{}: {} bytes at {} were asked for, the file has {}", path_,
                count, offset, size_);
  std::string bytes;
  bytes.reserve(count + spare);
  bytes.resize(count);
  if (auto read = readAt(offset, std::as_writable_bytes(std::span(bytes)));
      !read)
    return std::unexpected(read.error());
  return bytes;
}

InputFile::InputFile(InputFile &&other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Result<OutputFile> OutputFile::create(std::string path) {
  int descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return systemError("cannot create", path);
  return OutputFile(std::move(path), descriptor);
}

Result<void> OutputFile::writeAt(uint64_t offset,
                                 std::span<const std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = ::pwrite(descriptor_, bytes.data() + done,
                             std::min(bytes.size() - done, bestWrite),
                             static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return systemError(fmt::format("cannot write {} bytes at byte {}",
                                     bytes.size() - done, offset + done),
                         path_);
    done += static_cast<size_t>(count);
  }
  return {};
}

Result<void> OutputFile::writeAt(uint64_t offset,
                                 std::string_view bytes) const {
  return writeAt(offset, std::as_bytes(std::span(bytes)));
}

Result<void> OutputFile::preallocate(uint64_t size) const {
  if (size == 0)
    return {};
  int status;
  do
    status = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(size));
  while (status != 0 && errno == EINTR);
  if (status == 0)
    return {};
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    return systemError(fmt::format("cannot reserve {} bytes", size), path_);
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
    return systemError(fmt::format("cannot set the size to {} bytes", size),
                       path_);
  return {};
}

void OutputFile::startWriteBack() const {
  // An error of the device stays with the file; `sync` reports it.
  (void)::sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
}

Result<void> OutputFile::sync() const {
  return syncDescriptor(descriptor_, path_);
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Result<std::string> readWholeFile(const std::string &path, uint64_t limit,
                                  uint64_t spare) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return std::unexpected(file.error());
  if (file->size() > limit)
    return fail("{}: has {} bytes, the limit for such a file is {}", path,
                file->size(), limit);
  return file->readAt(0, file->size(), spare);
}

Result<void> writeWholeFile(const std::string &path, std::string_view bytes) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file)
    return std::unexpected(file.error());
  if (auto written = file->writeAt(0, bytes); !written)
    return written;
  return file->sync();
}

Result<void> syncDirectory(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return systemError("cannot open", path);
  Result<void> synced = syncDescriptor(descriptor, path);
  ::close(descriptor);
  return synced;
}

Result<void> renamePath(const std::string &from, const std::string &to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return fail("{}: cannot rename to {}: {}", from, to, std::strerror(errno));
  return {};
}

std::string joinPath(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/')
    path += '/';
  return path.append(name);
}

} // namespace mbc
