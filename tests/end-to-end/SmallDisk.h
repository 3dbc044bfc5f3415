#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <thread>

namespace mbc::test {

/// A file system in memory with room for so many bytes, mounted at a folder of
/// its own as long as the object lives. Only root may mount.
class SmallDisk {
public:
  SmallDisk(std::string path, uint64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk &) = delete;
  SmallDisk &operator=(const SmallDisk &) = delete;

  bool mounted() const { return mounted_; }
  uint64_t freeBytes() const;
  /// Makes a file `name` of all the room there is.
  void fill(const std::string &name) const;
  std::string operator/(const std::string &name) const {
    return path_ + "/" + name;
  }

private:
  std::string path_;
  bool mounted_ = false;
};

/// Holds every process that reads a file of a folder until `look` has returned,
/// as long as the object lives. `look` must not read such a file itself. Only
/// root may do so.
class HeldReads {
public:
  HeldReads(const std::string &directory, std::function<void()> look);
  ~HeldReads();
  HeldReads(const HeldReads &) = delete;
  HeldReads &operator=(const HeldReads &) = delete;

  bool holding() const { return events_ >= 0; }

private:
  void answer();

  std::function<void()> look_;
  int events_ = -1, end_[2] = {-1, -1};
  std::thread thread_;
};

} // namespace mbc::test
