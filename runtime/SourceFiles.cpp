#include "runtime/SourceFiles.h"
#include "runtime/Plan.h"
#include "runtime/TorchArchive.h"

#include <cerrno>
#include <cstring>
#include <sys/resource.h>
#include <sys/stat.h>

namespace mbc {

SourceFiles::SourceFiles(const plan::Plan &plan, std::string directory)
    : plan_(plan), directory_(std::move(directory)),
      files_(length(plan.source_files())) {}

std::string SourceFiles::path(uint32_t file) const {
  return joinPath(directory_,
                  plan_.source_files()->Get(file)->path()->string_view());
}

Result<void> SourceFiles::checkHeader(uint32_t index) {
  const plan::SourceFile &file = *plan_.source_files()->Get(index);
  struct stat status{};
  if (stat(path(index).c_str(), &status) != 0)
    return fail("{}: {}; the plan reads this file: give its directory with "
                "--from",
                path(index), std::strerror(errno));
  uint64_t found = status.st_size;
  if (found != file.size())
    return fail("{}: {} bytes, but the plan was compiled for {}: complete "
                "the file, or compile the plan again",
                path(index), found, file.size());
  if (file.header() == 0)
    return {};
  std::vector<std::byte> header(file.header());
  if (Result<void> got = read(index, 0, header); !got)
    return got;
  if (crc32(0, header) != file.header_crc())
    return fail("{}: its first {} bytes are not those that the plan was "
                "compiled from: compile the plan again",
                path(index), file.header());
  return {};
}

Result<void> SourceFiles::checkHeaders() {
  for (uint32_t file = 0; file != files_.size(); ++file)
    if (Result<void> checked = checkHeader(file); !checked)
      return checked;
  return {};
}

Result<const InputFile *> SourceFiles::opened(uint32_t file) {
  std::lock_guard lock(opening_);
  if (!files_[file]) {
    Result<InputFile> input = InputFile::open(path(file));
    if (!input)
      return std::unexpected(input.error());
    files_[file].emplace(std::move(*input));
  }
  return &*files_[file];
}

Result<void> SourceFiles::read(uint32_t file, uint64_t offset,
                               std::span<std::byte> into) {
  Result<const InputFile *> input = opened(file);
  if (!input)
    return std::unexpected(input.error());
  return (*input)->readAt(offset, into);
}

void raiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace mbc
