#include "runtime/Safetensors.h"
#include "tests/fuzz/Input.h"

/// A header's tensors lie inside the file, one after the other: what the reader
/// lets through may be read without another look.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mbc;
  InputFile file = fuzz::fileOf(data, size);
  SafetensorsReader reader;
  auto tensors = reader.read(file, 0);
  if (!tensors)
    return 0;
  uint64_t end = 0;
  for (const StoredTensor &tensor : *tensors) {
    uint64_t begin = tensor.pieces.front().offset;
    uint64_t bytes = static_cast<uint64_t>(tensor.shape->elements()) *
                     byteSize(tensor.dtype);
    if (begin < end || bytes > size || begin > size - bytes)
      std::abort();
    end = begin + bytes;
  }
  return 0;
}
