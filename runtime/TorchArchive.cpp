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

/// Builds the bytes around the storages and hands them over in runs.
template <typename Flush> class Framing {
public:
  explicit Framing(Flush flush) : flush_(std::move(flush)) {}

  /// An entry with its content.
  void file(std::string name, std::string_view content) {
    uint32_t crc = crc32(0, std::as_bytes(std::span(content)));
    Placed placed = begin(name, content.size());
    pending_ += content;
    finish(std::move(name), placed, crc);
  }

  /// An entry whose content somebody else writes.
  Result<void> storage(std::string name, uint64_t size, uint32_t crc) {
    Placed placed = begin(name, size);
    if (size != 0) {
      if (auto flushed = flush_(pendingStart_, pending_); !flushed)
        return flushed;
      pending_.clear();
      pendingStart_ = placed.data + size;
    }
    finish(std::move(name), placed, crc);
    return {};
  }

  Result<void> end();

private:
  static uint64_t flags(const Placed &placed) {
    return placed.size == 0 ? 0x0800 : 0x0808;
  }

  void zip64(const Placed &placed) {
    if (placed.zip64Bytes() == 0)
      return;
    put16(pending_, 1);
    put16(pending_, placed.zip64Bytes() - 4);
    if (placed.bigSize()) {
      put64(pending_, placed.size);
      put64(pending_, placed.size);
    }
    if (placed.bigHeader())
      put64(pending_, placed.header);
  }

  Placed begin(const std::string &name, uint64_t size) {
    Placed placed = place(pendingStart_ + pending_.size(), name.size(), size);
    uint64_t padding = placed.data - placed.header - 30 - name.size() -
                       placed.zip64Bytes() - 4;
    pending_.append("PK\x03\x04\0\0", 6);
    put16(pending_, flags(placed));
    pending_.append(18, '\0'); // method, time, date, crc, sizes
    put16(pending_, name.size());
    put16(pending_, placed.zip64Bytes() + 4 + padding);
    pending_ += name;
    zip64(placed);
    pending_ += "FB";
    put16(pending_, padding);
    pending_.append(padding, 'Z');
    return placed;
  }

  void finish(std::string name, const Placed &placed, uint32_t crc) {
    if (placed.size != 0) {
      pending_ += "PK\x07\x08";
      put32(pending_, crc);
      auto put = placed.descriptorBytes() == 24 ? put64 : put32;
      put(pending_, placed.size);
      put(pending_, placed.size);
    }
    records_.push_back({std::move(name), placed, crc});
  }

  void record(const std::string &name, const Placed &placed, uint32_t crc) {
    pending_.append("PK\x01\x02\0\0\0\0", 8);
    put16(pending_, flags(placed));
    pending_.append(6, '\0'); // method, time, date
    put32(pending_, crc);
    put32(pending_, std::min(placed.size, big));
    put32(pending_, std::min(placed.size, big));
    put16(pending_, name.size());
    put16(pending_, placed.zip64Bytes());
    pending_.append(10, '\0'); // comment, disk, attributes
    put32(pending_, std::min(placed.header, big));
    pending_ += name;
    zip64(placed);
  }

  struct Finished {
    std::string name;
    Placed placed;
    uint32_t crc;
  };

  Flush flush_;
  std::string pending_;
  uint64_t pendingStart_ = 0;
  std::vector<Finished> records_;
};

template <typename Flush> Result<void> Framing<Flush>::end() {
  uint64_t start = pendingStart_ + pending_.size();
  for (const Finished &finished : records_)
    record(finished.name, finished.placed, finished.crc);
  uint64_t size = pendingStart_ + pending_.size() - start;
  uint64_t count = records_.size();

  pending_ += "PK\x06\x06";
  put64(pending_, 44);
  pending_.append("\x1e\x03\x2d\0\0\0\0\0\0\0\0\0", 12);
  put64(pending_, count);
  put64(pending_, count);
  put64(pending_, size);
  put64(pending_, start);

  pending_.append("PK\x06\x07\0\0\0\0", 8);
  put64(pending_, start + size);
  put32(pending_, 1);

  pending_.append("PK\x05\x06\0\0\0\0", 8);
  put16(pending_, std::min<uint64_t>(count, 0xffff));
  put16(pending_, std::min<uint64_t>(count, 0xffff));
  put32(pending_, std::min(size, big));
  put32(pending_, std::min(start, big));
  put16(pending_, 0);
  return flush_(pendingStart_, pending_);
}

std::string nameIn(std::string_view root, std::string_view name) {
  return std::string(root).append(name);
}

template <typename Flush, typename Storages>
Result<void> frame(Flush flush, std::string_view root, std::string_view pickle,
                   Storages storages) {
  Framing<Flush> framing(std::move(flush));
  framing.file(nameIn(root, "/data.pkl"), pickle);
  for (const FixedEntry &entry : beforeStorages)
    framing.file(nameIn(root, entry.name), entry.content);
  if (auto written = storages(framing); !written)
    return written;
  for (const FixedEntry &entry : afterStorages)
    framing.file(nameIn(root, entry.name), entry.content);
  return framing.end();
}

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

Result<void> writeFraming(const OutputFile &file, uint64_t base,
                          std::string_view root, std::string_view pickle,
                          std::span<const uint64_t> storageSizes,
                          std::span<const uint32_t> crcs) {
  auto flush = [&](uint64_t offset, std::string_view bytes) {
    return file.writeAt(base + offset, bytes);
  };
  return frame(flush, root, pickle, [&](auto &framing) -> Result<void> {
    for (size_t i = 0; i != storageSizes.size(); ++i)
      if (auto written =
              framing.storage(nameIn(root, fmt::format("/data/{}", i)),
                              storageSizes[i], crcs[i]);
          !written)
        return written;
    return {};
  });
}

std::string archiveBytes(std::string_view root, std::string_view pickle,
                         std::span<const std::string_view> storages) {
  std::string bytes;
  auto flush = [&](uint64_t, std::string_view run) -> Result<void> {
    bytes += run;
    return {};
  };
  // The sink cannot fail.
  (void)frame(flush, root, pickle, [&](auto &framing) -> Result<void> {
    for (size_t i = 0; i != storages.size(); ++i)
      framing.file(nameIn(root, fmt::format("/data/{}", i)), storages[i]);
    return {};
  });
  return bytes;
}

} // namespace mbc
