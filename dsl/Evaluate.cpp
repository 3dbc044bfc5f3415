#include "dsl/EvaluationScope.h"

#include <fmt/format.h>

namespace mbc::dsl {

bool Evaluation::enter(const Name &name, Side side) {
  if (name.stay)
    return true;
  std::string &text = prefix(side);
  if (name.fromRoot)
    text.clear();
  if (!values.appendName(name, text))
    return false;
  text += '.';
  return true;
}

std::optional<std::string> Evaluation::fullName(const Name &name, Side side) {
  std::string text;
  const std::string &start = prefix(side);
  text.reserve(start.size() + name.spelling.size() + 8);
  if (!name.fromRoot)
    text = start;
  if (!values.appendName(name, text))
    return std::nullopt;
  return text;
}

void Evaluation::walk(const Body &body) {
  for (const Statement &statement : body)
    visit(statement);
}

void Evaluation::visit(const Statement &statement) {
  struct Visitor {
    Evaluation &self;
    const Statement &statement;
    void operator()(const Rule &rule) { self.addRule(statement, rule); }
    void operator()(const Scope &scope) {
      self.inScope(scope, [&] { self.walk(scope.body); });
    }
    void operator()(const For &loop) { self.loop(loop); }
    void operator()(const If &choice) {
      self.inBranch(choice, [&](const Body &body) { self.walk(body); });
    }
    void operator()(const Match &match) {
      if (const Body *body = self.caseOf(match))
        self.walk(*body);
    }
    void operator()(const Either &either) {
      if (const Form *form = self.choose(statement, either, false))
        self.walk(form->body);
    }
    void operator()(const Call &call) {
      self.inBlock(call, [&](const Block &block) { self.walk(block.body); });
    }
    void operator()(const TiedStatement &tied) {
      self.addTied(statement, tied);
    }
    void operator()(const IgnoreStatement &ignore) { self.addIgnored(ignore); }
    void operator()(const ExtraStateStatement &extra) {
      self.addExtraState(extra);
    }
  };
  std::visit(Visitor{*this, statement}, statement.node);
}

void Evaluation::loop(const For &loop) {
  auto range = values.bounds(*loop.from, *loop.to);
  if (!range || range->first >= range->second)
    return;
  values.push(loop.variable, {});
  for (int64_t at = range->first; at < range->second; ++at) {
    if (!values.step(loop.to->where))
      break;
    values.setLast(at);
    walk(loop.body);
  }
  values.pop();
}

const Body *Evaluation::caseOf(const Match &match) {
  std::optional<Datum> value = values.evaluate(*match.value);
  if (!value)
    return nullptr;
  const std::string *word = std::get_if<std::string>(&value->value);
  std::vector<std::string> allowed;
  for (const MatchCase &entry : match.cases) {
    if (word && entry.word == *word)
      return &entry.body;
    allowed.push_back("\"" + entry.word + "\"");
  }
  reporter.error(
      match.value->where,
      fmt::format("{} is not one of the words listed here: {}{}",
                  describe(*value), fmt::join(allowed, ", "),
                  value->node ? "" : values.correctionOf(*match.value)));
  return nullptr;
}

void Evaluation::addTied(const Statement &statement,
                         const TiedStatement &tied) {
  Side side = tied.megatron ? Side::Megatron : Side::Hf;
  std::optional<std::string> copy = fullName(tied.copy, side);
  std::optional<std::string> owner = fullName(tied.owner, side);
  if (!copy || !owner)
    return;
  // What never existed needs no copy.
  if (tied.copy.optional && oracle.known == side && !present(*copy))
    return;
  model.ties.push_back({side, std::move(*copy), std::move(*owner),
                        tied.copy.optional, stageOf(tied.attributes),
                        statement.where});
}

void Evaluation::addIgnored(const IgnoreStatement &ignore) {
  for (const Name &name : ignore.patterns)
    if (std::optional<std::string> pattern = fullName(name, Side::Hf))
      model.ignores.push_back({std::move(*pattern), name.optional, name.where});
}

void Evaluation::addExtraState(const ExtraStateStatement &extra) {
  int64_t experts = 0;
  if (extra.experts) {
    std::optional<int64_t> count = values.integer(*extra.experts);
    if (!count)
      return;
    experts = *count;
  }
  for (const Name &name : extra.modules)
    if (std::optional<std::string> module = fullName(name, Side::Megatron))
      model.extraStates.push_back({std::move(*module), experts});
}

Model Evaluation::run() {
  addModel();
  walk(spec.statements);
  addConfig();
  model.unreadConfigFields = unreadFields(config);
  model.missingConfigFields.assign(values.missingFields.begin(),
                                   values.missingFields.end());
  model.configNotes.assign(values.configNotes.begin(),
                           values.configNotes.end());
  return std::move(model);
}

Model evaluate(const Spec &spec, std::string_view configJson,
               const NameOracle &oracle, Diagnostics &diagnostics) {
  Result<ConfigNode> config = parseConfig(configJson);
  if (!config) {
    diagnostics.error({}, config.error().message);
    return {};
  }
  if (!spec.model) {
    diagnostics.error(
        {}, fmt::format("{} declares no model; write model NAME {{ ... }}",
                        spec.files.empty() ? "the spec" : spec.files[0]->path));
    return {};
  }
  Model model = Evaluation(spec, *config, oracle, diagnostics).run();
  model.configContradictions = contradictions(*config, configJson);
  return model;
}

} // namespace mbc::dsl
