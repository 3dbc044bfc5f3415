#pragma once

#include "runtime/DType.h"
#include "runtime/Result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The small files and the index of a torch_dist checkpoint. Payload items are
/// archives with the root `archive` and one storage (TorchArchive.h), with the
/// pickle of `tensorPickle`.
namespace mbc {

/// A tensor of the whole model, leading axes included.
struct TorchDistTensor {
  std::string_view key;
  DType dtype = DType::F32;
  std::span<const int64_t> shape;
};

/// A stored part of a tensor: an archive of `length` bytes at byte `offset` of
/// a file. `start` and `shape` are in elements of the whole tensor.
struct TorchDistChunk {
  uint32_t tensor = 0; ///< index into the tensors
  uint32_t file = 0;   ///< index into the files
  uint64_t offset = 0, length = 0;
  std::span<const int64_t> start, shape;
};

struct TorchDistObject {
  std::string_view key;
  uint32_t file = 0;
  uint64_t offset = 0, length = 0;
};

/// The file `.metadata`. Chunks may come in any order; they are written in the
/// order of their tensors.
std::string torchDistMetadata(std::span<const TorchDistTensor> tensors,
                              std::span<const TorchDistChunk> chunks,
                              std::span<const TorchDistObject> objects,
                              std::span<const std::string_view> files);

/// The file `metadata.json`.
std::string_view torchDistMarker();

/// The file `train_state.pt`, which Megatron-Bridge reads of a checkpoint and,
/// as `latest_train_state.pt`, of its root: the iteration, no samples.
inline constexpr std::string_view trainStateName = "train_state.pt";
std::string trainState(int64_t iteration);

/// The content of a `..._extra_state` object: an archive of a list with one
/// empty uint8 tensor.
std::string extraStateObject();

/// The common state as `common.pt` and as the object `common_state/shard_0_1`.
/// `commonJson` is {"args": {...}, "checkpoint_version": 3.0, ...}, as in
/// Checkpoint::argsJson.
Result<std::string> commonFile(std::string_view commonJson);
Result<std::string> commonObject(std::string_view commonJson);

} // namespace mbc
