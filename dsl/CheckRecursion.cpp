#include "dsl/Check.h"

#include "dsl/Nesting.h"
#include "dsl/Parse.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

/// The calls that stand in a body, at any depth.
class CallCollector {
public:
  void add(const Body &body) {
    for (const Statement &statement : body)
      std::visit([this](const auto &node) { visit(node); }, statement.node);
  }
  void add(const Expr &expr) {
    if (expr.call) {
      calls.push_back(expr.call.get());
      for (const Argument &argument : expr.call->arguments) {
        add(*argument.value);
        if (argument.extent)
          add(*argument.extent);
      }
    }
    for (const ExprPtr &operand : expr.operands)
      add(*operand);
  }
  std::vector<const Call *> calls;

private:
  void visit(const Scope &scope) { add(scope.body); }
  void visit(const For &loop) { add(loop.body); }
  void visit(const If &choice) {
    for (const Branch &branch : choice.branches)
      add(branch.body);
  }
  void visit(const Match &match) {
    for (const MatchCase &entry : match.cases)
      add(entry.body);
  }
  void visit(const Either &either) {
    for (const Form &form : either.forms)
      add(form.body);
  }
  void visit(const Call &call) { calls.push_back(&call); }
  template <typename Other> void visit(const Other &) {}
};

/// R5, R22: reports each call that closes a circle, and where calls nest too
/// deep. `Map` holds blocks or defs.
template <typename Map> class RecursionCheck {
public:
  RecursionCheck(const Map &declarations, const char *kind,
                 Diagnostics &diagnostics)
      : declarations(declarations), kind(kind), diagnostics(diagnostics) {}

  /// Whether all is well.
  bool run() {
    for (const auto &[symbol, declaration] : declarations)
      visit(symbol, 0);
    return !found;
  }

private:
  struct State {
    bool open = false;
    size_t height = 0; ///< how deep its calls nest; 0 until known
  };

  /// The height of `symbol`, below `users` open calls.
  size_t visit(Symbol symbol, size_t users) {
    auto declaration = declarations.find(symbol);
    if (declaration == declarations.end())
      return 0;
    if (size_t known = states[symbol].height)
      return known;
    states[symbol].open = true;
    CallCollector collector;
    if constexpr (requires { *declaration->second.body; })
      collector.add(*declaration->second.body);
    else
      collector.add(declaration->second.body);
    size_t height = 1;
    for (const Call *call : collector.calls)
      height = std::max(height, 1 + follow(*call, users + 1));
    states[symbol] = {false, height};
    return height;
  }

  size_t follow(const Call &call, size_t users) {
    if (declarations.contains(call.symbol) && states[call.symbol].open) {
      error(call, fmt::format("{} '{}' uses itself; recursion is not part of "
                              "the language",
                              kind, call.callee));
      return 0;
    }
    size_t height = users > maxUses ? 0 : visit(call.symbol, users);
    // Once: its users are too deep for the same reason.
    if (users + height > maxUses && !tooDeep) {
      tooDeep = true;
      error(call, fmt::format("{}s use one another more than {} deep", kind,
                              maxUses));
    }
    return height;
  }

  void error(const Call &call, std::string text) {
    found = true;
    diagnostics.error(
        call.where, std::move(text),
        {{declarations.at(call.symbol).where, "it is declared here"}});
  }

  const Map &declarations;
  const char *kind;
  Diagnostics &diagnostics;
  std::unordered_map<Symbol, State> states;
  bool found = false, tooDeep = false;
};

} // namespace

void checkSpec(const Spec &spec, Diagnostics &diagnostics) {
  bool blocks = RecursionCheck(spec.blocks, "block", diagnostics).run();
  bool defs = RecursionCheck(spec.defs, "def", diagnostics).run();
  // The other checks follow calls.
  if (blocks && defs)
    Checker(spec, diagnostics).run();
}

} // namespace mbc::dsl
