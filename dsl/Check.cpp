#include "dsl/Check.h"

#include "dsl/Expression.h"
#include "dsl/Parse.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

std::string suggestion(const std::string &name,
                       const std::vector<std::string> &names) {
  std::string near = didYouMean(name, names);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

} // namespace

bool Checker::known(Symbol symbol) const {
  return std::find(scope.begin(), scope.end(), symbol) != scope.end() ||
         spec.lets.contains(symbol);
}

std::vector<std::string> Checker::visibleNames() const {
  std::vector<std::string> names{"hf"};
  for (Symbol symbol : scope)
    names.push_back(spec.symbols[symbol]);
  for (const auto &[symbol, let] : spec.lets)
    names.push_back(let.name);
  std::sort(names.begin(), names.end());
  return names;
}

void Checker::holes(const Name &name) {
  for (const NamePiece &piece : name.pieces)
    if (piece.hole)
      value(*piece.hole);
}

void Checker::valueName(const Name &name) {
  if (name.segments.empty() || name.wildcard || name.fromRoot) {
    diagnostics.error(name.where,
                      fmt::format("'{}' names a tensor; a value is needed here",
                                  name.spelling));
    return;
  }
  if (name.segments[0] == "hf" || known(name.head))
    return;
  diagnostics.error(
      name.where,
      fmt::format("'{}' is neither a let, nor a parameter, nor a loop "
                  "variable{}",
                  name.segments[0],
                  suggestion(name.segments[0], visibleNames())));
}

void Checker::arity(const Call &call, size_t expected,
                    const SourceRange *declared, const char *kind) {
  if (call.arguments.size() == expected)
    return;
  std::vector<Note> notes;
  if (declared)
    notes.push_back({*declared, fmt::format("{} '{}' is declared here", kind,
                                            call.callee)});
  diagnostics.error(call.where,
                    fmt::format("'{}' takes {} argument{}, {} {} given",
                                call.callee, expected, expected == 1 ? "" : "s",
                                call.arguments.size(),
                                call.arguments.size() == 1 ? "is" : "are"),
                    std::move(notes));
}

void Checker::valueCall(const Call &call) {
  for (const Argument &argument : call.arguments) {
    if (!argument.key.empty() || argument.extent || argument.optional)
      diagnostics.error(argument.value->where,
                        "a value has no key, no extent and no '?'");
    value(*argument.value);
  }
  if (call.variable != noSymbol)
    diagnostics.error(call.where,
                      "only 'stack' and 'concat' repeat over a range");
  if (auto def = spec.defs.find(call.symbol); def != spec.defs.end())
    return arity(call, def->second.parameters.size(), &def->second.where,
                 "def");
  const std::vector<std::string> &builtins = builtinNames();
  if (std::find(builtins.begin(), builtins.end(), call.callee) !=
      builtins.end()) {
    if (call.callee != "min" && call.callee != "max")
      return arity(
          call, call.callee == "present" || call.callee == "expected" ? 3 : 1,
          nullptr, "");
    if (call.arguments.empty())
      diagnostics.error(
          call.where,
          fmt::format("'{}' needs at least one argument", call.callee));
    return;
  }
  const std::vector<std::string> &operations = operationNames();
  if (std::find(operations.begin(), operations.end(), call.callee) !=
      operations.end()) {
    diagnostics.error(call.where,
                      fmt::format("'{}' gives a tensor; a value is needed here",
                                  call.callee));
    return;
  }
  std::vector<std::string> names = builtins;
  for (const auto &[symbol, def] : spec.defs)
    names.push_back(def.name);
  diagnostics.error(call.where,
                    fmt::format("'{}' is neither a def nor a function{}",
                                call.callee, suggestion(call.callee, names)));
}

void Checker::value(const Expr &expr) {
  if (expr.kind == Expr::Kind::Name)
    return valueName(*expr.name);
  if (expr.kind == Expr::Kind::Call)
    return valueCall(*expr.call);
  if (expr.kind == Expr::Kind::Rest)
    diagnostics.error(expr.where,
                      "'...' stands only in the shape of a reshape");
  bool variable = expr.kind == Expr::Kind::Comprehension;
  for (size_t i = 0; i != expr.operands.size(); ++i) {
    if (variable && i == 2)
      scope.push_back(expr.variable);
    value(*expr.operands[i]);
  }
  if (variable)
    scope.pop_back();
}

void Checker::blockCall(const Call &call) {
  for (const Argument &argument : call.arguments) {
    if (!argument.key.empty() || argument.extent || argument.optional)
      diagnostics.error(argument.value->where,
                        "a block's argument has no key, no extent and no '?'");
    value(*argument.value);
  }
  if (auto block = spec.blocks.find(call.symbol); block != spec.blocks.end()) {
    argumentNames(call, block->second.parameters, {});
    return arity(call, block->second.parameters.size(), &block->second.where,
                 "block");
  }
  std::vector<std::string> names;
  for (const auto &[symbol, block] : spec.blocks)
    names.push_back(block.name);
  diagnostics.error(call.where,
                    fmt::format("there is no block '{}'{}", call.callee,
                                suggestion(call.callee, names)));
}

void Checker::walk(const Body &body) {
  for (const Statement &entry : body)
    statement(entry);
}

void Checker::statement(const Statement &entry) {
  struct Visitor {
    Checker &self;
    const Statement &entry;
    void operator()(const Rule &rule) { self.rule(rule); }
    void operator()(const Scope &scope) {
      self.holes(scope.megatron);
      self.holes(scope.hf);
      self.walk(scope.body);
    }
    void operator()(const For &loop) {
      self.value(*loop.from);
      self.value(*loop.to);
      self.scope.push_back(loop.variable);
      self.walk(loop.body);
      self.scope.pop_back();
    }
    void operator()(const If &choice) {
      for (const Branch &branch : choice.branches) {
        if (branch.condition)
          self.value(*branch.condition);
        self.walk(branch.body);
      }
    }
    void operator()(const Match &match) {
      self.value(*match.value);
      for (const MatchCase &matchCase : match.cases)
        self.walk(matchCase.body);
    }
    void operator()(const Either &either) {
      for (const Form &form : either.forms)
        self.walk(form.body);
    }
    void operator()(const Call &call) { self.blockCall(call); }
    void operator()(const TiedStatement &tied) { self.tied(tied); }
    void operator()(const IgnoreStatement &ignore) {
      for (const Name &name : ignore.patterns)
        self.holes(name);
    }
    void operator()(const ExtraStateStatement &extra) {
      for (const Name &name : extra.modules)
        self.holes(name);
      if (extra.experts)
        self.value(*extra.experts);
    }
  };
  std::visit(Visitor{*this, entry}, entry.node);
}

void Checker::config() {
  std::map<std::string, const ConfigAssignment *> seen;
  for (const ConfigAssignment &field : spec.config) {
    value(*field.value);
    auto [entry, added] = seen.try_emplace(field.field, &field);
    if (!added)
      diagnostics.error(field.where,
                        fmt::format("field '{}' is set twice", field.field),
                        {{entry->second->where, "the other place"}});
  }
  for (const auto *names : {&spec.ignoredFields, &spec.writtenFields})
    for (const Name &name : *names)
      if (name.segments.size() < 2 || name.segments[0] != "hf")
        diagnostics.error(
            name.where,
            fmt::format("'{}' is no field of config.json; write hf.NAME",
                        name.spelling));
  if (!spec.model)
    return;
  const ModelDeclaration &model = *spec.model;
  for (const ExprPtr *expr : {&model.layers, &model.stackedIf, &model.experts,
                              &model.vocab, &model.vocabMultiple})
    if (*expr)
      value(**expr);
}

void Checker::run() {
  for (const auto &[symbol, let] : spec.lets)
    value(*let.value);
  for (const auto &[symbol, def] : spec.defs) {
    scope = def.parameters;
    const Expr &body = *def.body;
    const std::vector<std::string> &names = operationNames();
    bool isTensor = !tensorParameters(def).empty() ||
                    (body.kind == Expr::Kind::Call &&
                     std::find(names.begin(), names.end(), body.call->callee) !=
                         names.end());
    isTensor ? tensor(body) : value(body);
    Symbol last = noSymbol;
    tensorOrder(body, def, last);
  }
  for (const auto &[symbol, block] : spec.blocks) {
    scope = block.parameters;
    walk(block.body);
    ruleNames(block.body);
  }
  scope.clear();
  walk(spec.statements);
  ruleNames(spec.statements);
  config();
}

} // namespace mbc::dsl
