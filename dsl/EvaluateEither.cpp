#include "dsl/EvaluationScope.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

Side otherSide(Side side) {
  return side == Side::Hf ? Side::Megatron : Side::Hf;
}

} // namespace

std::optional<std::string> Evaluation::firstName(const Body &body, Side which) {
  for (const Statement &statement : body)
    if (std::optional<std::string> name = firstName(statement, which))
      return name;
  return std::nullopt;
}

std::optional<std::string> Evaluation::firstName(const Statement &statement,
                                                 Side which) {
  struct Visitor {
    Evaluation &self;
    const Statement &statement;
    Side which;
    std::optional<std::string> found;

    void look(const Body &body) { found = self.firstName(body, which); }
    void operator()(const Rule &rule) {
      const Expr &expr = which == Side::Megatron ? *rule.megatron : *rule.hf;
      bool subtree = expr.kind == Expr::Kind::Name && expr.name->wildcard;
      RuleSide side;
      if (!subtree && self.side(expr, nullptr, which, side) &&
          side.optional != side.names.size())
        found = std::move(side.names[0]);
    }
    void operator()(const Scope &scope) {
      self.inScope(scope, [&] { look(scope.body); });
    }
    void operator()(const For &loop) {
      auto range = self.values.bounds(*loop.from, *loop.to);
      if (!range || range->first >= range->second)
        return;
      self.values.push(loop.variable, Datum{Value(range->first)});
      look(loop.body);
      self.values.pop();
    }
    void operator()(const If &choice) {
      self.inBranch(choice, [&](const Body &body) { look(body); });
    }
    void operator()(const Match &match) {
      if (const Body *body = self.caseOf(match))
        look(*body);
    }
    void operator()(const Either &either) {
      if (const Form *form = self.choose(statement, either, true))
        look(form->body);
    }
    void operator()(const Call &call) {
      self.inBlock(call, [&](const Block &block) { look(block.body); });
    }
    void operator()(const TiedStatement &) {}
    void operator()(const IgnoreStatement &) {}
    void operator()(const ExtraStateStatement &) {}
  };
  Visitor visitor{*this, statement, which, std::nullopt};
  std::visit(visitor, statement.node);
  return std::move(visitor.found);
}

const Form *Evaluation::preferred(const std::vector<const Form *> &forms) {
  for (std::string word : oracle.preferredForms) {
    std::replace(word.begin(), word.end(), '-', '_'); // as options spell it
    for (const Form *form : forms)
      if (form->label == word)
        return form;
  }
  if (oracle.recorded)
    for (const Form *form : forms)
      if (auto name = firstName(form->body, otherSide(oracle.known));
          name && oracle.recorded(*name))
        return form;
  return forms.front();
}

const Form *Evaluation::choose(const Statement &statement, const Either &either,
                               bool probing) {
  std::vector<int64_t> place{std::bit_cast<int64_t>(&either)};
  place.insert(place.end(), callSites.begin(), callSites.end());
  Chosen &chosen = choiceOf[std::move(place)];
  std::vector<const Form *> all, fitting;
  std::vector<std::optional<std::string>> names;
  for (const Form &form : either.forms) {
    all.push_back(&form);
    names.push_back(firstName(form.body, oracle.known));
  }
  bool alike = std::all_of(names.begin(), names.end(),
                           [&](const auto &name) { return name == names[0]; });
  std::string example;
  if (!alike && oracle.exists)
    for (size_t i = 0; i != all.size(); ++i) {
      if (!names[i] || !oracle.exists(*names[i]))
        continue;
      if (!example.empty() && example != *names[i]) {
        reporter.error(
            statement.where,
            fmt::format(
                "two forms fit: '{}' is there, and so is '{}'; exactly one of "
                "them may be",
                example, *names[i]));
        return nullptr;
      }
      example = *names[i];
      fitting.push_back(all[i]);
    }
  const Form *form = preferred(!fitting.empty() ? fitting : all);
  bool decided = alike || !oracle.exists || !fitting.empty();
  // Where no form's first name is there, what is missing is reported with the
  // form that the other instances have.
  if (!decided || probing)
    return chosen.form && !decided ? chosen.form : form;
  if (!chosen.form) {
    chosen = {form, example};
    model.choices.push_back({alike ? otherSide(oracle.known) : oracle.known,
                             form->label, statement.where});
  } else if (chosen.form != form) {
    reporter.error(
        statement.where,
        fmt::format("mixed layouts: '{}' is of form {}, '{}' is of form {}",
                    chosen.example, chosen.form->label, example, form->label));
    return nullptr;
  }
  return form;
}

} // namespace mbc::dsl
