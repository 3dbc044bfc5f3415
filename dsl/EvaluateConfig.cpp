#include "dsl/Evaluation.h"

#include <fmt/format.h>

namespace mbc::dsl {

int64_t Evaluation::integerOr(const ExprPtr &expr, int64_t fallback) {
  if (!expr)
    return fallback;
  std::optional<int64_t> value = values.integer(*expr);
  if (value && *value < 0)
    reporter.error(expr->where,
                   fmt::format("a count is needed here, not {}{}", *value,
                               values.correctionOf(*expr)));
  return value.value_or(fallback);
}

void Evaluation::addModel() {
  const ModelDeclaration &declared = *spec.model;
  model.name = declared.name;
  model.architectures = declared.architectures;
  model.megatron = declared.megatron;
  model.layers = integerOr(declared.layers, 0);
  model.layersStacked = declared.stacked;
  if (declared.stackedIf)
    model.layersStacked = values.condition(*declared.stackedIf).value_or(false);
  model.experts = integerOr(declared.experts, 0);
  model.vocabSize = integerOr(declared.vocab, 0);
  model.vocabMultiple = integerOr(declared.vocabMultiple, 128);
  model.patternField = declared.patternField;
  model.patternCutBefore = declared.patternCutBefore;
}

void Evaluation::addConfig() {
  for (const ConfigAssignment &field : spec.config) {
    Expressions::Trace seen(values);
    std::optional<Datum> value = values.evaluate(*field.value);
    if (value && value->isObject())
      reporter.error(
          field.where,
          fmt::format("'{}' would be {}; a Megatron field holds a number, "
                      "a string or a list",
                      field.field, describe(*value)));
    else if (value)
      model.config.push_back({field.field, std::move(value->value), field.where,
                              describe(seen.fields)});
  }
  for (const Name &name : spec.ignoredFields) {
    std::vector<std::string> path(name.segments.begin() + 1,
                                  name.segments.end());
    markIgnored(config, path);
  }
}

} // namespace mbc::dsl
