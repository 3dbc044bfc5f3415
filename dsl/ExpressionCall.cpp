#include "dsl/Expression.h"
#include "dsl/Nesting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ranges>

#include <fmt/format.h>

namespace mbc::dsl {
Datum fromConfig(const ConfigNode &node) {
  using Kind = ConfigNode::Kind;
  switch (node.kind) {
  case Kind::Null:
    return {Value(), &node};
  case Kind::Bool:
    return {Value(node.integer != 0), &node};
  case Kind::Int:
    return {Value(node.integer), &node};
  case Kind::Double:
    return {Value(node.number), &node};
  case Kind::String:
    return {Value(node.text), &node};
  case Kind::Object:
    return {Value(), &node};
  case Kind::List:
    break;
  }
  auto list = std::make_shared<ValueList>();
  for (const ConfigNode &item : node.items)
    list->push_back(fromConfig(item).value);
  return {Value(std::shared_ptr<const ValueList>(std::move(list))), &node};
}

const std::vector<std::string> &builtinNames() {
  static const std::vector<std::string> names{"len",   "join",     "log",
                                              "floor", "integers", "min",
                                              "max",   "present",  "expected"};
  return names;
}

std::optional<Datum> Expressions::letValue(const Let &let, Symbol symbol) {
  auto [entry, added] = lets.try_emplace(symbol);
  if (!added) {
    if (entry->second.state == LetState::Running)
      return fails(let.where,
                   fmt::format("'{}' is defined by itself", let.name));
    noteFields(entry->second.fields);
    return entry->second.state == LetState::Ready
               ? std::optional(entry->second.value)
               : std::nullopt;
  }
  if (openLets == maxUses)
    return fails(
        let.where,
        fmt::format("lets use one another more than {} deep", maxUses));
  ++openLets;
  // A let sees no loop variable and no parameter.
  const DefFrame *frame = std::exchange(currentFrame, nullptr);
  size_t base = std::exchange(localsBase, locals.size());
  Trace seen(*this);
  std::optional<Datum> value = evaluate(*let.value);
  --openLets;
  localsBase = base;
  currentFrame = frame;
  LetState &state = lets[symbol];
  state.fields = seen.fields;
  state.state = value ? LetState::Ready : LetState::Failed;
  if (value)
    state.value = *value;
  return value;
}

std::optional<Datum> Expressions::headValue(const Name &name) {
  if (const Local *local = findLocal(name.head)) {
    noteFields(local->fields);
    return local->value;
  }
  if (const Argument *argument = parameter(name)) {
    if (!step(name.where))
      return std::nullopt;
    const DefFrame *frame = currentFrame;
    currentFrame = frame->caller;
    std::optional<Datum> value = evaluate(*argument->value);
    currentFrame = frame;
    return value;
  }
  if (name.segments.empty())
    return fails(name.where,
                 fmt::format("'{}' names a tensor; a value is needed here",
                             name.spelling));
  if (name.segments[0] == "hf")
    return Datum{Value(), &config};
  if (auto let = spec.lets.find(name.head); let != spec.lets.end())
    return letValue(let->second, name.head);
  return fails(name.where,
               fmt::format("'{}' is not known here", name.segments[0]));
}

std::optional<Datum> Expressions::nameValue(const Expr &expr,
                                            bool allowMissing) {
  std::optional<Datum> datum = headValue(*expr.name);
  if (!datum || expr.name->segments.size() == 1)
    return datum;
  return fieldValue(std::move(*datum), *expr.name, allowMissing);
}

std::optional<Datum> Expressions::fieldValue(Datum datum, const Name &name,
                                             bool allowMissing) {
  for (size_t at = 1; at != name.segments.size(); ++at) {
    const std::string &key = name.segments[at];
    if (!datum.isObject()) {
      if (allowMissing && datum.isNull())
        return Datum{};
      return fails(name.where,
                   fmt::format("{} has no field '{}'", describe(datum), key));
    }
    const ConfigNode *member = datum.node->find(key);
    if (!member && allowMissing)
      return Datum{};
    if (!member) {
      std::vector<std::string> keys;
      for (const auto &entry : datum.node->members)
        keys.push_back(entry.name);
      std::string near = didYouMean(key, keys);
      std::string path =
          datum.node->path.empty() ? key : datum.node->path + "." + key;
      missingFields.insert(path);
      return fails(
          name.where,
          fmt::format("config.json has no field '{}'{}", path,
                      near.empty()
                          ? "; give a default with ?? if it may be absent"
                          : "; the nearest name there is '" + near + "'"));
    }
    datum = fromConfig(*member);
    if (!datum.isObject()) {
      member->read = true;
      if (trace)
        trace->push_back(member);
    }
  }
  return datum;
}

std::optional<Datum> Expressions::callValue(const Expr &expr) {
  const Call &call = *expr.call;
  auto def = spec.defs.find(call.symbol);
  if (def == spec.defs.end())
    return builtin(expr);
  if (!step(call.where))
    return std::nullopt;
  DefFrame frame{&def->second, &call, currentFrame};
  reporter.pushCall(call.where, "def", call.callee);
  currentFrame = &frame;
  std::optional<Datum> value = evaluate(*def->second.body);
  currentFrame = frame.caller;
  reporter.popCall();
  return value;
}

std::optional<Datum> Expressions::builtin(const Expr &expr) {
  const Call &call = *expr.call;
  std::vector<Datum> arguments;
  for (const Argument &argument : call.arguments) {
    std::optional<Datum> value = evaluate(*argument.value);
    if (!value)
      return std::nullopt;
    arguments.push_back(std::move(*value));
  }
  if (call.callee == "min" || call.callee == "max")
    return extremum(expr, arguments, call.callee == "max");
  const Datum &first = arguments[0];
  if (call.callee == "present")
    return present(expr, arguments);
  if (call.callee == "expected")
    return expected(expr, arguments);
  if (call.callee == "len") {
    if (const auto *list =
            std::get_if<std::shared_ptr<const ValueList>>(&first.value))
      return Datum{Value(static_cast<int64_t>((*list)->size()))};
    if (const auto *text = std::get_if<std::string>(&first.value))
      return Datum{Value(static_cast<int64_t>(text->size()))};
    return fails(expr.where, fmt::format("len needs a list or a string, not {}",
                                         describe(first)));
  }
  if (call.callee == "join")
    return joined(expr, first);
  if (call.callee == "integers")
    return integerList(expr, first);
  std::optional<double> value = number(*call.arguments[0].value);
  if (!value)
    return std::nullopt;
  if (call.callee == "floor")
    return floored(expr, *value);
  if (!(*value > 0))
    return fails(expr.where, fmt::format("log needs a number above 0, not {}",
                                         describe(first)));
  return Datum{Value(std::log(*value))};
}

std::optional<Datum> Expressions::extremum(const Expr &expr,
                                           const std::vector<Datum> &arguments,
                                           bool largest) {
  size_t best = 0;
  std::vector<double> numbers;
  for (const Datum &datum : arguments) {
    if (const int64_t *value = std::get_if<int64_t>(&datum.value))
      numbers.push_back(static_cast<double>(*value));
    else if (const double *value = std::get_if<double>(&datum.value))
      numbers.push_back(*value);
    else
      return fails(expr.where, fmt::format("{} needs numbers, not {}",
                                           expr.call->callee, describe(datum)));
    size_t last = numbers.size() - 1;
    if (largest ? numbers[last] > numbers[best] : numbers[last] < numbers[best])
      best = last;
  }
  return Datum{arguments[best].value};
}

std::optional<Datum> Expressions::joined(const Expr &expr, const Datum &list) {
  const auto *items =
      std::get_if<std::shared_ptr<const ValueList>>(&list.value);
  if (!items)
    return fails(
        expr.where,
        fmt::format("join needs a list of strings and integers, not {}",
                    describe(list)));
  std::string text;
  for (const Value &item : **items) {
    std::string part;
    if (const auto *word = std::get_if<std::string>(&item))
      part = *word;
    else if (const auto *number = std::get_if<int64_t>(&item))
      part = std::to_string(*number);
    else
      return fails(expr.where, fmt::format("join needs a list of strings and "
                                           "integers, but it holds {}",
                                           describe({item})));
    if (!step(expr.where, part.size()))
      return std::nullopt;
    text += part;
  }
  return Datum{Value(std::move(text))};
}

std::optional<Datum> Expressions::floored(const Expr &expr, double value) {
  // Beyond 2^53 a float does not say which integer is meant.
  if (!(std::abs(value) < 9007199254740992.0))
    return fails(expr.where,
                 fmt::format("floor of {} is no exact integer", value));
  return Datum{Value(static_cast<int64_t>(std::floor(value)))};
}

/// "3,4,5" as a list; a list stays.
std::optional<Datum> Expressions::integerList(const Expr &expr,
                                              const Datum &from) {
  if (std::holds_alternative<std::shared_ptr<const ValueList>>(from.value))
    return from;
  const auto *text = std::get_if<std::string>(&from.value);
  if (!text)
    return fails(expr.where,
                 fmt::format("integers needs a list or a string such as "
                             "\"3,4,5\", not {}",
                             describe(from)));
  auto list = std::make_shared<ValueList>();
  for (auto part : std::views::split(std::string_view(*text), ',')) {
    const std::string_view digits(part);
    int64_t value = 0;
    auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size())
      return fails(expr.where, fmt::format("\"{}\" in \"{}\" is no integer",
                                           digits, *text));
    list->emplace_back(value);
  }
  return Datum{Value(std::shared_ptr<const ValueList>(std::move(list)))};
}

/// The count, or 0 where the source has no tensor below the name of its side.
/// Where config.json itself gave the count, that is worth a note.
std::optional<Datum> Expressions::present(const Expr &expr,
                                          const std::vector<Datum> &arguments) {
  const Datum &count = arguments[0];
  const auto *number = std::get_if<int64_t>(&count.value);
  bool isMegatron = oracle.known == Side::Megatron;
  const auto *megatron = std::get_if<std::string>(&arguments[1].value),
             *hf = std::get_if<std::string>(&arguments[2].value);
  if (!number || !megatron || !hf)
    return fails(expr.where,
                 fmt::format("present needs an integer and two names as "
                             "strings, Megatron's and Hugging Face's, not {}, "
                             "{} and {}",
                             describe(count), describe(arguments[1]),
                             describe(arguments[2])));
  const std::string &known = isMegatron ? *megatron : *hf;
  if (*number == 0 || !oracle.withPrefix ||
      !oracle.withPrefix(known + ".").empty())
    return Datum{count.value};
  if (count.node)
    configNotes.insert(
        fmt::format("{} is {}, but the source has no tensor below {} ({}: {}): "
                    "converted without",
                    count.node->path, *number, known,
                    isMegatron ? "Hugging Face" : "Megatron",
                    isMegatron ? *hf : *megatron));
  return Datum{Value(int64_t{0})};
}

/// The value. Where config.json itself gives one that is not in the list, that
/// is worth a note.
std::optional<Datum>
Expressions::expected(const Expr &expr, const std::vector<Datum> &arguments) {
  const Datum &given = arguments[0];
  const auto *list =
      std::get_if<std::shared_ptr<const ValueList>>(&arguments[1].value);
  const auto *otherwise = std::get_if<std::string>(&arguments[2].value);
  if (!list || !otherwise)
    return fails(expr.where,
                 fmt::format("expected needs a value, a list of those that "
                             "Megatron can have, and a string that says what "
                             "it does instead, not {}, {} and {}",
                             describe(given), describe(arguments[1]),
                             describe(arguments[2])));
  using Words = const Value::variant &;
  bool fits = std::ranges::any_of(**list, [&](const Value &item) {
    return static_cast<Words>(item) == static_cast<Words>(given.value);
  });
  if (!fits && given.node)
    configNotes.insert(fmt::format("{} is {}, but {}", given.node->path,
                                   describe({given.value}), *otherwise));
  return given;
}

std::optional<Datum> Expressions::listValue(const Expr &expr) {
  auto list = std::make_shared<ValueList>();
  for (const ExprPtr &item : expr.operands) {
    std::optional<Datum> value = evaluate(*item);
    if (!value)
      return std::nullopt;
    list->push_back(std::move(value->value));
  }
  return Datum{Value(std::shared_ptr<const ValueList>(std::move(list)))};
}

std::optional<Datum> Expressions::comprehension(const Expr &expr) {
  auto range = bounds(*expr.operands[0], *expr.operands[1]);
  if (!range)
    return std::nullopt;
  auto list = std::make_shared<ValueList>();
  push(expr.variable, {});
  bool good = true;
  for (int64_t at = range->first; good && at < range->second; ++at) {
    if (!step(expr.where)) {
      good = false;
      break;
    }
    setLast(at);
    std::optional<Datum> value = evaluate(*expr.operands[2]);
    good = value.has_value();
    if (good)
      list->push_back(std::move(value->value));
  }
  pop();
  if (!good)
    return std::nullopt;
  return Datum{Value(std::shared_ptr<const ValueList>(std::move(list)))};
}

std::optional<Datum> Expressions::indexValue(const Expr &expr) {
  std::optional<Datum> base = evaluate(*expr.operands[0]);
  std::optional<int64_t> index = integer(*expr.operands[1]);
  if (!base || !index)
    return std::nullopt;
  const auto *list =
      std::get_if<std::shared_ptr<const ValueList>>(&base->value);
  const auto *text = std::get_if<std::string>(&base->value);
  if (!list && !text)
    return fails(expr.where,
                 fmt::format("only a list or a string has elements, not {}",
                             describe(*base)));
  const size_t size = list ? (*list)->size() : text->size();
  if (*index < 0 || *index >= static_cast<int64_t>(size))
    return fails(expr.where, fmt::format("element {} is asked of {} elements",
                                         *index, size));
  if (text)
    return Datum{Value(std::string(1, (*text)[static_cast<size_t>(*index)]))};
  const Value &item = (**list)[static_cast<size_t>(*index)];
  const ConfigNode *node =
      base->node ? &base->node->items[static_cast<size_t>(*index)] : nullptr;
  return Datum{item, node};
}

} // namespace mbc::dsl
