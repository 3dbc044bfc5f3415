#pragma once

#include "runtime/DType.h"
#include "runtime/HeaderStore.h"
#include "runtime/NameTable.h"
#include "runtime/Result.h"
#include "runtime/Shape.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mbc {

enum class Format : uint8_t {
  Safetensors, ///< Hugging Face directory: config.json + *.safetensors, or
               ///< + pytorch_model*.bin
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
  const Shape *start = nullptr;
  const Shape *shape = nullptr;
};

/// One tensor as people name it (see "Names" of the command line's contract):
/// Megatron tensors by module parameter counted over the whole model. For
/// TorchRanks there is one entry per (rank, tensor): name counted over the
/// whole model, shape local to the rank. Half a million of them are common:
/// what they point to is in a HeaderStore.
struct StoredTensor {
  std::string_view name;
  const Shape *shape = nullptr;
  DType dtype = DType::F32;
  std::span<const StoredPiece> pieces; ///< in row-major order of `start`
  std::string_view key;  ///< the file's own key where it differs from the name
  std::string_view rank; ///< "tp0.pp0.ep0[.etp0]", TorchRanks only
  /// Row extents of the sections that the file stores apart (in_proj of KDA,
  /// GDN, Mamba; see KeyForm), in order; empty for every other tensor.
  std::span<const int64_t> sections;
  /// The axes as they follow one another in the file, the outermost first,
  /// where that is not their own order; such a tensor has one piece.
  const Shape *order = nullptr;
};

/// A non-tensor entry of a torch_dist (`..._extra_state/shard_0_1`).
struct StoredObject {
  std::string key;
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// Elements of a torch_dist's tensor that no chunk holds.
struct StoredHole {
  std::string_view tensor; ///< its name
  std::string text;        ///< which elements of what, for people
  /// The elements from `begin` to before `end` along `axis`; no axis where the
  /// chunks do not tell.
  std::optional<size_t> axis;
  int64_t begin = 0, end = 0;
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
  /// TorchDist: of tensors whose values must therefore not be read. Who
  /// converts them refuses, and can say more than the reader.
  std::vector<StoredHole> holes;
  /// What `tensors` and `keys` point to.
  std::vector<std::shared_ptr<const HeaderStore>> stores;
  std::string
      argsJson; ///< Megatron `args` and common state as JSON, else empty
  std::string configJson; ///< config.json: Safetensors its own; Megatron from
                          ///< mbc/hf/ if there
  std::string recordJson; ///< mbc/record.json, if there
  std::vector<std::string> sidecars; ///< HF files that travel along, relative
                                     ///< to root (Megatron: to root/mbc/hf)
  std::vector<std::string>
      notes; ///< things a person should know, one sentence each

  static constexpr uint32_t none = NameTable::none;
  /// The number of the first tensor of this name, or none.
  uint32_t find(std::string_view name) const;
  /// The number of the next tensor of the same name, or none: per-rank
  /// checkpoints hold a name several times.
  uint32_t next(uint32_t tensor) const { return next_[tensor]; }
  /// Lets `find` and `next` know the tensors; after the last is there.
  void indexNames();

private:
  NameTable names_;
  std::vector<uint32_t> next_;
};

/// The directory that a checkpoint's files are relative to: `directory`
/// itself, or the iteration folder that its tracker points to.
Result<std::string> checkpointRoot(const std::string &directory);

/// Recognises the kind of checkpoint in `directory` (an HF directory, a
/// Megatron root with a tracker, or an iteration folder) and reads its
/// headers. Every failure names the file and both numbers.
Result<Checkpoint> openCheckpoint(const std::string &directory);

} // namespace mbc
