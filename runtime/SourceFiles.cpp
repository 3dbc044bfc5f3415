#include "runtime/SourceFiles.h"
#include "runtime/Plan.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mbc {

SourceFiles::SourceFiles(const plan::Plan &plan, std::string directory)
    : plan_(plan), directory_(std::move(directory)),
      descriptors_(length(plan.source_files()), -1) {}

SourceFiles::~SourceFiles() {
  for (int descriptor : descriptors_)
    if (descriptor >= 0)
      ::close(descriptor);
}

std::string SourceFiles::path(uint32_t file) const {
  return directory_ + "/" + plan_.source_files()->Get(file)->path()->str();
}

Result<void> SourceFiles::checkSizes() const {
  for (uint32_t file = 0; file != descriptors_.size(); ++file) {
    struct stat status {};
    if (stat(path(file).c_str(), &status) != 0)
      return fail("{}: {}; the plan reads this file: give its directory with "
                  "--from",
                  path(file), std::strerror(errno));
    uint64_t expected = plan_.source_files()->Get(file)->size();
    uint64_t found = status.st_size;
    if (found != expected)
      return fail("{}: {} bytes, but the plan was compiled for {}: complete "
                  "the file, or compile the plan again",
                  path(file), found, expected);
  }
  return {};
}

Result<int> SourceFiles::descriptor(uint32_t file) {
  std::lock_guard lock(opening_);
  int &descriptor = descriptors_[file];
  if (descriptor < 0)
    descriptor = ::open(path(file).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return fail("{}: cannot open: {}{}", path(file), std::strerror(errno),
                errno == EMFILE ? " (raise the limit with ulimit -n)" : "");
  return descriptor;
}

Result<void> SourceFiles::read(uint32_t file, uint64_t offset,
                               std::span<std::byte> into) {
  Result<int> from = descriptor(file);
  if (!from)
    return std::unexpected(from.error());
  size_t done = 0;
  while (done != into.size()) {
    ssize_t count = pread(*from, into.data() + done, into.size() - done,
                          static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return fail("{}: cannot read {} bytes at byte {}: {}", path(file),
                  into.size() - done, offset + done, std::strerror(errno));
    if (count == 0)
      return fail("{}: ends at byte {}, but bytes {} to {} are needed: the "
                  "file was cut short since the run began",
                  path(file), offset + done, offset, offset + into.size());
    done += count;
  }
  return {};
}

void raiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace mbc
