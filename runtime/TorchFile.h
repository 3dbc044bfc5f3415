#pragma once

#include "runtime/DType.h"
#include "runtime/PickleTree.h"
#include "runtime/Shape.h"
#include "runtime/TorchArchive.h"

#include <string>
#include <string_view>
#include <vector>

namespace mbc {

/// A tensor in a file that torch.save wrote.
struct TorchTensor {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  uint64_t offset = 0; ///< of the data, in bytes from the start of the file
};

/// Where the tensor that a pickle describes lies. One that is not contiguous,
/// or longer than its storage, is an error that names file and tensor.
Result<TorchTensor> placeTensor(const TorchArchive &archive,
                                const PickleTree &tree, std::string_view name,
                                PickleValue value);

/// The tensors of a file that holds a state dict (`pytorch_model.bin`), by
/// their offsets. Several may share a storage.
Result<std::vector<TorchTensor>> readStateDict(const InputFile &file);

} // namespace mbc
