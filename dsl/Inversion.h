#pragma once

#include "dsl/Expression.h"
#include "dsl/InvertConfig.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mbc::dsl {

/// Finds fields of config.json for which expressions have given values. It
/// grows one config.json; what a failed attempt put there is taken back. Its
/// work is bounded by the steps of `Expressions`.
class Inversion {
public:
  Inversion(const Spec &spec, const NameOracle &oracle, ConfigNode known)
      : spec(spec), root(std::move(known)), reporter(unheard),
        values(spec, root, oracle, reporter) {}

  /// Gives fields such that `expr` is `want`; false, and nothing has changed,
  /// if it finds none.
  bool solve(const Expr &expr, const Value &want);
  /// Whether it is that already.
  bool holds(const Expr &expr, const Value &want);

  /// Gives fields that say what `expr` is without them.
  void settle(const Expr &expr);

  /// Does `work`; if that fails, nothing has changed.
  bool attempt(const std::function<bool()> &work);

  /// What is tried; later stages need what earlier ones find.
  enum class Stage : uint8_t {
    Fields,
    Objects, ///< also fields of objects that are not there yet
    Lists,   ///< also lists with an element for each layer
    Rest,    ///< only what defaults have said so far
  };
  void enter(Stage next) { stage = next; }

  ConfigNode take();

private:
  using Path = std::vector<std::string>;

  // InvertConfig.cpp: the document.
  const ConfigNode *find(const Path &path) const;
  ConfigNode *parentOf(const Path &path);
  bool parentExists(const Path &path) const;
  bool assign(const Path &path, const Value &value);
  bool assignElement(const Path &path, size_t index, const Value &value);
  bool isWritten(const Path &path) const;

  // InvertExpression.cpp.
  bool solveKind(const Expr &expr, const Value &want);
  bool solveName(const Expr &expr, const Value &want);
  bool solveCall(const Expr &expr, const Value &want);
  bool solveUnary(const Expr &expr, const Value &want);
  bool solveBinary(const Expr &expr, const Value &want);
  bool solveDefault(const Expr &expr, const Value &want);
  bool solveArithmetic(const Expr &expr, const Value &want);
  bool solveEqual(const Expr &expr, bool want);
  bool solveAndOr(const Expr &expr, bool want);
  bool solveIn(const Expr &expr, bool want);
  bool solveTernary(const Expr &expr, const Value &want);
  bool solveList(const Expr &expr, const Value &want);
  bool solveComprehension(const Expr &expr, const Value &want);
  bool solveByCounting(const Expr &expr, const Value &want, size_t elements);
  bool solveElement(const Expr &list, size_t index, const Value &want);

  /// Where a name's value is worked out: in a let, or where a def is used.
  template <typename Work> bool inLet(const Let &let, Work work);
  template <typename Work> bool inDef(const Call &call, Work work);
  template <typename Work> bool inCaller(Work work);
  /// What `expr` stands for, through lets, parameters and defs, seen there.
  bool through(const Expr &expr, const std::function<bool(const Expr &)> &see);

  std::optional<Datum> evaluate(const Expr &expr);
  /// The field that `expr` names, if it names one.
  std::optional<Path> fieldOf(const Expr &expr);
  std::optional<Path> objectOf(const Expr &expr, size_t depth);
  /// The fields that `expr` reads and the words that it mentions, in the order
  /// of the text, through lets and defs.
  void collect(const Expr &expr, std::vector<Path> &fields,
               std::vector<std::string> &words, std::set<const Expr *> &seen);
  std::vector<Path> fieldsOf(const Expr &expr);
  std::vector<std::string> wordsOf(const Expr &expr);

  const Spec &spec;
  ConfigNode root;
  Diagnostics unheard;
  Reporter reporter;
  Expressions values;
  Stage stage = Stage::Fields;
  size_t depth = 0;
  std::set<Path> joined; ///< lists that config.json has as "3,4,5"
};

} // namespace mbc::dsl
