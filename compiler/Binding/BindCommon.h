#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/NameGroups.h"

#include <optional>

/// What binding for import and for export share.
namespace mbc::compiler {

/// Which instance of which rule uses a name of one side. Reports the second use
/// of one.
class NameUses {
public:
  NameUses(const dsl::Model &model, dsl::Side side,
           dsl::Diagnostics &diagnostics);
  /// `what`: "read by" / "written by", for the message.
  void use(std::string_view name, uint32_t instance, std::string_view what);
  bool contains(std::string_view name) const;

private:
  const dsl::Model &model;
  dsl::Diagnostics &diagnostics;
  std::vector<std::string_view> names;
  std::vector<uint32_t> users; ///< of each name
  NameTable table;
};

/// The same of a checkpoint's tensors.
class TensorUses {
public:
  TensorUses(const Checkpoint &checkpoint, const dsl::Model &model,
             dsl::Diagnostics &diagnostics)
      : checkpoint(checkpoint), model(model), diagnostics(diagnostics),
        users(checkpoint.tensors.size(), noUser) {}
  void use(uint32_t tensor, uint32_t instance, std::string_view what);

private:
  static constexpr uint32_t noUser = UINT32_MAX;
  const Checkpoint &checkpoint;
  const dsl::Model &model;
  dsl::Diagnostics &diagnostics;
  std::vector<uint32_t> users; ///< of each tensor
};

/// Classes by what makes them one: mapping and types of the source side.
class ClassTable {
public:
  /// Stands for a class that does not fit; the finding is reported once.
  static constexpr uint32_t rejected = UINT32_MAX;

  explicit ClassTable(Binding &binding) : binding(binding) {}

  /// The class of these source operands, or none if it is new.
  std::optional<uint32_t> find(uint32_t mapping,
                               const std::vector<OperandType> &types) const;
  /// A new class, or with no type the knowledge that there is none.
  uint32_t add(uint32_t mapping, std::vector<OperandType> types,
               std::optional<RuleClass> type);
  /// An instance of a class, with the pieces that it reads.
  void addInstance(uint32_t index, uint32_t instance,
                   const std::vector<SourceRef> &refs);

private:
  struct Entry {
    uint32_t mapping;
    std::vector<OperandType> types;
    uint32_t index;
  };
  Binding &binding;
  std::unordered_map<uint64_t, std::vector<Entry>> entries;
};

/// An error at a rule, with the block calls that led to it.
void ruleError(const dsl::Mapping &mapping, std::string text,
               dsl::Diagnostics &diagnostics);

/// A shape that does not fit, at its place in the rule.
void shapeError(const dsl::Mapping &mapping, const ShapeError &error,
                dsl::Diagnostics &diagnostics);

/// Names that are missing or left over, grouped; at most a few lines a kind.
void reportMissing(const std::vector<std::pair<std::string, uint32_t>> &missing,
                   const std::vector<std::string> &leftOver,
                   const dsl::Model &model, const Checkpoint &checkpoint,
                   dsl::Diagnostics &diagnostics);
void reportLeftOver(
    const std::vector<std::string> &leftOver,
    const std::vector<std::pair<std::string, uint32_t>> &missing,
    const dsl::Model &model, dsl::Diagnostics &diagnostics);

/// The first few groups, in words.
std::string listOf(const std::vector<NameGroup> &groups);

/// Fills sections of the Megatron operands (Gated, Section) from the rule.
bool inferSections(RuleClass &type, std::span<const std::string> hfNames,
                   dsl::Diagnostics &diagnostics);

/// "bf16" to DType::BF16 and so on; nothing for "keep" or "".
std::optional<DType> dtypeOption(std::string_view text);

bool isFloat(DType dtype);

/// "NAME (tp0.pp1.ep0)" of a per-rank file, else the name.
std::string nameWithRank(const StoredTensor &tensor);

/// That two tensors of equal type, stored in one piece each, hold the same
/// bytes; a row is what one index of dimension 0 holds.
BoundComparison wholeComparison(const Checkpoint &checkpoint, uint32_t copy,
                                uint32_t owner);

} // namespace mbc::compiler
