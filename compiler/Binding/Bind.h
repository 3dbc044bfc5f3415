#pragma once

#include "compiler/Binding/ConfigFacts.h"
#include "compiler/Binding/Layout.h"
#include "compiler/RuleClass.h"
#include "dsl/Model.h"
#include "runtime/Checkpoint.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mbc::compiler {

/// A stored piece of a source tensor: indices into Checkpoint::tensors and
/// StoredTensor::pieces.
struct SourceRef {
  uint32_t tensor = 0, piece = 0;
};

/// Bytes that must be equal: a tied copy and its owner. Without an owner, the
/// bytes should be zero (vocabulary padding), or `required` have to be. With a
/// shape, the copy is a tensor of integers that repeats it, and the owner the
/// codes whose values have it.
struct BoundComparison {
  SourceRef copy;
  uint64_t copyOffset = 0; ///< bytes into the piece
  bool hasOwner = false;
  SourceRef owner;
  uint64_t ownerOffset = 0;
  uint64_t bytes = 0, rowBytes = 0;
  bool required = false;
  Shape shape;
  std::string copyName, ownerName;
};

/// A class of rule instances and the pieces that each instance reads.
struct BoundClass {
  RuleClass type;
  std::vector<uint32_t> instances; ///< indices into Model::instances
  uint32_t refsPerInstance = 0;
  /// instances x refsPerInstance: by operand, its parts, then its
  /// companions.
  std::vector<SourceRef> refs;
};

/// The rules of a model bound to the tensors of a checkpoint.
struct Binding {
  Direction direction = Direction::Import;
  std::vector<BoundClass> classes;
  std::vector<BoundComparison> comparisons;
  std::vector<std::string> notes;
  std::vector<std::string> copies;  ///< tied HF copies that the source holds
  std::vector<std::string> dropped; ///< tied HF copies left out on request
  /// Import: names that rules read and the source lacks, and names that the
  /// source has and no rule reads.
  std::vector<std::string> missing, leftOver;
  int64_t paddedVocab = 0;
};

/// What `mbc/record.json` says of the HF tensors that an import came from.
struct RecordedTensor {
  std::string name; ///< of quantised ones: their values'
  DType dtype = DType::BF16;
  std::string file;
};
struct Record {
  std::vector<RecordedTensor> tensors; ///< in the order of the files
  std::vector<std::string> copies;
  /// Taken of the spec's `either` statements: with tensors that were not, and
  /// that were quantised.
  std::vector<std::string> forms, quantizedForms;
  std::string spec, specSha256; ///< name and hash of the spec of the import
  /// Keys point into the tensors' names; a move of the record keeps them.
  std::unordered_map<std::string_view, uint32_t> byName;

  Record() = default;
  Record(Record &&) = default;
  Record &operator=(Record &&) = default;

  const RecordedTensor *find(std::string_view name) const {
    auto it = byName.find(name);
    return it == byName.end() ? nullptr : &tensors[it->second];
  }
  /// Whether a tensor held codes, whose values leave in config's dtype.
  bool isQuantized(const RecordedTensor &tensor) const;
  bool hasQuantized() const;
  /// Whether it held codes whose scales are of two levels.
  bool isNvfp4(const RecordedTensor &tensor) const;
  /// Whether an export has to write it: scales do not come back.
  bool returns(std::string_view name) const;
};

class QuantizedTargets;

struct BindInput {
  const dsl::Model &model;
  const Checkpoint &checkpoint;
  const Options &options;
  const ParallelLayout
      &layout; ///< of the target (import) or of the source (export)
  DType configDType = DType::BF16;
  Quantization quantization;                 ///< as config.json declares it
  const Record *record = nullptr;            ///< export only
  const QuantizedTargets *targets = nullptr; ///< export only: what --quant asks
};

/// Adds to an import that the source holds zeros where the way back writes
/// them.
void requireZeros(const Checkpoint &checkpoint,
                  const std::vector<RoundTrip> &roundTrips, Binding &binding,
                  dsl::Diagnostics &diagnostics);

/// Finds every rule's tensors, infers all shapes, and reports what does not
/// fit: names, shapes, dtypes, scales, divisions, coverage, ties.
Binding bindImport(const BindInput &input, dsl::Diagnostics &diagnostics);
Binding bindExport(const BindInput &input, dsl::Diagnostics &diagnostics);

/// Megatron's tensors in another layout or format: a rule a tensor, which says
/// that it equals itself, and what is bound to these rules.
struct Reshard {
  dsl::Model model;
  Binding binding; ///< points into the model
};
/// `input.layout` is the source's, `target` what is asked for.
Reshard bindReshard(const BindInput &input, const ParallelLayout &target,
                    dsl::Diagnostics &diagnostics);

} // namespace mbc::compiler
