#include "dsl/Inversion.h"

#include <algorithm>

namespace mbc::dsl {

using List = std::shared_ptr<const ValueList>;
using Op = Expr::Op;

/// Lets and defs use one another no deeper than this, by R5 and R22.
static constexpr size_t maxDepth = 400;

static bool isDefault(const Expr &expr) {
  return expr.kind == Expr::Kind::Binary && expr.op == Op::Default;
}

static bool isLiteral(const Expr &expr) {
  using Kind = Expr::Kind;
  return expr.kind == Kind::Int || expr.kind == Kind::Float ||
         expr.kind == Kind::String || expr.kind == Kind::Bool ||
         expr.kind == Kind::Null;
}

static Value no(bool flag) { return Value(!flag); }

template <typename Work> bool Inversion::inLet(const Let &, Work work) {
  // A let sees no loop variable and no parameter.
  const DefFrame *frame = values.frame();
  values.setFrame(nullptr);
  size_t base = values.hideLocals(0);
  bool done = work();
  values.restoreLocals(base);
  values.setFrame(frame);
  return done;
}

template <typename Work> bool Inversion::inDef(const Call &call, Work work) {
  DefFrame frame{&spec.defs.at(call.symbol), &call, values.frame()};
  values.setFrame(&frame);
  bool done = work(*frame.def->body);
  values.setFrame(frame.caller);
  return done;
}

template <typename Work> bool Inversion::inCaller(Work work) {
  const DefFrame *frame = values.frame();
  values.setFrame(frame->caller);
  bool done = work();
  values.setFrame(frame);
  return done;
}

bool Inversion::through(const Expr &expr,
                        const std::function<bool(const Expr &)> &see) {
  if (expr.kind == Expr::Kind::Name && expr.name->segments.size() == 1 &&
      !values.isLocal(*expr.name)) {
    if (const Argument *argument = values.parameter(*expr.name))
      return inCaller([&] { return see(*argument->value); });
    if (auto let = spec.lets.find(expr.name->head); let != spec.lets.end())
      return inLet(let->second, [&] { return see(*let->second.value); });
  }
  if (expr.kind == Expr::Kind::Call && spec.defs.contains(expr.call->symbol))
    return inDef(*expr.call, see);
  return false;
}

std::optional<Datum> Inversion::evaluate(const Expr &expr) {
  return values.evaluate(expr);
}

bool Inversion::holds(const Expr &expr, const Value &want) {
  std::optional<Datum> value = evaluate(expr);
  return value && !value->isObject() && sameValue(value->value, want);
}

void Inversion::settle(const Expr &expr) {
  std::optional<Datum> value = evaluate(expr);
  if (!value)
    return;
  // The default may be another field, as of key heads those of queries.
  std::optional<Path> field =
      isDefault(expr) ? fieldOf(*expr.operands[0]) : std::nullopt;
  if (field && parentExists(*field))
    attempt([&] {
      return assign(*field, value->value) && holds(expr, value->value);
    });
  else
    solve(expr, value->value);
}

bool Inversion::solve(const Expr &expr, const Value &want) {
  if (depth == maxDepth || !values.step(expr.where))
    return false;
  ++depth;
  bool solved = attempt([&] { return solveKind(expr, want); });
  --depth;
  return solved;
}

bool Inversion::solveKind(const Expr &expr, const Value &want) {
  using Kind = Expr::Kind;
  switch (expr.kind) {
  case Kind::Name:
    return solveName(expr, want);
  case Kind::Call:
    return solveCall(expr, want);
  case Kind::List:
    return solveList(expr, want);
  case Kind::Comprehension:
    return solveComprehension(expr, want);
  case Kind::Index: {
    std::optional<Datum> index = evaluate(*expr.operands[1]);
    const int64_t *at = index ? std::get_if<int64_t>(&index->value) : nullptr;
    return at && *at >= 0 &&
           solveElement(*expr.operands[0], static_cast<size_t>(*at), want);
  }
  case Kind::Unary:
    return solveUnary(expr, want);
  case Kind::Binary:
    return solveBinary(expr, want);
  case Kind::Ternary:
    return solveTernary(expr, want);
  default:
    return holds(expr, want);
  }
}

/// hf.a.b, or text.b where `text` is an object of config.json. Of two
/// places, an object is in the one where it is, else in the first.
std::optional<Inversion::Path> Inversion::objectOf(const Expr &expr,
                                                   size_t depth) {
  if (isDefault(expr)) {
    std::optional<Path> first = objectOf(*expr.operands[0], depth),
                        second = objectOf(*expr.operands[1], depth);
    const bool isSecond =
        first && second && !second->empty() && !find(*first) && find(*second);
    return isSecond ? second : first;
  }
  if (expr.kind != Expr::Kind::Name || expr.name->segments.empty() ||
      depth == maxDepth)
    return std::nullopt;
  const Name &name = *expr.name;
  Path path;
  if (name.segments[0] != "hf") {
    auto let = spec.lets.find(name.head);
    if (let == spec.lets.end() || values.isLocal(name))
      return std::nullopt;
    std::optional<Path> object = objectOf(*let->second.value, depth + 1);
    if (!object)
      return std::nullopt;
    path = std::move(*object);
  }
  path.insert(path.end(), name.segments.begin() + 1, name.segments.end());
  return path;
}

std::optional<Inversion::Path> Inversion::fieldOf(const Expr &expr) {
  if (expr.kind != Expr::Kind::Name || expr.name->segments.size() < 2)
    return std::nullopt;
  return objectOf(expr, 0);
}

bool Inversion::solveName(const Expr &expr, const Value &want) {
  if (std::optional<Path> field = fieldOf(expr))
    return assign(*field, want);
  return through(expr, [&](const Expr &meant) { return solve(meant, want); }) ||
         holds(expr, want);
}

bool Inversion::solveCall(const Expr &expr, const Value &want) {
  const Call &call = *expr.call;
  if (spec.defs.contains(call.symbol))
    return through(expr, [&](const Expr &body) { return solve(body, want); });
  auto argument = [&](size_t at) -> const Expr & {
    return *call.arguments[at].value;
  };
  if (call.callee == "min" || call.callee == "max") {
    for (size_t at = 0; at != call.arguments.size(); ++at)
      if (attempt(
              [&] { return solve(argument(at), want) && holds(expr, want); }))
        return true;
    return false;
  }
  if (call.callee == "integers")
    if (std::optional<Path> field = fieldOf(argument(0)))
      joined.insert(*field);
  static const std::set<std::string> sameAsFirst{"present", "expected", "floor",
                                                 "integers"};
  if (sameAsFirst.contains(call.callee))
    return solve(argument(0), want) && holds(expr, want);
  return holds(expr, want);
}

bool Inversion::solveUnary(const Expr &expr, const Value &want) {
  const Expr &operand = *expr.operands[0];
  if (expr.op == Op::Not) {
    const bool *flag = std::get_if<bool>(&want);
    return flag && solve(operand, no(*flag));
  }
  if (const int64_t *integer = std::get_if<int64_t>(&want);
      integer && *integer != INT64_MIN)
    return solve(operand, Value(-*integer));
  const double *number = std::get_if<double>(&want);
  return number && solve(operand, Value(-*number));
}

bool Inversion::solveBinary(const Expr &expr, const Value &want) {
  if (expr.op == Op::Default)
    return solveDefault(expr, want);
  if (expr.op < Op::Less)
    return solveArithmetic(expr, want);
  const bool *flag = std::get_if<bool>(&want);
  if (!flag)
    return false;
  switch (expr.op) {
  case Op::Equal:
    return solveEqual(expr, *flag);
  case Op::NotEqual:
    return solveEqual(expr, !*flag);
  case Op::And:
  case Op::Or:
    return solveAndOr(expr, *flag);
  case Op::In:
    return solveIn(expr, *flag);
  default:
    break;
  }
  // x > 0 is false for x = 0.
  std::optional<Datum> bound = expr.op == Op::Greater && !*flag
                                   ? evaluate(*expr.operands[1])
                                   : std::nullopt;
  return (bound && solve(*expr.operands[0], bound->value)) || holds(expr, want);
}

/// `a ?? b ?? c`: the first given field decides; else the one that `write`
/// names takes the value, else the first that can. A field of an object that
/// is not there is left to the default where that is right.
bool Inversion::solveDefault(const Expr &expr, const Value &want) {
  std::vector<const Expr *> choices;
  std::function<void(const Expr &)> flatten = [&](const Expr &part) {
    if (!isDefault(part))
      return choices.push_back(&part);
    flatten(*part.operands[0]);
    flatten(*part.operands[1]);
  };
  flatten(expr);
  std::vector<std::optional<Path>> fields;
  for (const Expr *choice : choices)
    fields.push_back(fieldOf(*choice));
  size_t given = 0;
  while (given != choices.size() && !(fields[given] && find(*fields[given])))
    ++given;
  const bool fits = holds(expr, want);
  if (given != choices.size() && fits) {
    // Inside of an object, another object's field is no other name of it.
    if (stage == Stage::Rest && fields[0] && given != 0 &&
        fields[0]->size() > fields[given]->size() && parentExists(*fields[0]))
      attempt([&] { return assign(*fields[0], want) && holds(expr, want); });
    return true;
  }
  std::vector<size_t> order;
  for (bool written : {true, false})
    for (size_t at = 0; at != given; ++at)
      if ((fields[at] && isWritten(*fields[at])) == written)
        order.push_back(at);
  for (size_t at : order) {
    if (fields[at] && !parentExists(*fields[at])) {
      if (fits)
        return true;
      if (stage == Stage::Fields)
        continue;
    }
    if (attempt([&] { return solve(*choices[at], want) && holds(expr, want); }))
      return true;
  }
  return fits;
}

bool Inversion::solveArithmetic(const Expr &expr, const Value &want) {
  const Expr &left = *expr.operands[0], &right = *expr.operands[1];
  auto number = [](const Value &value) -> std::optional<double> {
    if (const int64_t *integer = std::get_if<int64_t>(&value))
      return static_cast<double>(*integer);
    const double *real = std::get_if<double>(&value);
    return real ? std::optional(*real) : std::nullopt;
  };
  /// What the free operand must be, an integer where all are.
  auto inverse = [&](const Value &known,
                     bool knownIsLeft) -> std::optional<Value> {
    std::optional<double> w = number(want), k = number(known);
    if (!w || !k)
      return std::nullopt;
    double free = 0;
    switch (expr.op) {
    case Op::Add:
      free = *w - *k;
      break;
    case Op::Subtract:
      free = knownIsLeft ? *k - *w : *w + *k;
      break;
    case Op::Multiply:
      free = *w / *k;
      break;
    case Op::Divide:
      free = knownIsLeft ? *k / *w : *w * *k;
      break;
    default:
      return std::nullopt;
    }
    if (std::holds_alternative<int64_t>(want) &&
        std::holds_alternative<int64_t>(known) &&
        free == static_cast<double>(static_cast<int64_t>(free)))
      return Value(static_cast<int64_t>(free));
    return Value(free);
  };
  auto solveOther = [&](const Expr &known, const Expr &free, bool knownIsLeft) {
    std::optional<Datum> value = evaluate(known);
    std::optional<Value> other =
        value ? inverse(value->value, knownIsLeft) : std::nullopt;
    return other &&
           attempt([&] { return solve(free, *other) && holds(expr, want); });
  };
  if (solveOther(left, right, true) || solveOther(right, left, false))
    return true;
  // Text with a known end.
  const std::string *text = std::get_if<std::string>(&want);
  std::optional<Datum> end =
      text && expr.op == Op::Add ? evaluate(right) : std::nullopt;
  const std::string *tail =
      end ? std::get_if<std::string>(&end->value) : nullptr;
  return tail && text->ends_with(*tail) &&
         solve(left, Value(text->substr(0, text->size() - tail->size())));
}

bool Inversion::solveEqual(const Expr &expr, bool want) {
  const Value truth(want != (expr.op == Op::NotEqual));
  const Expr &left = *expr.operands[0], &right = *expr.operands[1];
  for (const auto &[free, known] :
       {std::pair(&left, &right), std::pair(&right, &left)}) {
    std::optional<Datum> value = evaluate(*known);
    if (!value || value->isObject())
      continue;
    std::vector<Value> wanted;
    if (want) {
      wanted.push_back(value->value);
    } else if (free->kind != Expr::Kind::Index && holds(expr, truth)) {
      return true; // which other word it is, nobody says
    } else if (std::holds_alternative<std::string>(value->value)) {
      for (std::string &word : wordsOf(*free))
        wanted.emplace_back(std::move(word));
    }
    for (const Value &candidate : wanted)
      if (attempt(
              [&] { return solve(*free, candidate) && holds(expr, truth); }))
        return true;
  }
  return holds(expr, truth);
}

bool Inversion::solveAndOr(const Expr &expr, bool want) {
  const Expr &left = *expr.operands[0], &right = *expr.operands[1];
  const bool both = want == (expr.op == Op::And);
  if (both)
    return solve(left, Value(want)) && solve(right, Value(want));
  return holds(expr, Value(want)) || solve(left, Value(want)) ||
         solve(right, Value(want));
}

/// A word of a list that is known, or a list that has a number or has it not.
bool Inversion::solveIn(const Expr &expr, bool want) {
  const Expr &item = *expr.operands[0], &list = *expr.operands[1];
  if (want && !isLiteral(item) && list.kind == Expr::Kind::List)
    for (const ExprPtr &word : list.operands)
      if (attempt([&] {
            std::optional<Datum> value = evaluate(*word);
            return value && solve(item, value->value) && holds(expr, want);
          }))
        return true;
  if (holds(expr, want))
    return true;
  std::optional<Datum> value = evaluate(item), now = evaluate(list);
  const List *items = now ? std::get_if<List>(&now->value) : nullptr;
  if (!value || (items && !want))
    return false;
  if (items)
    return solveElement(list, (*items)->size(), value->value) &&
           holds(expr, want);
  auto first = std::make_shared<ValueList>();
  if (want)
    first->push_back(value->value);
  return solve(list, Value(List(std::move(first)))) && holds(expr, want);
}

/// The branch that says the value as it stands comes first, then the one that
/// has it already, then the one that holds as it is.
bool Inversion::solveTernary(const Expr &expr, const Value &want) {
  const std::optional<Datum> choice = evaluate(*expr.operands[0]);
  auto rank = [&](size_t at) {
    const Expr &branch = *expr.operands[at];
    const bool fits = holds(branch, want);
    if (isLiteral(branch))
      return fits ? 0 : 5;
    const bool chosen = choice && sameValue(choice->value, Value(at == 1));
    return (fits ? 1 : 3) + (chosen ? 0 : 1);
  };
  const bool thenFirst = rank(1) <= rank(2);
  for (size_t at :
       {thenFirst ? size_t{1} : size_t{2}, thenFirst ? size_t{2} : size_t{1}})
    if (rank(at) != 5 && attempt([&] {
          return solve(*expr.operands[at], want) &&
                 solve(*expr.operands[0], Value(at == 1)) && holds(expr, want);
        }))
      return true;
  return false;
}

bool Inversion::solveList(const Expr &expr, const Value &want) {
  const List *list = std::get_if<List>(&want);
  if (!list || (*list)->size() != expr.operands.size())
    return false;
  for (size_t at = 0; at != expr.operands.size(); ++at)
    if (!solve(*expr.operands[at], (**list)[at]))
      return false;
  return holds(expr, want);
}

/// A list with an element for each layer: a count that makes all of them right,
/// such as first_k_dense_replace, or else element by element.
bool Inversion::solveComprehension(const Expr &expr, const Value &want) {
  const List *list = std::get_if<List>(&want);
  std::optional<Datum> first = evaluate(*expr.operands[0]),
                       last = evaluate(*expr.operands[1]);
  const int64_t *from = first ? std::get_if<int64_t>(&first->value) : nullptr;
  const int64_t *to = last ? std::get_if<int64_t>(&last->value) : nullptr;
  if (stage == Stage::Rest && holds(expr, want))
    return true;
  if (stage != Stage::Lists || !list || !from || !to ||
      *to - *from != static_cast<int64_t>((*list)->size()))
    return false;
  if (solveByCounting(expr, want, (*list)->size()))
    return true;
  values.push(expr.variable, {});
  bool solved = attempt([&] {
    for (size_t at = 0; at != (*list)->size(); ++at) {
      values.setLast(*from + static_cast<int64_t>(at));
      if (!solve(*expr.operands[2], (**list)[at]))
        return false;
    }
    return true;
  });
  values.pop();
  return solved && holds(expr, want);
}

bool Inversion::solveByCounting(const Expr &expr, const Value &want,
                                size_t elements) {
  std::vector<Path> fields = fieldsOf(expr);
  if (std::ranges::any_of(fields, [&](const Path &field) {
        const ConfigNode *given = find(field);
        return given && given->kind == ConfigNode::Kind::List;
      }))
    return false;
  std::erase_if(fields, [&](const Path &field) { return find(field); });
  // The spec says that the list is what its family writes.
  const bool namesOne = std::ranges::any_of(
      fields, [&](const Path &field) { return isWritten(field); });
  std::erase_if(fields, [&](const Path &field) {
    return (namesOne && !isWritten(field)) || !parentExists(field);
  });
  for (const Path &field : fields)
    for (size_t count = 0; count <= elements; ++count)
      if (attempt([&] {
            return assign(field, Value(static_cast<int64_t>(count))) &&
                   holds(expr, want);
          }))
        return true;
  return false;
}

/// One element of what is a list, in a field or made up.
bool Inversion::solveElement(const Expr &list, size_t index,
                             const Value &want) {
  if (depth == maxDepth || !values.step(list.where))
    return false;
  if (std::optional<Path> field = fieldOf(list))
    return assignElement(*field, index, want);
  ++depth;
  auto inside = [&](const Expr &expr) {
    return solveElement(expr, index, want);
  };
  bool solved = through(list, inside);
  if (!solved && list.kind == Expr::Kind::Call &&
      (list.call->callee == "expected" || list.call->callee == "integers"))
    solved = inside(*list.call->arguments[0].value);
  if (!solved && isDefault(list))
    solved = inside(*list.operands[0]) || inside(*list.operands[1]);
  if (!solved && list.kind == Expr::Kind::Ternary)
    if (std::optional<Datum> choice = evaluate(*list.operands[0]))
      if (const bool *flag = std::get_if<bool>(&choice->value))
        solved = inside(*list.operands[*flag ? 1 : 2]);
  if (!solved && list.kind == Expr::Kind::Comprehension)
    if (std::optional<Datum> from = evaluate(*list.operands[0]))
      if (const int64_t *first = std::get_if<int64_t>(&from->value)) {
        values.push(list.variable,
                    {Value(*first + static_cast<int64_t>(index))});
        solved = solve(*list.operands[2], want);
        values.pop();
      }
  --depth;
  return solved;
}

void Inversion::collect(const Expr &expr, std::vector<Path> &fields,
                        std::vector<std::string> &words,
                        std::set<const Expr *> &seen) {
  if (!seen.insert(&expr).second)
    return;
  if (expr.kind == Expr::Kind::String)
    words.push_back(expr.text);
  if (std::optional<Path> field = fieldOf(expr))
    return fields.push_back(std::move(*field));
  through(expr, [&](const Expr &meant) {
    collect(meant, fields, words, seen);
    return true;
  });
  // What `expected` says of other values is no word of the field.
  if (expr.kind == Expr::Kind::Call) {
    const size_t count =
        expr.call->callee == "expected" ? 2 : expr.call->arguments.size();
    for (size_t at = 0; at != count; ++at)
      collect(*expr.call->arguments[at].value, fields, words, seen);
  }
  for (const ExprPtr &operand : expr.operands)
    collect(*operand, fields, words, seen);
}

std::vector<Inversion::Path> Inversion::fieldsOf(const Expr &expr) {
  std::vector<Path> fields;
  std::vector<std::string> words;
  std::set<const Expr *> seen;
  collect(expr, fields, words, seen);
  return fields;
}

std::vector<std::string> Inversion::wordsOf(const Expr &expr) {
  std::vector<Path> fields;
  std::vector<std::string> words;
  std::set<const Expr *> seen;
  collect(expr, fields, words, seen);
  return words;
}

} // namespace mbc::dsl
