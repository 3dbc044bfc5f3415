#include "runtime/PickleTree.h"
#include "runtime/TorchArchive.h"

#include <algorithm>
#include <cstring>

namespace mbc {
namespace {

/// Enough for the directory of an archive with one tensor, so that such an
/// archive needs two reads, and one if it is small.
constexpr uint64_t edgeBytes = 2048;
constexpr uint64_t maxEndDistance = 0xffff + 22 + 20 + 56;

uint64_t number(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, width);
  return value;
}

/// Replaces the 32-bit values that are all ones by those of the ZIP64 block.
bool applyZip64(std::string_view extra, uint64_t &size, uint64_t &stored,
                uint64_t &header) {
  while (extra.size() >= 4) {
    uint64_t id = number(extra, 0, 2), length = number(extra, 2, 2);
    if (length > extra.size() - 4)
      return false;
    std::string_view field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (id != 1)
      continue;
    for (uint64_t *value : {&size, &stored, &header}) {
      if (*value != 0xffffffff)
        continue;
      if (field.size() < 8)
        return false;
      *value = number(field, 0, 8);
      field.remove_prefix(8);
    }
    return true;
  }
  return true;
}

bool wanders(std::string_view name) {
  return name.starts_with('/') || name.starts_with("../") ||
         name.find("/../") != name.npos || name.ends_with("/..");
}

} // namespace

std::unexpected<Error> TorchArchive::broken(std::string_view what) const {
  return fail("{}: the torch archive at byte {} ({} bytes) {}", file_->path(),
              base_, length_, what);
}

Result<std::string> TorchArchive::bytesAt(uint64_t offset,
                                          uint64_t count) const {
  if (offset > length_ || count > length_ - offset)
    return broken(
        fmt::format("refers to {} bytes at {}, beyond its end", count, offset));
  if (offset + count <= head_.size())
    return head_.substr(offset, count);
  uint64_t tailStart = length_ - tail_.size();
  if (offset >= tailStart)
    return tail_.substr(offset - tailStart, count);
  return file_->readAt(base_ + offset, count);
}

Result<void> TorchArchive::readEdges() {
  bool small = length_ <= 2 * edgeBytes;
  auto head = file_->readAt(base_, small ? length_ : edgeBytes);
  if (!head)
    return std::unexpected(head.error());
  head_ = std::move(*head);
  if (small) {
    tail_ = head_;
  } else {
    auto tail = file_->readAt(base_ + length_ - edgeBytes, edgeBytes);
    if (!tail)
      return std::unexpected(tail.error());
    tail_ = std::move(*tail);
  }
  if (!head_.starts_with("PK\x03\x04"))
    return broken("does not begin with a ZIP entry");
  return {};
}

Result<TorchArchive::Directory> TorchArchive::findDirectory() {
  constexpr std::string_view endMark("PK\x05\x06", 4);
  size_t at = tail_.rfind(endMark);
  if (at == std::string::npos) {
    uint64_t count = std::min(length_, maxEndDistance);
    auto longer = file_->readAt(base_ + length_ - count, count);
    if (!longer)
      return std::unexpected(longer.error());
    tail_ = std::move(*longer);
    at = tail_.rfind(endMark);
  }
  if (at == std::string::npos || tail_.size() - at < 22)
    return broken("has no ZIP end record: it is truncated or no torch.save "
                  "file (files before PyTorch 1.6 are not read)");
  Directory directory{number(tail_, at + 16, 4), number(tail_, at + 12, 4),
                      number(tail_, at + 10, 2)};
  if (at < 20 ||
      tail_.compare(at - 20, 4, std::string_view("PK\x06\x07", 4)) != 0)
    return directory;
  auto end = bytesAt(number(tail_, at - 12, 8), 56);
  if (!end)
    return std::unexpected(end.error());
  if (!end->starts_with("PK\x06\x06"))
    return broken("has no ZIP64 end record where its locator points");
  return Directory{number(*end, 48, 8), number(*end, 40, 8),
                   number(*end, 32, 8)};
}

Result<void> TorchArchive::readDirectory(const Directory &directory) {
  if (directory.count > directory.size / 46)
    return broken(fmt::format("says it has {} entries in a directory of {} "
                              "bytes",
                              directory.count, directory.size));
  auto bytes = bytesAt(directory.offset, directory.size);
  if (!bytes)
    return std::unexpected(bytes.error());
  std::string_view rest = *bytes;
  std::string root;
  for (uint64_t i = 0; i != directory.count; ++i) {
    if (rest.size() < 46 || !rest.starts_with("PK\x01\x02"))
      return broken(fmt::format("has no directory record number {}", i));
    uint64_t flags = number(rest, 8, 2), method = number(rest, 10, 2);
    uint64_t stored = number(rest, 20, 4), size = number(rest, 24, 4);
    uint64_t nameLength = number(rest, 28, 2), extra = number(rest, 30, 2);
    uint64_t total = 46 + nameLength + extra + number(rest, 32, 2);
    uint64_t header = number(rest, 42, 4);
    if (total > rest.size())
      return broken(fmt::format("has a cut directory record number {}", i));
    std::string_view name = rest.substr(46, nameLength);
    if (!applyZip64(rest.substr(46 + nameLength, extra), size, stored, header))
      return broken(fmt::format("has a bad ZIP64 field in entry {}", name));
    rest.remove_prefix(total);
    if (wanders(name))
      return broken(fmt::format("has an entry outside its folder: {}", name));
    if (method != 0 || stored != size || (flags & 1) != 0)
      return broken(fmt::format("has a compressed or encrypted entry {}; save "
                                "it with torch.save",
                                name));
    if (i == 0)
      root = name.substr(0, name.find('/') + 1);
    if (!name.starts_with(root))
      return broken(
          fmt::format("has an entry {} outside the folder {}", name, root));
    if (header > length_ || size > length_)
      return broken(
          fmt::format("has an entry {} of {} bytes at {}", name, size, header));
    records_.push_back({std::string(name.substr(root.size())), header, size});
  }
  std::sort(records_.begin(), records_.end(),
            [](const Record &a, const Record &b) { return a.name < b.name; });
  auto twice = std::adjacent_find(
      records_.begin(), records_.end(),
      [](const Record &a, const Record &b) { return a.name == b.name; });
  if (twice != records_.end())
    return broken(fmt::format("has two entries {}", twice->name));
  return {};
}

Result<TorchArchive> TorchArchive::open(const InputFile &file, uint64_t base,
                                        uint64_t length) {
  if (base > file.size() || length > file.size() - base)
    return fail("{}: should hold an archive of {} bytes at {}, the file has {}",
                file.path(), length, base, file.size());
  TorchArchive archive(file, base, length);
  if (auto read = archive.readEdges(); !read)
    return std::unexpected(read.error());
  auto directory = archive.findDirectory();
  if (!directory)
    return std::unexpected(directory.error());
  if (auto read = archive.readDirectory(*directory); !read)
    return std::unexpected(read.error());
  if (auto order = archive.find("byteorder"); order) {
    auto text = archive.bytesAt(order->offset - base, order->size);
    if (text && *text != "little")
      return archive.broken(
          fmt::format("has byte order {}, only little is read", *text));
  }
  return archive;
}

Result<ArchiveEntry> TorchArchive::find(std::string_view name) const {
  auto record =
      std::lower_bound(records_.begin(), records_.end(), name,
                       [](const Record &record, std::string_view key) {
                         return record.name < key;
                       });
  if (record == records_.end() || record->name != name)
    return broken(fmt::format("has no entry {}", name));
  auto header = bytesAt(record->header, 30);
  if (!header)
    return std::unexpected(header.error());
  if (!header->starts_with("PK\x03\x04"))
    return broken(fmt::format("has no entry {} at {}", name, record->header));
  uint64_t data =
      record->header + 30 + number(*header, 26, 2) + number(*header, 28, 2);
  if (data > length_ || record->size > length_ - data)
    return broken(fmt::format("has an entry {} of {} bytes at {}", name,
                              record->size, data));
  return ArchiveEntry{record->name, base_ + data, record->size};
}

Result<std::string> TorchArchive::pickle() const {
  auto entry = find("data.pkl");
  if (!entry)
    return std::unexpected(entry.error());
  return bytesAt(entry->offset - base_, entry->size);
}

Result<PickleTree> TorchArchive::tree() const {
  Result<std::string> bytes = pickle();
  if (!bytes)
    return std::unexpected(bytes.error());
  return PickleTree::parse(std::move(*bytes), file_->path());
}

} // namespace mbc
