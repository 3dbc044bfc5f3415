#include "dsl/Check.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

/// Names that contradict one another. Tensors of equal shape can change places
/// without any header showing it; what people call them can.
namespace mbc::dsl {
namespace {

using Words = std::vector<std::string>;

/// "self_attn.k_proj.weight": self, attn, k, proj, weight.
Words wordsOf(std::string_view text) {
  Words words(1);
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty())
    words.pop_back();
  return words;
}

bool has(const Words &words, const std::string &word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Words without(const Words &words, const Words &others) {
  Words rest;
  for (const std::string &word : words)
    if (!has(others, word))
      rest.push_back(word);
  return rest;
}

/// What a place is called and what stands there.
struct Filled {
  std::string place, spelling;
  SourceRange where;
};

/// The first place whose filling bears another place's name, while the filling
/// of that one does not: the two have changed places.
template <typename Bears>
const Filled *contradiction(const std::vector<Filled> &filled, Bears bears,
                            const Filled *&other) {
  for (const Filled &mine : filled)
    for (const Filled &its : filled)
      if (!bears(mine, mine.place) && bears(mine, its.place) &&
          !bears(its, its.place)) {
        other = &its;
        return &mine;
      }
  return nullptr;
}

} // namespace

void Checker::argumentNames(const Call &call,
                            const std::vector<Symbol> &parameters,
                            const std::set<Symbol> &tensors) {
  std::vector<Filled> filled;
  std::vector<const Argument *> arguments;
  for (size_t i = 0; i != std::min(call.arguments.size(), parameters.size());
       ++i) {
    const Expr &expr = *call.arguments[i].value;
    std::string spelling = expr.kind == Expr::Kind::Name ? expr.name->spelling
                           : expr.kind == Expr::Kind::String ? expr.text
                                                             : "";
    filled.push_back({spec.symbols[parameters[i]], spelling, expr.where});
    bool isName =
        tensors.contains(parameters[i]) || expr.kind == Expr::Kind::String;
    arguments.push_back(isName ? &call.arguments[i] : nullptr);
  }
  // A number is called as the parameter or not at all; a tensor's name holds
  // the parameter's as a word.
  auto bears = [&](const Filled &entry, const std::string &place) {
    return entry.spelling == place ||
           (arguments[static_cast<size_t>(&entry - filled.data())] &&
            has(wordsOf(entry.spelling), place));
  };
  const Filled *other = nullptr;
  if (const Filled *mine = contradiction(filled, bears, other))
    diagnostics.error(
        mine->where,
        fmt::format("'{}' is given as '{}' here, and '{}' as '{}': the names "
                    "say the opposite; swap the arguments or rename the "
                    "parameters",
                    mine->spelling, mine->place, other->spelling,
                    other->place));
}

static bool isName(const Argument &argument) {
  return argument.value->kind == Expr::Kind::Name;
}

void Checker::sectionNames(const Rule &rule) {
  if (rule.hf->kind != Expr::Kind::Call)
    return;
  const Call &call = *rule.hf->call;
  for (const Attribute &attribute : rule.attributes) {
    const std::vector<Argument> &names = attribute.value.arguments;
    if (attribute.value.word != "section" ||
        names.size() != call.arguments.size() ||
        !std::ranges::all_of(names, isName)) // a finding of CheckAttributes
      continue;
    std::vector<Filled> filled;
    for (size_t i = 0; i != names.size(); ++i) {
      const Expr &piece = *call.arguments[i].value;
      filled.push_back({names[i].value->name->spelling,
                        isName(call.arguments[i]) ? piece.name->spelling : "",
                        piece.where});
    }
    // q is short for query.
    auto bears = [](const Filled &entry, const std::string &section) {
      Words words = wordsOf(entry.spelling);
      return std::any_of(words.begin(), words.end(), [&](const auto &word) {
        return section.starts_with(word);
      });
    };
    const Filled *other = nullptr;
    if (const Filled *mine = contradiction(filled, bears, other))
      diagnostics.error(
          mine->where,
          fmt::format("'{}' stands where shard=section(...) says '{}', and "
                      "'{}' where it says '{}'; order the pieces as the "
                      "sections",
                      mine->spelling, mine->place, other->spelling,
                      other->place),
          {{attribute.where, "the sections"}});
  }
}

namespace {

/// A rule of two plain names.
struct NamedRule {
  const Rule *rule;
  Words megatron, hf;
};

/// The words of a rule's name that tell it from others: not those of which
/// there is one in every layer.
Words tellingWords(std::string_view name) {
  static const Words generic{"norm",      "layernorm", "layer",
                             "attention", "attn",      "linear",
                             "proj",      "self",      "model"};
  return without(wordsOf(name), generic);
}

/// Finds the rules of two plain names, whatever statements they stand in.
struct RuleCollector {
  std::vector<NamedRule> &found;

  void walk(const Body &body) {
    for (const Statement &statement : body)
      std::visit(*this, statement.node);
  }
  void operator()(const Rule &rule) {
    if (rule.megatron->kind == Expr::Kind::Name &&
        rule.hf->kind == Expr::Kind::Name)
      found.push_back({&rule, tellingWords(rule.megatron->name->spelling),
                       tellingWords(rule.hf->name->spelling)});
  }
  void operator()(const Scope &scope) { walk(scope.body); }
  void operator()(const For &loop) { walk(loop.body); }
  void operator()(const If &choice) {
    for (const Branch &branch : choice.branches)
      walk(branch.body);
  }
  void operator()(const Match &match) {
    for (const MatchCase &entry : match.cases)
      walk(entry.body);
  }
  void operator()(const Either &either) {
    for (const Form &form : either.forms)
      walk(form.body);
  }
  void operator()(const Call &) {}
  void operator()(const TiedStatement &) {}
  void operator()(const IgnoreStatement &) {}
  void operator()(const ExtraStateStatement &) {}
};

/// embed and embedding are alike; a and ape are not.
bool alike(const std::string &a, const std::string &b) {
  constexpr size_t enough = 4;
  return a == b || (std::min(a.size(), b.size()) >= enough &&
                    (a.starts_with(b) || b.starts_with(a)));
}

ptrdiff_t common(const Words &a, const Words &b) {
  return std::count_if(a.begin(), a.end(), [&](const auto &word) {
    return std::any_of(b.begin(), b.end(),
                       [&](const auto &other) { return alike(word, other); });
  });
}

/// Whether the words by which two rules differ say that each one's source is
/// the other's.
bool crossed(const NamedRule &a, const NamedRule &b) {
  Words ma = without(a.megatron, b.megatron),
        mb = without(b.megatron, a.megatron);
  Words ha = without(a.hf, b.hf), hb = without(b.hf, a.hf);
  return common(ma, hb) + common(mb, ha) > common(ma, ha) + common(mb, hb);
}

} // namespace

void Checker::ruleNames(const Body &body) {
  std::vector<NamedRule> rules;
  RuleCollector{rules}.walk(body);
  for (size_t i = 0; i != rules.size(); ++i)
    for (size_t j = i + 1; j != rules.size(); ++j)
      if (crossed(rules[i], rules[j])) {
        const Rule &first = *rules[i].rule, &second = *rules[j].rule;
        diagnostics.warning(
            first.hf->where,
            fmt::format(
                "'{}' is read from '{}', and '{}' from '{}': the names "
                "say the opposite; is that meant?",
                first.megatron->name->spelling, first.hf->name->spelling,
                second.megatron->name->spelling, second.hf->name->spelling),
            {{second.hf->where, "the other rule"}});
      }
}

void Checker::tensorOrder(const Expr &expr, const Def &def, Symbol &last) {
  if (expr.kind == Expr::Kind::Name) {
    const std::vector<Symbol> &all = def.parameters;
    auto mine = std::find(all.begin(), all.end(), expr.name->head);
    if (mine == all.end() || !tensorParameters(def).contains(*mine))
      return;
    if (auto before = std::find(all.begin(), all.end(), last);
        before != all.end() && mine < before)
      diagnostics.error(
          expr.where,
          fmt::format("'{}' stands behind '{}' here, and before it among the "
                      "parameters of '{}'; keep one order",
                      expr.name->spelling, spec.symbols[last], def.name),
          {{def.where, "the parameters"}});
    last = *mine;
  } else if (expr.kind == Expr::Kind::Call) {
    for (const Argument &argument : expr.call->arguments)
      if (argument.key.empty())
        tensorOrder(*argument.value, def, last);
  }
}

} // namespace mbc::dsl
