#pragma once

#include "dsl/Diagnostic.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// What a spec means for one config.json and one checkpoint's names: plain
/// rules with every loop unrolled, every condition decided and every name
/// complete. Nothing here knows of shapes, layouts or files.
namespace mbc::dsl {

enum class Side : uint8_t { Megatron, Hf };

/// A primitive operation or a leaf of one side of a rule.
enum class OpKind : uint8_t {
  Tensor,    ///< a named tensor
  Fill,      ///< a constant tensor: `value` everywhere, shape `ints`
  Concat,    ///< along `dim`
  Stack,     ///< along a new axis `dim`
  Reshape,   ///< to `ints` (see `rest`)
  Transpose, ///< axes in the order `ints`
  Slice,     ///< along `dim`, from index `ints[0]`, `ints[1]` wide
  Repeat,    ///< `ints[0]` times, one after the other along dimension 0
  Deinterleave, ///< `ints`: groups, then the rows of each section in a group
  Add,       ///< plus `value`
  Scale,     ///< times `value`
};

/// One node of a rule's side, in a vector that ends with the root; children
/// come before their parents.
struct Node {
  OpKind kind = OpKind::Tensor;
  std::vector<uint32_t> children;
  std::vector<int64_t> ints; ///< of a Tensor: written `x:[a, b]`, its first extents
  /// Reshape only: `ints` replace the fewest leading axes whose extents
  /// multiply to the product of `ints`; the other axes stay (written `...`).
  bool rest = false;
  int64_t dim = 0;
  double value = 0;
  uint32_t operand = 0;          ///< Tensor: index into the rule's names of this side
  std::optional<int64_t> extent; ///< written `x:n`: extent along the parent's dim, or along dim 0
  SourceRange where;
};

enum class ShardKind : uint8_t {
  Replicated, Column, Row, Vocab,
  Gated,   ///< two equal sections (gate, up) of one key, each cut along dim 0
  Section, ///< sections cut along dim 0 each on its own; `sections` names them
  Dim,     ///< cut along `dim`
  ExpertRows, ///< rows dealt out over the expert ranks, as evenly as they go
};

struct Shard {
  ShardKind kind = ShardKind::Replicated;
  bool expert = false; ///< written expert(...): distributed over EP, cut over ETP
  int64_t dim = 0;
  std::vector<std::string> sections; ///< names for torch_dist, may be empty
  /// Extents that must also divide by TP or be divided by it, as Megatron
  /// demands of heads: column(H, G) gives {H, G}; H must divide by TP, and one
  /// of G and TP the other.
  std::vector<int64_t> heads;

  friend bool operator==(const Shard &, const Shard &) = default;
};

enum class Stage : uint8_t { ByName, First, Last, FirstAndLast };

/// Everything about a rule but the names: rules of all layers and experts
/// with equal extents share one; each place that uses a block has its own.
struct Mapping {
  std::vector<Node> megatron, hf; ///< the two sides; they are equal tensors
  Shard shard;
  Stage stage = Stage::ByName;
  std::string dtype;   ///< `dtype=f32`: pins the Megatron side; else empty
  std::string hfDType; ///< `hf_dtype=config`: of the HF side where no record says it; else empty
  SourceRange where;
  std::vector<Note> expansion; ///< the block calls that led here, innermost first
  std::vector<Note> conditions; ///< those that let it hold, outermost first
  std::string configFields; ///< config.json's, that its numbers come from: "head_dim 12"
  std::string label;   ///< for people: "decoder.layers.{i}.self_attention.linear_qkv.weight"
};

/// One use of a mapping: its names, in the order of the operands.
struct RuleInstance {
  uint32_t mapping = 0;
  std::vector<std::string> megatron, hf;
};

struct TiedCopy {
  Side side = Side::Hf;
  std::string copy, owner;
  bool optional = false; ///< written with `?`: never made on export unless the source had it
  Stage stage = Stage::ByName;
  SourceRange where;
};

struct IgnorePattern {
  std::string pattern; ///< HF side; `*` one segment, `**` any number of segments
  bool optional = false;
  SourceRange where;
};

struct ExtraState {
  std::string module;  ///< full Megatron name of the module
  int64_t experts = 0; ///< `per expert(E)`: one object for each expert
};

/// A value of a config expression: null, bool, integer, number, string, list.
struct Value;
using ValueList = std::vector<Value>;
struct Value : std::variant<std::monostate, bool, int64_t, double, std::string,
                            std::shared_ptr<const ValueList>> {
  using variant::variant;
};

struct ConfigField {
  std::string name; ///< Megatron's
  Value value;
  SourceRange where;
  std::string configFields; ///< config.json's, that the value comes from
};

/// Which form of an `either` was taken, for the record and for the summary.
struct Choice {
  Side side = Side::Hf;
  std::string form;
  std::string example; ///< the name that decided; empty: none did
  SourceRange where;
};

struct Model {
  std::string name;                       ///< model NAME
  std::vector<std::string> architectures; ///< hf "..."
  std::string megatron;                   ///< "GPTModel", "HybridModel"
  int64_t layers = 0;                     ///< physical decoder layers
  bool layersStacked = false;             ///< one torch_dist key for all layers
  int64_t experts = 0;                    ///< routed experts, 0 if none
  int64_t vocabSize = 0, vocabMultiple = 128;
  std::string patternField;               ///< config field with the hybrid pattern, or empty
  std::string patternCutBefore;           ///< pipeline cuts only before these symbols, or empty

  std::vector<Mapping> mappings;
  std::vector<RuleInstance> instances;
  std::vector<TiedCopy> ties;
  std::vector<IgnorePattern> ignores;
  std::vector<ExtraState> extraStates;
  std::vector<ConfigField> config;
  std::vector<Choice> choices;
  std::vector<std::string> unreadConfigFields; ///< of config.json: neither read nor ignored
  std::vector<std::string> missingConfigFields; ///< asked of config.json and not there
  std::vector<std::string> configContradictions; ///< in words, see ConfigJson.h
  std::vector<std::string> configNotes; ///< what config.json says and the conversion does not keep

  /// Whether one of its `either` statements took that form.
  bool takes(std::string_view form) const {
    return std::ranges::any_of(choices, [&](const Choice &choice) { return choice.form == form; });
  }
};

/// What the evaluation asks of the checkpoint at hand.
struct NameOracle {
  Side known = Side::Hf; ///< the side whose names exist (the source)
  std::function<bool(std::string_view)> exists;
  /// The extents of a tensor of the known side; empty if it is not there.
  std::function<std::vector<int64_t>(std::string_view)> extentsOf;
  /// All names that start with a prefix, for `**` patterns.
  std::function<std::vector<std::string>(std::string_view prefix)> withPrefix;
  /// Preferred forms of the target side's `either`: "grouped", "fused" ...
  std::vector<std::string> preferredForms;
  /// Whether the target side had a tensor of that name before, by the source's
  /// record; null without a record.
  std::function<bool(std::string_view)> recorded;
  /// The forms that were taken then, where names do not tell.
  std::vector<std::string> recordedForms;
};

struct Spec; // the AST (Ast.h)

/// Evaluates `spec` over config.json (its text). Reports every problem it
/// finds to `diagnostics`; the result is complete only if there is no error.
Model evaluate(const Spec &spec, std::string_view configJson,
               const NameOracle &oracle, Diagnostics &diagnostics);

} // namespace mbc::dsl
