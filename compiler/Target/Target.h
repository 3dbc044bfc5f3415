#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Binding/Layout.h"
#include "compiler/Binding/QuantizedTargets.h"
#include "compiler/RuleClass.h"
#include "runtime/MegatronNames.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace mbc::compiler {

/// A logical tensor of the target: its name in the files and its whole shape.
struct TargetTensor {
  std::string key;
  DType dtype = DType::BF16;
  Shape shape;
};

/// A stored tensor. `offset` as in Plan.fbs.
struct TargetItem {
  uint32_t file = 0, tensor = 0, rank = 0, start = 0;
  uint64_t offset = 0;
};

struct TargetFile {
  std::string path;
  uint64_t size = 0;
  std::string literal;
  bool plain = false; ///< safetensors beside a Megatron checkpoint's own files
};

/// One stored tensor of each instance of a class.
struct PlacedOutput {
  uint32_t index = 0;       ///< into FusedClass::outputs
  Role role = Role::Values; ///< what of that output

  friend bool operator==(const PlacedOutput &, const PlacedOutput &) = default;
};

/// The outputs of a class as they are stored. An output that is stored more
/// than once (a replicated tensor in the files of several ranks) is listed
/// once for each copy.
struct PlacedClass {
  std::vector<PlacedOutput> outputs;
  std::vector<uint32_t> items; ///< instances x outputs
  /// instances x originals: codes, scales and perhaps a tensor scale of each of
  /// FusedClass::outputs that has them.
  std::vector<SourceRef> originals;
};

/// Tensors of one type that are written as they stand.
struct PlacedCopies {
  DType dtype = DType::U8;
  Shape shape;
  std::vector<SourceRef> sources;
  std::vector<uint32_t> items; ///< one for each source
};

/// Everything about the files of a target, decided before any byte moves.
struct Target {
  std::vector<TargetTensor> tensors;
  std::vector<TargetItem> items;
  std::vector<int64_t> starts;
  std::vector<TargetFile> files;
  std::vector<std::string> objects;  ///< keys of byte objects
  std::vector<uint32_t> objectFiles; ///< the file of each
  std::vector<PlacedClass> classes;
  std::vector<PlacedCopies> copies;
  std::vector<std::string> notes; ///< what a person should know
};

/// Lets an item be a copy of a tensor of the source.
void addCopy(Target &target, DType dtype, const Shape &shape, SourceRef source,
             uint32_t item);

/// An instance of a rule, found by its number in the model.
struct InstancePlace {
  uint32_t boundClass = UINT32_MAX, row = 0;
};
std::vector<InstancePlace> placesOfInstances(const dsl::Model &model,
                                             const Binding &binding);

struct TargetInput {
  const dsl::Model &model;
  const Binding &binding;
  const TensorProgram &program;
  const ParallelLayout &layout;
  std::string commonJson; ///< Megatron's common state
};

/// Rules for a model's keys in a torch_dist.
KeyRules keyRules(const dsl::Model &model);

/// A torch_dist keeps the layers of a model whose layers are alike, and all
/// experts of a layer, in one tensor, which has one dtype.
void checkStackedDTypes(const dsl::Model &model, const Binding &binding,
                        dsl::Diagnostics &diagnostics);

Result<Target> placeTorchDist(const TargetInput &input);
Result<Target> placeTorchRanks(const TargetInput &input);

/// How an HF checkpoint is split into files.
struct SplitOptions {
  const Record *record =
      nullptr;               ///< keep its files, unless maxShardSize is given
  uint64_t maxShardSize = 0; ///< bytes; 0: the record's files, else 5 GB
  std::vector<std::pair<std::string, std::string>>
      copies; ///< tied copies to make: copy, owner
  const QuantizedTargets *quantized = nullptr;
  const Checkpoint *checkpoint = nullptr; ///< the source, originals included
  /// Where the originals' tensors begin among those of the source.
  uint32_t firstOriginal = 0;
};
Result<Target> placeSafetensors(const TargetInput &input,
                                const SplitOptions &split);

} // namespace mbc::compiler
