#pragma once

#include "compiler/Binding/BindCommon.h"
#include "compiler/Binding/Coverage.h"
#include "compiler/Binding/StoredParts.h"

#include <unordered_map>

namespace mbc::compiler {

/// The Megatron tensors of a model's rules in the files of a checkpoint, found
/// rule by rule: what binding from Megatron has in common, wherever the tensors
/// go.
class MegatronOperands {
public:
  /// Comparisons of copies go into `binding`.
  MegatronOperands(const BindInput &input, Binding &binding,
                   dsl::Diagnostics &diagnostics);

  /// Finds those of one instance, as `types` and `refs`; false if one is
  /// missing or does not fit.
  bool find(uint32_t instance);
  /// Rows of the vocabulary found last that are not taken along; one that is
  /// not zero is worth a note.
  void dropRows(int64_t from);
  /// Copies of tied tensors on other stages, in per-rank files, must be equal.
  void tieCopies();
  /// Reports names that are missing and left over; after the last instance.
  void report();

  std::vector<OperandType> types; ///< with their parts
  std::vector<SourceRef> refs;    ///< of every operand's parts, in order

private:
  bool findOperand(const std::string &name, const dsl::Mapping &mapping,
                   uint32_t instance);
  bool hasHoles(uint32_t tensor, uint32_t instance);
  void append(StoredOperand operand);
  std::vector<int64_t> sectionsOf(const dsl::RuleInstance &instance,
                                  const dsl::Mapping &mapping,
                                  uint32_t tensor) const;
  void compareStages(const StoredOperand &operand);
  void compare(uint32_t copy, uint32_t owner);

  const BindInput &input;
  const dsl::Model &model;
  const Checkpoint &checkpoint;
  Binding &binding;
  dsl::Diagnostics &diagnostics;
  Coverage coverage;
  TensorUses reads;
  std::vector<std::pair<std::string, uint32_t>> missing;
  std::unordered_multimap<std::string_view, const StoredHole *> holes;
};

} // namespace mbc::compiler
