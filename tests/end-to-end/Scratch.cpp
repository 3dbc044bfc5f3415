#include "tests/end-to-end/Scratch.h"

#include <atomic>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace mbc::test {

namespace fs = std::filesystem;

Scratch::Scratch() {
  static std::atomic<int> count = 0;
  const fs::path base = access("/dev/shm", W_OK) == 0
                            ? fs::path("/dev/shm")
                            : fs::temp_directory_path();
  path_ = base / ("mbc-test-" + std::to_string(getpid()) + "-" +
                  std::to_string(count++));
  fs::remove_all(path_);
  fs::create_directories(path_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string readText(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void writeText(const fs::path &path, const std::string &text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void overwrite(const fs::path &path, uint64_t offset,
               const std::string &bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file << bytes;
}

} // namespace mbc::test
