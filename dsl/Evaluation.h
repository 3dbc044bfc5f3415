#pragma once

#include "dsl/Ast.h"
#include "dsl/Expression.h"
#include "dsl/MappingTable.h"
#include "dsl/Model.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mbc::dsl {

/// What is written behind a piece's colon.
struct WrittenExtents {
  std::optional<int64_t>
      along; ///< `x:n`: along the dim of the operation around
  std::vector<int64_t> leading; ///< `x:[a, b]`: of the tensor's first axes
};

/// One evaluation of a spec: walks its statements and fills a Model.
class Evaluation {
public:
  Evaluation(const Spec &spec, const ConfigNode &config,
             const NameOracle &oracle, Diagnostics &diagnostics)
      : spec(spec), config(config), oracle(oracle), reporter(diagnostics),
        values(spec, config, oracle, reporter) {}

  Model run();

private:
  // Evaluate.cpp: statements.
  void walk(const Body &body);
  void visit(const Statement &statement);
  template <typename Visit> void inScope(const Scope &scope, Visit visit);
  template <typename Visit> void inBlock(const Call &call, Visit visit);
  template <typename Visit> void inBranch(const If &choice, Visit visit);
  void loop(const For &loop);
  const Body *caseOf(const Match &match); ///< R15
  void addTied(const Statement &statement, const TiedStatement &tied);
  void addIgnored(const IgnoreStatement &ignore);
  void addExtraState(const ExtraStateStatement &extra);
  /// `name` behind the prefix of the scopes around.
  std::optional<std::string> fullName(const Name &name, Side side);
  std::string &prefix(Side side) {
    return side == Side::Megatron ? megatronPrefix : hfPrefix;
  }
  bool enter(const Name &name, Side side);

  // EvaluateRule.cpp: one rule.
  void addRule(const Statement &statement, const Rule &rule);
  void addSubtree(const Statement &statement, const Rule &rule); ///< R18
  bool side(const Expr &expr, const Expr *extent, Side which, RuleSide &out);
  bool tensor(const Expr &expr, const Expr *extent, Side which, RuleSide &out);
  bool operation(const Expr &expr, std::optional<int64_t> extent, Side which,
                 RuleSide &out);
  bool slice(const Expr &expr, std::optional<int64_t> extent, Side which,
             RuleSide &out);
  std::optional<int64_t> dimension(const Call &call);
  bool operands(const Call &call, Side which, RuleSide &out, size_t &count);
  bool integersOf(const Expr &expr, const Datum &datum,
                  std::vector<int64_t> &ints);
  bool shapeList(const Expr &list, std::vector<int64_t> &ints, bool &rest);
  bool extents(const Expr *expr, WrittenExtents &out);
  bool addExtents(const Expr &expr, const WrittenExtents &written, size_t root,
                  RuleSide &out); ///< R19
  bool present(std::string_view name) const {
    return !oracle.exists || oracle.exists(name);
  }
  bool dropped() const; ///< R17
  const AttributeWord *wordOf(const Attribute &attribute);
  bool attributeKey(const Rule &rule);
  uint32_t newMapping(const Statement &statement, const Rule &rule);
  std::string configFieldsOf(const Rule &rule);
  void setAttribute(Mapping &mapping, const Attribute &attribute);
  void setShard(Shard &shard, const AttributeWord &word);
  Stage stageOf(std::span<const Attribute> attributes);

  // EvaluateEither.cpp: alternatives.
  using FormName = std::optional<std::string>; ///< the first of a form
  /// R16: the form that fits; `probing`: only to look into it, nothing is
  /// recorded.
  const Form *choose(const Statement &statement, const Either &either,
                     bool probing);
  const Form *preferred(const std::vector<const Form *> &forms);
  const Form *recorded(const std::vector<const Form *> &forms);
  /// Sees one side of each rule of `body`, of loops the first turn, until it
  /// returns true; whether it did.
  using SeeSide = std::function<bool(const RuleSide &)>;
  bool forEachRule(const Body &body, Side which, const SeeSide &see);
  bool forEachRule(const Statement &statement, Side which, const SeeSide &see);
  std::optional<std::string> firstName(const Body &body, Side which);
  std::optional<std::vector<const Form *>>
  fittingNames(const Statement &statement, const Either &either,
               std::span<const FormName> names, std::string &example);
  std::optional<std::vector<const Form *>>
  fittingExtents(const Statement &statement, const Either &either,
                 std::string &example, bool &told);

  // EvaluateConfig.cpp: the model's own fields.
  void addModel();
  void addConfig();
  int64_t integerOr(const ExprPtr &expr, int64_t fallback);

  struct Chosen {
    const Form *form = nullptr;
    std::string example; ///< the name that decided, where it was first met
  };

  const Spec &spec;
  const ConfigNode &config;
  const NameOracle &oracle;
  Reporter reporter;
  Expressions values;
  Model model;

  std::string megatronPrefix, hfPrefix; ///< "" or ending in a dot
  std::vector<const Name *> scopeNames; ///< the Megatron side's, for labels
  /// Addresses of the scopes and block calls around the statement at hand.
  /// They belong to a mapping's key: its label and its expansion name them.
  std::vector<int64_t> callSites;
  /// By the `either` and the call sites around it: each use of a block makes
  /// its own choice.
  std::map<std::vector<int64_t>, Chosen> choiceOf;

  MappingTable table;
  RuleSide megatronSide, hfSide;
  std::vector<int64_t> key;
};

} // namespace mbc::dsl
