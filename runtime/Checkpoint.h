#pragma once

#include "runtime/DType.h"
#include "runtime/Result.h"
#include "runtime/Shape.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mbc {

enum class Format : uint8_t {
  Safetensors, ///< Hugging Face directory: config.json + *.safetensors
  TorchDist,   ///< Megatron distributed checkpoint (PyTorch DCP)
  TorchRanks,  ///< Megatron per-rank `torch` files (mp_rank_*)
};

/// A file of a checkpoint, relative to the checkpoint's root directory.
struct StoredFile {
  std::string path;
  uint64_t size = 0;
};

/// A contiguous, row-major part of a tensor in one file. `start` and `shape`
/// are in elements of the whole tensor.
struct StoredPiece {
  uint32_t file = 0;
  uint64_t offset =
      0; ///< bytes from the start of the file to the first element
  Shape start;
  Shape shape;
};

/// One tensor as people name it (see "Names" of the command line's contract):
/// Megatron tensors by module parameter counted over the whole model. For
/// TorchRanks there is one entry per (rank, tensor): name counted over the
/// whole model, shape local to the rank.
struct StoredTensor {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  std::vector<StoredPiece> pieces; ///< in row-major order of `start`
  std::string key;  ///< the file's own key where it differs from the name
  std::string rank; ///< "tp0.pp0.ep0[.etp0]", TorchRanks only
  /// Row extents of the sections that the file stores apart (in_proj of KDA,
  /// GDN, Mamba; see KeyForm), in order; empty for every other tensor.
  std::vector<int64_t> sections;
};

/// A non-tensor entry of a torch_dist (`..._extra_state/shard_0_1`).
struct StoredObject {
  std::string key;
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// A checkpoint's headers: what is where, no tensor byte read. Immutable after
/// `openCheckpoint`, so it may be read by any number of threads.
struct Checkpoint {
  Format format = Format::Safetensors;
  std::string root; ///< directory that `files` are relative to
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors; ///< order of the files, then of offsets
  std::vector<StoredObject> objects;
  std::vector<StoredTensor>
      keys; ///< TorchDist: tensors under the file's own keys
  std::string
      argsJson; ///< Megatron `args` and common state as JSON, else empty
  std::string configJson; ///< config.json: Safetensors its own; Megatron from
                          ///< mbc/hf/ if there
  std::string recordJson; ///< mbc/record.json, if there
  std::vector<std::string> sidecars; ///< HF files that travel along, relative
                                     ///< to root (Megatron: to root/mbc/hf)
  std::vector<std::string>
      notes; ///< things a person should know, one sentence each
};

/// The directory that a checkpoint's files are relative to: `directory`
/// itself, or the iteration folder that its tracker points to.
Result<std::string> checkpointRoot(const std::string &directory);

/// Recognises the kind of checkpoint in `directory` (an HF directory, a
/// Megatron root with a tracker, or an iteration folder) and reads its
/// headers. Every failure names the file and both numbers.
Result<Checkpoint> openCheckpoint(const std::string &directory);

} // namespace mbc
