#include "runtime/HfIndex.h"
#include "tests/fuzz/Input.h"

#include <algorithm>
#include <filesystem>

/// No file name of an index leaves the directory.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mbc;
  InputFile file = fuzz::fileOf(data, size);
  auto index = readHfIndex(file.path(), ".safetensors");
  if (!index)
    return 0;
  for (const std::string &name : index->files) {
    const std::filesystem::path path(name);
    if (path.is_absolute() || std::ranges::find(path, "..") != path.end())
      std::abort();
  }
  for (const HfIndex::Entry &entry : index->entries)
    if (entry.file >= index->files.size())
      std::abort();
  return 0;
}
