#include "runtime/TorchArchive.h"
#include "tests/fuzz/Input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mbc;
  InputFile file = fuzz::fileOf(data, size);
  auto archive = TorchArchive::open(file, 0, size);
  if (!archive)
    return 0;
  (void)archive->pickle();
  if (auto entry = archive->find("data/0"))
    if (entry->size > size || entry->offset > size - entry->size)
      std::abort();
  return 0;
}
