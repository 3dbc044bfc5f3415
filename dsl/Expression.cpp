#include "dsl/Expression.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

namespace mbc::dsl {

void Reporter::error(const SourceRange &where, std::string text,
                     std::vector<Note> notes) {
  if (where.file &&
      !reported.emplace(where.file.get(), where.line, where.column).second)
    return;
  for (Note &note : expansion())
    notes.push_back(std::move(note));
  diagnostics.error(where, std::move(text), std::move(notes));
}

void Reporter::pushCondition(const SourceRange &where, const Datum &datum) {
  conditions_.push_back(
      {where, fmt::format("because this is {}", describe(datum))});
}

std::vector<Note> Reporter::expansion() const {
  std::vector<Note> notes;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call)
    notes.push_back({*call->where, fmt::format("{} '{}' is used here",
                                               call->kind, *call->callee)});
  return notes;
}

std::string describe(const Datum &datum) {
  struct Describe {
    std::string operator()(std::monostate) { return "null"; }
    std::string operator()(bool value) { return value ? "true" : "false"; }
    std::string operator()(int64_t value) { return std::to_string(value); }
    std::string operator()(double value) {
      return std::isnan(value) ? "NaN" : fmt::format("{}", value);
    }
    std::string operator()(const std::string &value) {
      return "\"" + value + "\"";
    }
    std::string operator()(const std::shared_ptr<const ValueList> &value) {
      return fmt::format("a list of {}", value->size());
    }
  };
  std::string text =
      datum.isObject()
          ? "an object"
          : std::visit(Describe(),
                       static_cast<const Value::variant &>(datum.value));
  return datum.node ? fmt::format("hf.{} ({})", datum.node->path, text) : text;
}

std::string describe(const ConfigFields &fields) {
  std::vector<std::string> texts;
  for (const ConfigNode *node : fields) {
    if (node->kind == ConfigNode::Kind::Null)
      continue;
    Datum datum = fromConfig(*node);
    datum.node = nullptr;
    std::string text = fmt::format("{} {}", node->path, describe(datum));
    if (std::ranges::find(texts, text) == texts.end())
      texts.push_back(std::move(text));
  }
  constexpr size_t shown = 4;
  if (texts.size() > shown) {
    texts.resize(shown);
    texts.emplace_back("...");
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string correction(const std::string &fields) {
  return fields.empty()
             ? ""
             : fmt::format("; correct config.json ({}) or the spec", fields);
}

std::string Expressions::correctionOf(const Expr &expr) {
  Trace seen(*this);
  evaluate(expr);
  return correction(describe(seen.fields));
}

std::optional<Datum> Expressions::fails(const SourceRange &where,
                                        std::string text) {
  reporter.error(where, std::move(text));
  return std::nullopt;
}

void Expressions::push(Symbol symbol, Datum value, ConfigFields fields) {
  locals.push_back({symbol, std::move(value), currentFrame, std::move(fields)});
}

void Expressions::pop(size_t count) {
  locals.erase(locals.end() - static_cast<std::ptrdiff_t>(count), locals.end());
}

size_t Expressions::hideLocals(size_t parameters) {
  return std::exchange(localsBase, locals.size() - parameters);
}

const Expressions::Local *Expressions::findLocal(Symbol symbol) const {
  for (size_t at = locals.size(); at-- > localsBase;)
    if (locals[at].symbol == symbol && locals[at].owner == currentFrame)
      return &locals[at];
  return nullptr;
}

std::optional<Datum> Expressions::evaluate(const Expr &expr) {
  using Kind = Expr::Kind;
  switch (expr.kind) {
  case Kind::Int:
    return Datum{Value(expr.integer)};
  case Kind::Float:
    return Datum{Value(expr.number)};
  case Kind::String:
    return Datum{Value(expr.text)};
  case Kind::Bool:
    return Datum{Value(expr.integer != 0)};
  case Kind::Null:
    return Datum{};
  case Kind::Name:
    return nameValue(expr, false);
  case Kind::Call:
    return callValue(expr);
  case Kind::List:
    return listValue(expr);
  case Kind::Rest:
    return fails(expr.where, "'...' stands only in the shape of a reshape");
  case Kind::Comprehension:
    return comprehension(expr);
  case Kind::Index:
    return indexValue(expr);
  case Kind::Unary:
    return unary(expr);
  case Kind::Binary:
    return binary(expr);
  case Kind::Ternary:
    if (std::optional<bool> choice = condition(*expr.operands[0]))
      return evaluate(*expr.operands[*choice ? 1 : 2]);
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<int64_t> Expressions::integer(const Expr &expr) {
  if (expr.kind == Expr::Kind::Int)
    return expr.integer;
  if (expr.kind == Expr::Kind::Name && expr.name->segments.size() == 1)
    if (const Local *local = findLocal(expr.name->head))
      if (const int64_t *value = std::get_if<int64_t>(&local->value.value)) {
        noteFields(local->fields);
        return *value;
      }
  std::optional<Datum> datum = evaluate(expr);
  if (!datum)
    return std::nullopt;
  if (const int64_t *value = std::get_if<int64_t>(&datum->value))
    return *value;
  fails(expr.where,
        fmt::format("an integer is needed here, not {}{}", describe(*datum),
                    datum->node ? "" : correctionOf(expr)));
  return std::nullopt;
}

std::optional<double> Expressions::number(const Expr &expr) {
  std::optional<Datum> datum = evaluate(expr);
  if (!datum)
    return std::nullopt;
  if (const int64_t *value = std::get_if<int64_t>(&datum->value))
    return static_cast<double>(*value);
  if (const double *value = std::get_if<double>(&datum->value))
    return *value;
  fails(expr.where,
        fmt::format("a number is needed here, not {}{}", describe(*datum),
                    datum->node ? "" : correctionOf(expr)));
  return std::nullopt;
}

std::optional<bool> Expressions::condition(const Expr &expr) {
  std::optional<Datum> datum = truth(expr);
  return datum ? std::optional(std::get<bool>(datum->value)) : std::nullopt;
}

std::optional<Datum> Expressions::truth(const Expr &expr) {
  std::optional<Datum> datum = evaluate(expr);
  if (!datum || std::holds_alternative<bool>(datum->value))
    return datum;
  return fails(expr.where,
               fmt::format("a condition is true or false, not {}; compare "
                           "it, or give a default with ??",
                           describe(*datum)));
}

std::optional<std::pair<int64_t, int64_t>> Expressions::bounds(const Expr &from,
                                                               const Expr &to) {
  std::optional<int64_t> first = integer(from), last = integer(to);
  if (!first || !last)
    return std::nullopt;
  if (*last > *first &&
      static_cast<uint64_t>(*last) - static_cast<uint64_t>(*first) >
          static_cast<uint64_t>(maxIterations)) {
    fails(to.where,
          fmt::format("the range {}..{} has more than {} steps{}", *first,
                      *last, maxIterations, correctionOf(to)));
    return std::nullopt;
  }
  return std::pair(*first, *last);
}

bool Expressions::step(const SourceRange &where, uint64_t count) {
  bool fitted = steps_ <= maxSteps;
  steps_ += count;
  if (fitted && steps_ > maxSteps)
    fails(where, fmt::format("the spec takes more than {} steps; its loops, "
                             "blocks and defs multiply",
                             maxSteps));
  return steps_ <= maxSteps;
}

bool Expressions::appendName(const Name &name, std::string &out) {
  for (const NamePiece &piece : name.pieces) {
    out += piece.text;
    if (!piece.hole)
      continue;
    std::optional<Datum> value;
    if (piece.hole->kind == Expr::Kind::Name &&
        piece.hole->name->segments.size() == 1)
      if (const Local *local = findLocal(piece.hole->name->head))
        if (const int64_t *number = std::get_if<int64_t>(&local->value.value)) {
          fmt::format_int text(*number);
          out.append(text.data(), text.size());
          continue;
        }
    value = evaluate(*piece.hole);
    if (!value)
      return false;
    const int64_t *number = std::get_if<int64_t>(&value->value);
    if (number && *number >= 0) {
      out += std::to_string(*number);
    } else if (const std::string *text =
                   std::get_if<std::string>(&value->value)) {
      out += *text;
    } else if (number) {
      fails(piece.hole->where,
            fmt::format("{} is no number for a name: layers and experts are "
                        "numbered from 0",
                        *number));
      return false;
    } else {
      fails(piece.hole->where,
            fmt::format("a name is filled with an integer or a string, not {}",
                        describe(*value)));
      return false;
    }
  }
  return true;
}

const Argument *Expressions::parameter(const Name &name) const {
  if (!currentFrame || name.segments.size() != 1)
    return nullptr;
  const std::vector<Symbol> &parameters = currentFrame->def->parameters;
  for (size_t i = 0; i != parameters.size(); ++i)
    if (parameters[i] == name.head)
      return &currentFrame->call->arguments[i];
  return nullptr;
}

} // namespace mbc::dsl
