#include "runtime/TorchArchive.h"

#include <array>
#include <cstring>

#include <libdeflate.h>
#include <zlib.h>

namespace mbc {
namespace {

constexpr uint64_t alignment = 64;
constexpr uint64_t big = 0xffffffff; ///< from here on a number needs ZIP64
constexpr uint64_t endBytes = 56 + 20 + 22;

struct FixedEntry {
  std::string_view name, content;
};
constexpr std::array<FixedEntry, 3> beforeStorages = {{
    {"/.format_version", "1"},
    {"/.storage_alignment", "64"},
    {"/byteorder", "little"},
}};
constexpr std::array<FixedEntry, 2> afterStorages = {{
    {"/version", "3\n"},
    {"/.data/serialization_id", "0000000000000000000000000000000000000000"},
}};

/// Where an entry's parts lie in the archive.
struct Placed {
  uint64_t header, data, size;
  size_t nameLength;

  bool bigSize() const { return size >= big; }
  bool bigHeader() const { return header >= big; }
  /// Bytes of the ZIP64 block, in the local header and in the directory alike.
  uint64_t zip64Bytes() const {
    uint64_t fields = (bigSize() ? 16 : 0) + (bigHeader() ? 8 : 0);
    return fields == 0 ? 0 : fields + 4;
  }
  uint64_t descriptorBytes() const {
    return size == 0 ? 0 : bigSize() || bigHeader() ? 24 : 16;
  }
  uint64_t end() const { return data + size + descriptorBytes(); }
  uint64_t recordBytes() const { return 46 + nameLength + zip64Bytes(); }
};

Placed place(uint64_t header, size_t nameLength, uint64_t size) {
  Placed placed{header, 0, size, nameLength};
  uint64_t unpadded = header + 30 + nameLength + placed.zip64Bytes() + 4;
  placed.data = (unpadded + alignment - 1) / alignment * alignment;
  return placed;
}

size_t decimalDigits(size_t number) {
  size_t digits = 1;
  for (; number >= 10; number /= 10)
    ++digits;
  return digits;
}

void put16(std::string &out, uint64_t value) {
  out.append(reinterpret_cast<const char *>(&value), 2);
}
void put32(std::string &out, uint64_t value) {
  out.append(reinterpret_cast<const char *>(&value), 4);
}
void put64(std::string &out, uint64_t value) {
  out.append(reinterpret_cast<const char *>(&value), 8);
}

/// Builds the bytes around the storages.
class Framing {
public:
  /// `base`: where the archive begins in its file.
  Framing(uint64_t base, std::string_view root)
      : base_(base), root_(root), runs_{{base, {}}} {}

  /// An entry with its content.
  void file(std::string_view name, std::string_view content) {
    uint32_t crc = crc32(0, std::as_bytes(std::span(content)));
    std::string full = inRoot(name);
    Placed placed = begin(full, content.size());
    run() += content;
    finish(std::move(full), placed, crc);
  }

  /// An entry whose content somebody else writes.
  void storage(std::string_view name, uint64_t size, uint32_t crc) {
    std::string full = inRoot(name);
    Placed placed = begin(full, size);
    if (size != 0)
      runs_.push_back({base_ + placed.data + size, {}});
    finish(std::move(full), placed, crc);
  }

  std::vector<FramingRun> end() &&;

private:
  static uint64_t flags(const Placed &placed) {
    return placed.size == 0 ? 0x0800 : 0x0808;
  }

  void zip64(const Placed &placed) {
    if (placed.zip64Bytes() == 0)
      return;
    put16(run(), 1);
    put16(run(), placed.zip64Bytes() - 4);
    if (placed.bigSize()) {
      put64(run(), placed.size);
      put64(run(), placed.size);
    }
    if (placed.bigHeader())
      put64(run(), placed.header);
  }

  Placed begin(const std::string &name, uint64_t size) {
    Placed placed = place(reached(), name.size(), size);
    uint64_t padding = placed.data - placed.header - 30 - name.size() -
                       placed.zip64Bytes() - 4;
    run().append("PK\x03\x04\0\0", 6);
    put16(run(), flags(placed));
    run().append(18, '\0'); // method, time, date, crc, sizes
    put16(run(), name.size());
    put16(run(), placed.zip64Bytes() + 4 + padding);
    run() += name;
    zip64(placed);
    run() += "FB";
    put16(run(), padding);
    run().append(padding, 'Z');
    return placed;
  }

  void finish(std::string name, const Placed &placed, uint32_t crc) {
    if (placed.size != 0) {
      run() += "PK\x07\x08";
      put32(run(), crc);
      auto put = placed.descriptorBytes() == 24 ? put64 : put32;
      put(run(), placed.size);
      put(run(), placed.size);
    }
    records_.push_back({std::move(name), placed, crc});
  }

  void record(const std::string &name, const Placed &placed, uint32_t crc) {
    run().append("PK\x01\x02\0\0\0\0", 8);
    put16(run(), flags(placed));
    run().append(6, '\0'); // method, time, date
    put32(run(), crc);
    put32(run(), std::min(placed.size, big));
    put32(run(), std::min(placed.size, big));
    put16(run(), name.size());
    put16(run(), placed.zip64Bytes());
    run().append(10, '\0'); // comment, disk, attributes
    put32(run(), std::min(placed.header, big));
    run() += name;
    zip64(placed);
  }

  std::string inRoot(std::string_view name) const {
    return std::string(root_).append(name);
  }
  std::string &run() { return runs_.back().bytes; }
  /// Bytes from the start of the archive to the end of the last run.
  uint64_t reached() const {
    return runs_.back().offset + runs_.back().bytes.size() - base_;
  }

  struct Finished {
    std::string name;
    Placed placed;
    uint32_t crc;
  };

  uint64_t base_;
  std::string_view root_;
  std::vector<FramingRun> runs_;
  std::vector<Finished> records_;
};

std::vector<FramingRun> Framing::end() && {
  uint64_t start = reached();
  for (const Finished &finished : records_)
    record(finished.name, finished.placed, finished.crc);
  uint64_t size = reached() - start;
  uint64_t count = records_.size();

  run() += "PK\x06\x06";
  put64(run(), 44);
  run().append("\x1e\x03\x2d\0\0\0\0\0\0\0\0\0", 12);
  put64(run(), count);
  put64(run(), count);
  put64(run(), size);
  put64(run(), start);

  run().append("PK\x06\x07\0\0\0\0", 8);
  put64(run(), start + size);
  put32(run(), 1);

  run().append("PK\x05\x06\0\0\0\0", 8);
  put16(run(), std::min<uint64_t>(count, 0xffff));
  put16(run(), std::min<uint64_t>(count, 0xffff));
  put32(run(), std::min(size, big));
  put32(run(), std::min(start, big));
  put16(run(), 0);
  return std::move(runs_);
}

/// An archive whose storages `storages` adds to the framing it is given.
template <typename Storages>
std::vector<FramingRun> frame(uint64_t base, std::string_view root,
                              std::string_view pickle, Storages storages) {
  Framing framing(base, root);
  framing.file("/data.pkl", pickle);
  for (const FixedEntry &entry : beforeStorages)
    framing.file(entry.name, entry.content);
  storages(framing);
  for (const FixedEntry &entry : afterStorages)
    framing.file(entry.name, entry.content);
  return std::move(framing).end();
}

std::string storageName(size_t index) { return fmt::format("/data/{}", index); }

} // namespace

uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes) {
  return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

uint32_t combineCrc32(uint32_t first, uint32_t second, uint64_t secondBytes) {
  return static_cast<uint32_t>(
      crc32_combine(first, second, static_cast<z_off_t>(secondBytes)));
}

ArchiveLayout layoutArchive(std::string_view root, uint64_t pickleBytes,
                            std::span<const uint64_t> storageSizes,
                            uint64_t base) {
  ArchiveLayout layout;
  layout.dataOffsets.reserve(storageSizes.size());
  uint64_t end = 0, directory = 0;
  auto add = [&](size_t nameLength, uint64_t size) {
    Placed placed = place(end, root.size() + nameLength, size);
    end = placed.end();
    directory += placed.recordBytes();
    return placed.data;
  };
  add(std::string_view("/data.pkl").size(), pickleBytes);
  for (const FixedEntry &entry : beforeStorages)
    add(entry.name.size(), entry.content.size());
  for (size_t i = 0; i != storageSizes.size(); ++i)
    layout.dataOffsets.push_back(
        base + add(std::string_view("/data/").size() + decimalDigits(i),
                   storageSizes[i]));
  for (const FixedEntry &entry : afterStorages)
    add(entry.name.size(), entry.content.size());
  layout.totalBytes = end + directory + endBytes;
  return layout;
}

std::vector<FramingRun> archiveFraming(uint64_t base, std::string_view root,
                                       std::string_view pickle,
                                       std::span<const uint64_t> storageSizes,
                                       std::span<const uint32_t> crcs) {
  return frame(base, root, pickle, [&](Framing &framing) {
    for (size_t i = 0; i != storageSizes.size(); ++i)
      framing.storage(storageName(i), storageSizes[i], crcs[i]);
  });
}

std::string archiveBytes(std::string_view root, std::string_view pickle,
                         std::span<const std::string_view> storages) {
  std::vector<FramingRun> runs = frame(0, root, pickle, [&](Framing &framing) {
    for (size_t i = 0; i != storages.size(); ++i)
      framing.file(storageName(i), storages[i]);
  });
  return std::move(runs.front().bytes); // nothing lies in between
}

} // namespace mbc
