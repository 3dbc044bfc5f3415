#pragma once

#include "dsl/Diagnostic.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

/// The tree of a spec: plain values, with a source range on every node.
/// Immutable once parsed, so any number of threads may evaluate it.
namespace mbc::dsl {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// Names of variables, parameters, blocks and defs, as small numbers.
using Symbol = uint32_t;
constexpr Symbol noSymbol = UINT32_MAX;

/// A dotted name. The pieces alternate: text, then perhaps the value of a
/// hole. `layers.{i}.mlp` is {"layers.", i}, {".mlp", none}.
struct NamePiece {
  std::string text;
  ExprPtr hole;
};
struct Name {
  SourceRange where;
  std::string spelling;
  std::vector<NamePiece> pieces;
  std::vector<std::string> segments; ///< of a name without holes
  Symbol head = noSymbol; ///< first segment, if the name has no holes
  bool fromRoot = false;  ///< `^`: the scopes around do not apply
  bool stay = false;      ///< `.`: the scope's side does not move
  bool optional = false;  ///< `?`
  bool wildcard = false;  ///< has a `*` or `**` segment
};

/// `key=value?:extent` of a call.
struct Argument {
  std::string key;
  ExprPtr value;
  bool optional = false;
  ExprPtr extent;
};

struct Call {
  std::string callee;
  Symbol symbol = noSymbol;
  SourceRange where; ///< of the callee's name
  /// `stack(e in a..b: x)` repeats its argument; `variable` is noSymbol if not.
  Symbol variable = noSymbol;
  SourceRange variableWhere;
  ExprPtr from, to;
  std::vector<Argument> arguments;
};

struct Expr {
  enum class Kind : uint8_t {
    Int,
    Float,
    String,
    Bool,
    Null,
    Name,
    Call,
    List,
    Rest,
    Comprehension,
    Index,
    Unary,
    Binary,
    Ternary,
  };
  enum class Op : uint8_t {
    None,
    Negate,
    Not,
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    In,
    And,
    Or,
    Default,
  };

  Kind kind = Kind::Null;
  Op op = Op::None;
  SourceRange where;
  int64_t integer = 0; ///< Int, Bool
  double number = 0;   ///< Float
  std::string text;    ///< String
  std::unique_ptr<Name> name;
  std::unique_ptr<Call> call;
  Symbol variable = noSymbol; ///< Comprehension
  SourceRange variableWhere;
  std::vector<ExprPtr> operands; ///< Comprehension: from, to, element
};

/// A `shard=...` and the other attributes of a rule, as words.
struct AttributeWord {
  SourceRange where;
  std::string word; ///< or the digits of a number
  std::vector<Argument> arguments;
  bool hasArguments = false;
};
struct Attribute {
  SourceRange where;
  std::string key;
  ExprPtr condition; ///< null: `value` always holds
  AttributeWord value, otherwise;
};

struct Statement;
using Body = std::vector<Statement>;

struct Rule {
  ExprPtr megatron, hf;
  std::vector<Attribute> attributes;
};
struct Scope {
  Name megatron, hf;
  Body body;
};
struct For {
  Symbol variable = noSymbol;
  SourceRange variableWhere;
  ExprPtr from, to;
  Body body;
};
struct Branch {
  ExprPtr condition; ///< null: the final else
  Body body;
};
struct If {
  std::vector<Branch> branches;
};
struct MatchCase {
  std::string word;
  SourceRange where;
  Body body;
};
struct Match {
  ExprPtr value;
  std::vector<MatchCase> cases;
};
struct Form {
  std::string label;
  SourceRange where;
  Body body;
};
struct Either {
  std::vector<Form> forms;
};
struct TiedStatement {
  bool megatron = false;
  Name copy, owner;
  std::vector<Attribute> attributes;
};
struct IgnoreStatement {
  std::vector<Name> patterns;
};
struct ExtraStateStatement {
  std::vector<Name> modules;
  ExprPtr experts;
};

struct Statement {
  SourceRange where;
  std::variant<Rule, Scope, For, If, Match, Either, Call, TiedStatement,
               IgnoreStatement, ExtraStateStatement>
      node;
};

struct Let {
  std::string name;
  SourceRange where;
  ExprPtr value;
};
struct Def {
  std::string name;
  SourceRange where;
  std::vector<Symbol> parameters;
  std::vector<SourceRange> parametersWhere;
  ExprPtr body;
};
struct Block {
  std::string name;
  SourceRange where;
  std::vector<Symbol> parameters;
  std::vector<SourceRange> parametersWhere;
  Body body;
};
struct ConfigAssignment {
  std::string field;
  SourceRange where;
  ExprPtr value;
};

struct ModelDeclaration {
  std::string name;
  SourceRange where;
  std::vector<std::string> architectures, types;
  std::string megatron;
  ExprPtr layers, stackedIf, experts, vocab, vocabMultiple;
  bool stacked = false;
  std::string patternField, patternCutBefore;
};

/// A `use`, and the file that it names.
struct Use {
  SourceRange where;
  std::shared_ptr<const SourceFile> file;
};

/// A spec with everything that it uses, directly or not.
struct Spec {
  std::optional<ModelDeclaration> model;
  std::unordered_map<Symbol, Let> lets;
  std::unordered_map<Symbol, Def> defs;
  std::unordered_map<Symbol, Block> blocks;
  std::vector<ConfigAssignment> config;
  std::vector<Name> ignoredFields;
  /// Of fields that say the same, those that a config.json made from Megatron's
  /// arguments has.
  std::vector<Name> writtenFields;
  Body statements;

  std::vector<std::string> symbols; ///< Symbol to name
  std::unordered_map<std::string, Symbol> symbolOf;
  /// The spec's own file first, then what it uses in the order of its `use`s.
  std::vector<std::shared_ptr<const SourceFile>> files;
  std::vector<Use> uses; ///< of all files; none in a bundle
};

} // namespace mbc::dsl
