#pragma once

#include <filesystem>
#include <string>

namespace mbc::test {

/// A fresh directory, removed with all it holds at the end. In memory
/// (/dev/shm) where there is one, so that fsync costs nothing.
class Scratch {
public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  std::string operator/(const std::string &name) const {
    return (path_ / name).string();
  }

private:
  std::filesystem::path path_;
};

/// The whole file; empty if it cannot be read.
std::string readText(const std::filesystem::path &path);
void writeText(const std::filesystem::path &path, const std::string &text);

/// Sets bytes of a file in place.
void overwrite(const std::filesystem::path &path, uint64_t offset,
               const std::string &bytes);

} // namespace mbc::test
