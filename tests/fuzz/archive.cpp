#include "runtime/TorchArchive.h"
#include "runtime/TorchFile.h"
#include "tests/fuzz/Input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mbc;
  InputFile file = fuzz::fileOf(data, size);
  // Either container of torch.save: what is read lies inside the file.
  if (auto tensors = readStateDict(file))
    for (const TorchTensor &tensor : *tensors) {
      const uint64_t bytes = static_cast<uint64_t>(tensor.shape.elements()) *
                             byteSize(tensor.dtype);
      if (bytes > size || tensor.offset > size - bytes)
        std::abort();
    }
  auto archive = TorchArchive::open(file, 0, size);
  if (!archive)
    return 0;
  (void)archive->pickle();
  if (auto entry = archive->find("data/0"))
    if (entry->size > size || entry->offset > size - entry->size)
      std::abort();
  return 0;
}
