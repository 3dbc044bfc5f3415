#include "runtime/TargetFiles.h"
#include "runtime/Plan.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <sys/statvfs.h>
#include <sys/uio.h>

namespace mbc {
namespace {

/// Bytes of a file after which the device is told to begin: many enough for
/// long transfers, few enough that the last `sync` is short.
constexpr uint64_t writeBackBytes = 32 << 20;

} // namespace

Result<uint64_t> freeBytes(const std::string &path) {
  struct statvfs status{};
  if (statvfs(path.c_str(), &status) != 0)
    return fail("{}: cannot tell how much space is free: {}", path,
                std::strerror(errno));
  return uint64_t{status.f_bavail} * status.f_frsize;
}

TargetFiles::TargetFiles(const plan::Plan &plan, std::string directory,
                         std::string object, bool sync)
    : plan_(plan), directory_(std::move(directory)), object_(std::move(object)),
      sync_(sync), states_(length(plan.files())) {
  for (std::unique_ptr<State> &state : states_)
    state = std::make_unique<State>();
  for (size_t item = 0; item != length(plan.items()); ++item)
    ++states_[plan.items()->Get(item)->file()]->items;
  for (size_t index = 0; index != length(plan.object_files()); ++index)
    ++states_[plan.object_files()->Get(index)]->objects;
}

Result<void> TargetFiles::create(uint32_t file, State &state) {
  const plan::TargetFile &row = *plan_.files()->Get(file);
  std::string path = joinPath(directory_, row.path()->string_view());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  if (error)
    return fail("{}: cannot create its directory: {}", path, error.message());
  Result<OutputFile> output = OutputFile::create(path);
  if (!output)
    return std::unexpected(output.error());
  if (Result<void> space = output->preallocate(row.size()); !space) {
    Result<uint64_t> available = freeBytes(directory_);
    return fail("{} (the file needs {} bytes, {} are free)",
                space.error().message, row.size(), available.value_or(0));
  }
  if (length(row.literal()) != 0) {
    std::span literal(
        reinterpret_cast<const std::byte *>(row.literal()->data()),
        row.literal()->size());
    // A rank file's literal is its pickle, whose place its framing knows.
    if (plan_.format() != plan::TargetFormat_TorchRanks || row.plain())
      if (Result<void> written = output->writeAt(0, literal); !written)
        return written;
  }
  if (Result<void> written = writeObjects(*output, state.objects); !written)
    return written;
  state.output.emplace(std::move(*output));
  return {};
}

/// `count` byte objects one after the other; a layer or expert has a few each.
Result<void> TargetFiles::writeObjects(const OutputFile &output,
                                       uint64_t count) const {
  uint64_t together = std::min<uint64_t>(
      count, 1 + bestWrite / std::max<size_t>(1, object_.size()));
  std::string block;
  for (uint64_t object = 0; object != together; ++object)
    block += object_;
  for (uint64_t first = 0; first < count; first += together) {
    uint64_t bytes = std::min(together, count - first) * object_.size();
    if (Result<void> written = output.writeAt(
            first * object_.size(), std::string_view(block).substr(0, bytes));
        !written)
      return written;
  }
  return {};
}

Result<const OutputFile *> TargetFiles::opened(uint32_t file) {
  State &state = *states_[file];
  std::lock_guard lock(state.opening);
  if (!state.output)
    if (Result<void> created = create(file, state); !created)
      return std::unexpected(created.error());
  return &*state.output;
}

Result<void> TargetFiles::writeRun(const OutputFile &output,
                                   std::span<const Piece> run) {
  if (run.size() > 1) {
    std::vector<iovec> parts;
    size_t total = 0;
    for (const Piece &piece : run) {
      parts.push_back(
          {const_cast<std::byte *>(piece.bytes.data()), piece.bytes.size()});
      total += piece.bytes.size();
    }
    ssize_t count = pwritev(output.descriptor(), parts.data(),
                            static_cast<int>(parts.size()),
                            static_cast<off_t>(run.front().offset));
    if (count == static_cast<ssize_t>(total))
      return {};
  }
  // One piece, or a short write: piece by piece, with the errors of writeAt.
  for (const Piece &piece : run)
    if (Result<void> done = output.writeAt(piece.offset, piece.bytes); !done) {
      Result<uint64_t> available = freeBytes(directory_);
      return fail("{} ({} bytes to write at byte {}, {} bytes free on its file "
                  "system)",
                  done.error().message, piece.bytes.size(), piece.offset,
                  available.value_or(0));
    }
  return {};
}

void TargetFiles::startWriteBack(State &state, uint64_t written) {
  if (!sync_ || (state.buffered += written) < writeBackBytes)
    return;
  state.buffered = 0;
  state.output->startWriteBack();
}

Result<void> TargetFiles::write(uint32_t file, std::span<const Piece> pieces) {
  Result<const OutputFile *> output = opened(file);
  if (!output)
    return std::unexpected(output.error());
  std::unique_lock writing(states_[file]->writing);
  uint64_t written = 0;
  for (size_t first = 0; first != pieces.size();) {
    size_t end = first + 1;
    uint64_t reached = pieces[first].offset + pieces[first].bytes.size();
    while (end != pieces.size() && end - first < IOV_MAX &&
           pieces[end].offset == reached &&
           reached + pieces[end].bytes.size() - pieces[first].offset <=
               bestWrite) {
      reached += pieces[end].bytes.size();
      ++end;
    }
    if (Result<void> done =
            writeRun(**output, pieces.subspan(first, end - first));
        !done)
      return done;
    written += reached - pieces[first].offset;
    first = end;
  }
  writing.unlock();
  startWriteBack(*states_[file], written);
  return {};
}

bool TargetFiles::itemDone(uint32_t file) {
  return states_[file]->items.fetch_sub(1) == 1;
}

Result<void> TargetFiles::close(uint32_t file) {
  Result<const OutputFile *> output = opened(file);
  if (!output)
    return std::unexpected(output.error());
  if (sync_)
    if (Result<void> synced = (*output)->sync(); !synced)
      return synced;
  State &state = *states_[file];
  std::lock_guard lock(state.opening);
  state.output.reset();
  return {};
}

Result<void> TargetFiles::writeEmptyFiles() {
  for (uint32_t file = 0; file != states_.size(); ++file)
    if (states_[file]->items == 0)
      if (Result<void> closed = close(file); !closed)
        return closed;
  return {};
}

} // namespace mbc
