#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/PickleTree.h"

namespace mbc {

/// The file `.metadata` of a torch_dist checkpoint, as it stands.
struct TorchDistIndex {
  /// An archive in a file, and which part of its tensor it holds. `start` and
  /// `shape` are in elements of the whole tensor, leading axes included.
  struct Chunk {
    Shape start, shape;
    uint32_t file = 0;
    uint64_t offset = 0, length = 0; ///< bytes; length 0: no place known
  };
  struct Tensor {
    std::string key;
    DType dtype = DType::F32;
    Shape shape;
    std::vector<Chunk> chunks; ///< in row-major order of `start`
  };

  std::vector<Tensor> tensors;
  std::vector<StoredObject> objects;
  std::vector<StoredFile> files; ///< sizes are not known yet
  size_t skipped = 0; ///< entries of optimizer and random state, left out
};

/// `path` is the file's, for messages.
Result<TorchDistIndex> readTorchDistIndex(const PickleTree &tree,
                                          const std::string &path);

} // namespace mbc
