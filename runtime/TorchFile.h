#pragma once

#include "runtime/DType.h"
#include "runtime/PickleTree.h"
#include "runtime/Shape.h"
#include "runtime/TorchArchive.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mbc {

/// A tensor in a file that torch.save wrote.
struct TorchTensor {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  Shape order;         ///< as in PickledTensor
  uint64_t offset = 0; ///< of the data, in bytes from the start of the file
};

/// A file that torch.save wrote: a pickle and the storages that it names, in an
/// archive or, before PyTorch 1.6, one after the other:
///
///   magic | protocol 1001 | system | pickle | keys | count data | count data
///   ..
///
/// The first five are pickles; a count is a little-endian int64, in elements.
class TorchFile {
public:
  static Result<TorchFile> open(const InputFile &file);

  const PickleTree &tree() const { return tree_; }
  /// Where the tensor that a value of the tree describes lies. One that is
  /// longer than its storage is an error that names file and tensor.
  Result<TorchTensor> tensor(std::string_view name, PickleValue value) const;

private:
  /// Offsets and sizes are in bytes of the file.
  struct Storage {
    uint64_t offset = 0, size = 0;
  };

  TorchFile(const InputFile &file, PickleTree tree)
      : file_(&file), tree_(std::move(tree)) {}
  static Result<TorchFile> openSequence(const InputFile &file);
  Result<void> findStorages(const PickleTree &keys, uint64_t at);
  Result<Storage> storageOf(std::string_view key) const;

  const InputFile *file_;
  PickleTree tree_;
  std::optional<TorchArchive> archive_;
  std::unordered_map<std::string_view, Storage> sequence_; ///< else
};

/// The tensors of a file that holds a state dict (`pytorch_model.bin`), by
/// their offsets. Several may share a storage.
Result<std::vector<TorchTensor>> readStateDict(const InputFile &file);

} // namespace mbc
