#include "dsl/EvaluationScope.h"

#include <algorithm>
#include <bit>
#include <set>

#include <fmt/ranges.h>

namespace mbc::dsl {
namespace {

Side otherSide(Side side) {
  return side == Side::Hf ? Side::Megatron : Side::Hf;
}

} // namespace

bool Evaluation::forEachRule(const Body &body, Side which, const SeeSide &see) {
  for (const Statement &statement : body)
    if (forEachRule(statement, which, see))
      return true;
  return false;
}

bool Evaluation::forEachRule(const Statement &statement, Side which,
                             const SeeSide &see) {
  struct Visitor {
    Evaluation &self;
    const Statement &statement;
    Side which;
    const SeeSide &see;
    bool stopped = false;

    void look(const Body &body) {
      stopped = self.forEachRule(body, which, see);
    }
    void operator()(const Rule &rule) {
      const Expr &expr = which == Side::Megatron ? *rule.megatron : *rule.hf;
      bool subtree = expr.kind == Expr::Kind::Name && expr.name->wildcard;
      RuleSide side;
      if (!subtree && self.side(expr, nullptr, which, side) &&
          side.optional != side.names.size())
        stopped = see(side);
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
  Visitor visitor{*this, statement, which, see};
  std::visit(visitor, statement.node);
  return visitor.stopped;
}

std::optional<std::string> Evaluation::firstName(const Body &body, Side which) {
  std::optional<std::string> name;
  forEachRule(body, which, [&](const RuleSide &side) {
    name = side.names[0];
    return true;
  });
  return name;
}

const Form *Evaluation::preferred(const std::vector<const Form *> &forms) {
  auto labelled = [&](std::string word) -> const Form * {
    std::replace(word.begin(), word.end(), '-', '_'); // as options spell it
    auto found = std::ranges::find(forms, word, &Form::label);
    return found == forms.end() ? nullptr : *found;
  };
  for (const std::string &word : oracle.preferredForms)
    if (const Form *form = labelled(word))
      return form;
  if (const Form *form = recorded(forms))
    return form;
  return forms.front();
}

/// The form whose first name the record has, if each form has a name of its
/// own; else the one that the record lists.
const Form *Evaluation::recorded(const std::vector<const Form *> &forms) {
  std::set<std::string> names;
  const Form *named = nullptr;
  for (const Form *form : forms)
    if (FormName name = firstName(form->body, otherSide(oracle.known));
        name && names.insert(*name).second && !named && oracle.recorded &&
        oracle.recorded(*name))
      named = form;
  if (named && names.size() == forms.size())
    return named;
  for (const Form *form : forms)
    if (std::ranges::find(oracle.recordedForms, form->label) !=
        oracle.recordedForms.end())
      return form;
  return named;
}

/// The forms whose first name is there; nothing if an error was reported.
std::optional<std::vector<const Form *>>
Evaluation::fittingNames(const Statement &statement, const Either &either,
                         std::span<const FormName> names,
                         std::string &example) {
  std::vector<const Form *> fitting;
  for (size_t i = 0; oracle.exists && i != names.size(); ++i) {
    if (!names[i] || !oracle.exists(*names[i]))
      continue;
    if (!example.empty() && example != *names[i]) {
      reporter.error(
          statement.where,
          fmt::format(
              "two forms fit: '{}' is there, and so is '{}'; exactly one of "
              "them may be",
              example, *names[i]));
      return std::nullopt;
    }
    example = *names[i];
    fitting.push_back(&either.forms[i]);
  }
  return fitting;
}

/// What a form says of the extents of its tensors: `x:[a, b]`.
struct WrittenShape {
  std::string name;
  std::vector<int64_t> leading;
  friend bool operator==(const WrittenShape &, const WrittenShape &) = default;
};

static void addWrittenShapes(const RuleSide &side,
                             std::vector<WrittenShape> &shapes) {
  for (const Node &node : decodeSide(side.code))
    if (node.kind == OpKind::Tensor && !node.ints.empty())
      shapes.push_back({side.names[node.operand], node.ints});
}

/// Of forms that read the same names, those whose written extents fit; `told`:
/// they write some. Two that fit are an error unless they write the same: a
/// square matrix does not say which way round it is.
std::optional<std::vector<const Form *>>
Evaluation::fittingExtents(const Statement &statement, const Either &either,
                           std::string &example, bool &told) {
  std::vector<WrittenShape> first, chosen;
  forEachRule(either.forms[0].body, oracle.known, [&](const RuleSide &side) {
    addWrittenShapes(side, first);
    return true;
  });
  std::vector<const Form *> fitting;
  told = !first.empty() && oracle.extentsOf != nullptr;
  if (!told)
    return fitting;
  for (const Form &form : either.forms) {
    std::vector<WrittenShape> shapes;
    forEachRule(form.body, oracle.known, [&](const RuleSide &side) {
      addWrittenShapes(side, shapes);
      return false;
    });
    bool fits = std::ranges::all_of(shapes, [&](const WrittenShape &shape) {
      std::vector<int64_t> found = oracle.extentsOf(shape.name);
      return found.empty() || (found.size() >= shape.leading.size() &&
                               std::equal(shape.leading.begin(),
                                          shape.leading.end(), found.begin()));
    });
    if (!fits)
      continue;
    if (!fitting.empty() && shapes != chosen) {
      reporter.error(
          statement.where,
          fmt::format("forms {} and {} both fit the shape [{}] of '{}'; their "
                      "tensors have different orders of axes, and nothing "
                      "says which is meant",
                      fitting[0]->label, form.label,
                      fmt::join(first[0].leading, ", "), first[0].name));
      return std::nullopt;
    }
    fitting.push_back(&form);
    chosen = std::move(shapes);
  }
  if (!fitting.empty())
    example = first[0].name;
  return fitting;
}

const Form *Evaluation::choose(const Statement &statement, const Either &either,
                               bool probing) {
  std::vector<int64_t> place{std::bit_cast<int64_t>(&either)};
  place.insert(place.end(), callSites.begin(), callSites.end());
  Chosen &chosen = choiceOf[std::move(place)];
  std::vector<const Form *> all;
  std::vector<FormName> names;
  for (const Form &form : either.forms) {
    all.push_back(&form);
    names.push_back(firstName(form.body, oracle.known));
  }
  bool alike = std::all_of(names.begin(), names.end(),
                           [&](const auto &name) { return name == names[0]; });
  std::string example;
  bool told = false;
  std::optional<std::vector<const Form *>> fitting =
      alike ? fittingExtents(statement, either, example, told)
            : fittingNames(statement, either, names, example);
  if (!fitting)
    return nullptr;
  const Form *form = preferred(!fitting->empty() ? *fitting : all);
  bool decided = (alike && !told) || !oracle.exists || !fitting->empty();
  // Where no form's first name is there, or no extents fit, what is wrong is
  // reported with the form that the other instances have.
  if (!decided || probing)
    return chosen.form && !decided ? chosen.form : form;
  if (!chosen.form) {
    chosen = {form, example};
    bool ofTarget = alike && fitting->empty();
    model.choices.push_back({ofTarget ? otherSide(oracle.known) : oracle.known,
                             form->label, example, statement.where});
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
