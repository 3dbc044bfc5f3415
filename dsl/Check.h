#pragma once

#include "dsl/Ast.h"
#include "dsl/Diagnostic.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace mbc::dsl {

/// The checks behind `checkSpec`. R1, R2 ... are the rules of the language in
/// dsl/README.md.
class Checker {
public:
  Checker(const Spec &spec, Diagnostics &diagnostics)
      : spec(spec), diagnostics(diagnostics) {}
  void run();

private:
  // Check.cpp: values and statements.
  void value(const Expr &expr);     ///< R6, R8
  void valueName(const Name &name); ///< R3, R6
  void valueCall(const Call &call); ///< R4, R6, R10
  void holes(const Name &name);
  /// R4.
  void arity(const Call &call, size_t expected, const SourceRange *declared,
             const char *kind);
  void walk(const Body &body);
  void statement(const Statement &statement);
  void blockCall(const Call &call); ///< R4, R10
  void config();                    ///< R11
  bool known(Symbol symbol) const;
  std::vector<std::string> visibleNames() const;

  // CheckRules.cpp: the sides of a rule and its attributes.
  void rule(const Rule &rule);
  void subtree(const Rule &rule);    ///< R7
  void hfDType(const Rule &rule);    ///< R28
  void tensor(const Expr &expr);     ///< R6, R7
  void tensorCall(const Call &call); ///< R4, R10
  void operation(const Call &call);  ///< R4, R8, R10
  /// R10.
  void keyed(const Call &call, const Argument &argument, const char *allowed);
  void tied(const TiedStatement &tied); ///< R7
  /// R9, as are the two below.
  void attributes(const std::vector<Attribute> &attributes,
                  const std::vector<std::string> &keys);
  void word(const Attribute &attribute, const AttributeWord &word);
  void shardWord(const AttributeWord &word);
  /// Which parameters of a def stand for tensors.
  const std::set<Symbol> &tensorParameters(const Def &def);
  void collectTensors(const Expr &expr, const Def &def, std::set<Symbol> &out);

  // CheckNames.cpp: names that contradict one another.
  void argumentNames(const Call &call, const std::vector<Symbol> &parameters,
                     const std::set<Symbol> &tensors); ///< R23
  void sectionNames(const Rule &rule);                 ///< R23
  void ruleNames(const Body &body);                    ///< R25
  /// R24; `last` is the tensor parameter that was met before.
  void tensorOrder(const Expr &expr, const Def &def, Symbol &last);

  const Spec &spec;
  Diagnostics &diagnostics;
  std::map<const Def *, std::set<Symbol>> tensorParameters_;
  std::vector<Symbol> scope; ///< loop variables and parameters in sight
};

/// Names of the operations on tensors.
const std::vector<std::string> &operationNames();

} // namespace mbc::dsl
