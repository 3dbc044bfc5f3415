#include "runtime/Checkpoint.h"

#include "runtime/File.h"
#include "runtime/HfDirectory.h"

#include <filesystem>

namespace mbc {

namespace fs = std::filesystem;

Result<Checkpoint> openCheckpoint(const std::string &directory) {
  if (!fs::is_directory(directory))
    return fail("{}: is not a directory", directory);
  return openHfDirectory(directory);
}

} // namespace mbc
