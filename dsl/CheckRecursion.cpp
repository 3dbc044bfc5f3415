#include "dsl/Check.h"

#include "dsl/Parse.h"

#include <functional>
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

/// R5: reports each call that closes a circle. `declarations` are blocks or
/// defs.
template <typename Map>
bool reportCircles(const Map &declarations, const char *kind,
                   Diagnostics &diagnostics) {
  enum State : uint8_t { New, Open, Done };
  std::unordered_map<Symbol, State> states;
  bool found = false;
  std::function<void(Symbol)> visit = [&](Symbol symbol) {
    auto declaration = declarations.find(symbol);
    if (declaration == declarations.end() || states[symbol] == Done)
      return;
    states[symbol] = Open;
    CallCollector collector;
    if constexpr (requires { *declaration->second.body; })
      collector.add(*declaration->second.body);
    else
      collector.add(declaration->second.body);
    for (const Call *call : collector.calls)
      if (states[call->symbol] == Open && declarations.contains(call->symbol)) {
        found = true;
        diagnostics.error(
            call->where,
            fmt::format("{} '{}' uses itself; recursion is not part of "
                        "the language",
                        kind, call->callee),
            {{declarations.at(call->symbol).where, "it is declared here"}});
      } else {
        visit(call->symbol);
      }
    states[symbol] = Done;
  };
  for (const auto &[symbol, declaration] : declarations)
    visit(symbol);
  return found;
}

} // namespace

void checkSpec(const Spec &spec, Diagnostics &diagnostics) {
  bool circles = reportCircles(spec.blocks, "block", diagnostics);
  circles |= reportCircles(spec.defs, "def", diagnostics);
  // The other checks follow calls.
  if (!circles)
    Checker(spec, diagnostics).run();
}

} // namespace mbc::dsl
