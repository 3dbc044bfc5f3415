#pragma once

#include "dsl/Evaluation.h"

#include <bit>

/// How the walkers of Evaluate.cpp and EvaluateEither.cpp enter a scope, a
/// block and a branch, and leave it.
namespace mbc::dsl {

template <typename Visit>
void Evaluation::inScope(const Scope &scope, Visit visit) {
  std::string megatron = megatronPrefix, hf = hfPrefix;
  scopeNames.push_back(&scope.megatron);
  callSites.push_back(std::bit_cast<int64_t>(&scope));
  if (enter(scope.megatron, Side::Megatron) && enter(scope.hf, Side::Hf))
    visit();
  callSites.pop_back();
  scopeNames.pop_back();
  megatronPrefix = std::move(megatron);
  hfPrefix = std::move(hf);
}

template <typename Visit>
void Evaluation::inBlock(const Call &call, Visit visit) {
  if (!values.step(call.where))
    return;
  const Block &block = spec.blocks.at(call.symbol);
  std::vector<std::pair<Datum, ConfigFields>> arguments;
  for (const Argument &argument : call.arguments) {
    Expressions::Trace seen(values);
    std::optional<Datum> value = values.evaluate(*argument.value);
    if (!value)
      return;
    arguments.emplace_back(std::move(*value), seen.fields);
  }
  for (size_t i = 0; i != arguments.size(); ++i)
    values.push(block.parameters[i], std::move(arguments[i].first),
                std::move(arguments[i].second));
  size_t base = values.hideLocals(arguments.size());
  reporter.pushCall(call.where, "block", call.callee);
  callSites.push_back(std::bit_cast<int64_t>(&call));
  visit(block);
  callSites.pop_back();
  reporter.popCall();
  values.restoreLocals(base);
  values.pop(arguments.size());
}

/// Visits the branch that holds, if any.
template <typename Visit>
void Evaluation::inBranch(const If &choice, Visit visit) {
  size_t conditions = 0;
  for (const Branch &branch : choice.branches) {
    bool holds = true;
    if (branch.condition) {
      std::optional<Datum> datum = values.truth(*branch.condition);
      if (!datum)
        break;
      holds = std::get<bool>(datum->value);
      if (datum->node) { // a field of config.json decides by itself
        reporter.pushCondition(branch.condition->where, *datum);
        ++conditions;
      }
    }
    if (holds) {
      visit(branch.body);
      break;
    }
  }
  reporter.popConditions(conditions);
}

} // namespace mbc::dsl
