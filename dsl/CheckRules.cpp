#include "dsl/Check.h"

#include "dsl/Expression.h"

#include <algorithm>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

bool isTensorName(const Expr &expr) { return expr.kind == Expr::Kind::Name; }

bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// False where a rule's side is made of constants only.
bool readsTensor(const Expr &expr) {
  return expr.kind != Expr::Kind::Call ||
         (expr.call->callee != "init" &&
          std::any_of(
              expr.call->arguments.begin(), expr.call->arguments.end(),
              [](const Argument &piece) { return readsTensor(*piece.value); }));
}

std::string suggestion(const std::string &name,
                       const std::vector<std::string> &names) {
  std::string near = didYouMean(name, names);
  return near.empty() ? fmt::format("; known are {}", fmt::join(names, ", "))
                      : fmt::format("; did you mean '{}'?", near);
}

} // namespace

const std::vector<std::string> &operationNames() {
  static const std::vector<std::string> names{
      "concat",       "stack",  "reshape", "transpose", "slice",
      "deinterleave", "repeat", "add",     "scale",     "init"};
  return names;
}

void Checker::rule(const Rule &rule) {
  auto wildcard = [](const Expr &expr) {
    return isTensorName(expr) && expr.name->wildcard;
  };
  if (wildcard(*rule.megatron) || wildcard(*rule.hf))
    subtree(rule);
  else {
    tensor(*rule.megatron);
    tensor(*rule.hf);
  }
  attributes(rule.attributes, {"shard", "dim", "stage", "dtype", "hf_dtype"});
  hfDType(rule);
  sectionNames(rule);
}

void Checker::hfDType(const Rule &rule) {
  for (const Attribute &attribute : rule.attributes)
    if (attribute.key == "hf_dtype" && !readsTensor(*rule.hf))
      diagnostics.error(attribute.where,
                        "'hf_dtype' is the dtype of a Hugging Face tensor, "
                        "and this rule has none");
}

void Checker::subtree(const Rule &rule) {
  for (const Expr *side : {rule.megatron.get(), rule.hf.get()}) {
    bool good =
        isTensorName(*side) && side->name->segments.size() > 1 &&
        side->name->segments.back() == "**" &&
        side->name->spelling.find('*') == side->name->spelling.size() - 2;
    if (!good)
      diagnostics.error(
          side->where,
          "a subtree is written NAME.** on both sides, with no other "
          "wildcard");
  }
}

void Checker::tensor(const Expr &expr) {
  if (expr.kind == Expr::Kind::Call)
    return tensorCall(*expr.call);
  if (!isTensorName(expr)) {
    diagnostics.error(expr.where,
                      "a tensor is needed here: a name or an operation");
    return;
  }
  if (expr.name->wildcard)
    diagnostics.error(
        expr.where,
        "a wildcard stands only in a rule of two subtrees, in ignore "
        "and in config");
  holes(*expr.name);
}

void Checker::keyed(const Call &call, const Argument &argument,
                    const char *allowed) {
  if (argument.key == allowed && argument.key.size())
    return value(*argument.value);
  diagnostics.error(
      argument.value->where,
      fmt::format("'{}' has no argument '{}'{}", call.callee, argument.key,
                  *allowed ? fmt::format("; it has '{}'", allowed) : ""));
}

void Checker::operation(const Call &call) {
  bool many = call.callee == "concat" || call.callee == "stack";
  bool slice = call.callee == "slice";
  if (call.variable != noSymbol) {
    if (!many)
      diagnostics.error(call.where,
                        "only 'stack' and 'concat' repeat over a range");
    value(*call.from);
    value(*call.to);
    scope.push_back(call.variable);
  }
  size_t plain = 0;
  for (const Argument &argument : call.arguments) {
    if (!argument.key.empty()) {
      keyed(call, argument, many || slice ? "dim" : "");
      continue;
    }
    bool isTensor = many || (plain == 0 && call.callee != "init");
    ++plain;
    if (isTensor)
      tensor(*argument.value);
    else if (argument.value->kind == Expr::Kind::List)
      for (const ExprPtr &item : argument.value->operands) {
        if (item->kind != Expr::Kind::Rest || call.callee != "reshape")
          value(*item);
        else if (item != argument.value->operands.back())
          diagnostics.error(item->where, "'...' stands at the end of a shape");
      }
    else
      value(*argument.value);
    if (argument.extent)
      value(*argument.extent);
  }
  if (call.variable != noSymbol)
    scope.pop_back();
  if (many && plain == 0)
    diagnostics.error(
        call.where, fmt::format("'{}' needs at least one tensor", call.callee));
  size_t wanted = slice || call.callee == "deinterleave" ? 3 : 2;
  if (!many && plain != wanted)
    diagnostics.error(call.where,
                      fmt::format("'{}' takes {} arguments, {} {} given",
                                  call.callee, wanted, plain,
                                  plain == 1 ? "is" : "are"));
}

void Checker::tensorCall(const Call &call) {
  if (contains(operationNames(), call.callee))
    return operation(call);
  auto def = spec.defs.find(call.symbol);
  if (def == spec.defs.end()) {
    std::vector<std::string> names = operationNames();
    for (const auto &[symbol, entry] : spec.defs)
      names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    diagnostics.error(call.where,
                      fmt::format("'{}' is neither an operation nor a def{}",
                                  call.callee, suggestion(call.callee, names)));
    return;
  }
  arity(call, def->second.parameters.size(), &def->second.where, "def");
  if (call.variable != noSymbol)
    diagnostics.error(call.where,
                      "only 'stack' and 'concat' repeat over a range");
  const std::set<Symbol> &tensors = tensorParameters(def->second);
  argumentNames(call, def->second.parameters, tensors);
  for (size_t i = 0;
       i != std::min(call.arguments.size(), def->second.parameters.size());
       ++i) {
    const Argument &argument = call.arguments[i];
    if (!argument.key.empty())
      keyed(call, argument, "");
    else if (tensors.contains(def->second.parameters[i]))
      tensor(*argument.value);
    else
      value(*argument.value);
    if (argument.extent)
      value(*argument.extent);
  }
}

void Checker::collectTensors(const Expr &expr, const Def &def,
                             std::set<Symbol> &out) {
  const std::vector<Symbol> &parameters = def.parameters;
  if (isTensorName(expr)) {
    if (std::find(parameters.begin(), parameters.end(), expr.name->head) !=
        parameters.end())
      out.insert(expr.name->head);
    return;
  }
  if (expr.kind != Expr::Kind::Call)
    return;
  const Call &call = *expr.call;
  bool many = call.callee == "concat" || call.callee == "stack";
  if (contains(operationNames(), call.callee)) {
    for (size_t i = 0; i != call.arguments.size(); ++i)
      if (call.arguments[i].key.empty() &&
          (many || (i == 0 && call.callee != "init")))
        collectTensors(*call.arguments[i].value, def, out);
    return;
  }
  auto callee = spec.defs.find(call.symbol);
  if (callee == spec.defs.end())
    return;
  const std::set<Symbol> &tensors = tensorParameters(callee->second);
  for (size_t i = 0;
       i != std::min(call.arguments.size(), callee->second.parameters.size());
       ++i)
    if (tensors.contains(callee->second.parameters[i]))
      collectTensors(*call.arguments[i].value, def, out);
}

const std::set<Symbol> &Checker::tensorParameters(const Def &def) {
  auto [known, isNew] = tensorParameters_.try_emplace(&def);
  if (isNew && def.body->kind == Expr::Kind::Call) {
    std::set<Symbol> found;
    collectTensors(*def.body, def, found);
    tensorParameters_[&def] = std::move(found);
  }
  return tensorParameters_[&def];
}

void Checker::tied(const TiedStatement &tied) {
  for (const Name *name : {&tied.copy, &tied.owner}) {
    if (name->wildcard)
      diagnostics.error(name->where,
                        "a tie names one tensor; a wildcard cannot stand here");
    holes(*name);
  }
  attributes(tied.attributes, {"stage"});
}

} // namespace mbc::dsl
