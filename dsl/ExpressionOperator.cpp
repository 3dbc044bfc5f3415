#include "dsl/Expression.h"

#include <cmath>

#include <fmt/format.h>

namespace mbc::dsl {
namespace {

std::optional<double> asNumber(const Datum &datum) {
  if (const int64_t *value = std::get_if<int64_t>(&datum.value))
    return static_cast<double>(*value);
  if (const double *value = std::get_if<double>(&datum.value))
    return *value;
  return std::nullopt;
}

std::string_view spelling(Expr::Op op) {
  static constexpr std::string_view names[] = {
      "",   "-", "!",  "*",  "/",  "%",  "+",  "-",  "<",
      "<=", ">", ">=", "==", "!=", "in", "&&", "||", "??"};
  return names[static_cast<size_t>(op)];
}

} // namespace

std::optional<Datum> Expressions::unary(const Expr &expr) {
  if (expr.op == Expr::Op::Not) {
    std::optional<bool> value = condition(*expr.operands[0]);
    return value ? std::optional(Datum{Value(!*value)}) : std::nullopt;
  }
  std::optional<Datum> value = evaluate(*expr.operands[0]);
  if (!value)
    return std::nullopt;
  if (const int64_t *integer = std::get_if<int64_t>(&value->value))
    return integerArithmetic(expr, 0, *integer);
  if (const double *number = std::get_if<double>(&value->value))
    return Datum{Value(-*number)};
  return fails(expr.where,
               fmt::format("'-' needs a number, not {}", describe(*value)));
}

std::optional<Datum> Expressions::binary(const Expr &expr) {
  using Op = Expr::Op;
  const Expr &leftExpr = *expr.operands[0], &rightExpr = *expr.operands[1];
  if (expr.op == Op::Default) {
    std::optional<Datum> left = leftExpr.kind == Expr::Kind::Name
                                    ? nameValue(leftExpr, true)
                                    : evaluate(leftExpr);
    return left && left->isNull() ? evaluate(rightExpr) : left;
  }
  if (expr.op == Op::And || expr.op == Op::Or) {
    std::optional<bool> left = condition(leftExpr);
    if (left && *left == (expr.op == Op::And))
      left = condition(rightExpr);
    return left ? std::optional(Datum{Value(*left)}) : std::nullopt;
  }
  std::optional<Datum> left = evaluate(leftExpr), right = evaluate(rightExpr);
  if (!left || !right)
    return std::nullopt;
  if (expr.op < Op::Less)
    return arithmetic(expr, *left, *right);
  return comparison(expr, *left, *right);
}

std::optional<Datum> Expressions::arithmetic(const Expr &expr,
                                             const Datum &left,
                                             const Datum &right) {
  using Op = Expr::Op;
  const int64_t *a = std::get_if<int64_t>(&left.value),
                *b = std::get_if<int64_t>(&right.value);
  if (a && b)
    return integerArithmetic(expr, *a, *b);
  if (expr.op == Op::Add) {
    const auto *s = std::get_if<std::string>(&left.value);
    const auto *t = std::get_if<std::string>(&right.value);
    if (s && t) {
      if (!step(expr.where, s->size() + t->size()))
        return std::nullopt;
      return Datum{Value(*s + *t)};
    }
    const auto *l = std::get_if<std::shared_ptr<const ValueList>>(&left.value);
    const auto *m = std::get_if<std::shared_ptr<const ValueList>>(&right.value);
    if (l && m) {
      if (!step(expr.where, ((*l)->size() + (*m)->size()) * sizeof(Value)))
        return std::nullopt;
      auto list = std::make_shared<ValueList>(**l);
      list->insert(list->end(), (*m)->begin(), (*m)->end());
      return Datum{Value(std::shared_ptr<const ValueList>(std::move(list)))};
    }
  }
  std::optional<double> x = asNumber(left), y = asNumber(right);
  if (!x || !y || expr.op == Op::Remainder)
    return fails(expr.where,
                 fmt::format("'{}' is not defined between {} and {}",
                             spelling(expr.op), describe(left),
                             describe(right)));
  switch (expr.op) {
  case Op::Multiply:
    return Datum{Value(*x * *y)};
  case Op::Add:
    return Datum{Value(*x + *y)};
  case Op::Subtract:
    return Datum{Value(*x - *y)};
  default:
    if (*y == 0)
      return fails(expr.where,
                   fmt::format("{} is divided by 0{}", describe(left),
                               correctionOfOperands(expr)));
    return Datum{Value(*x / *y)};
  }
}

/// The operands have values, the expression has none.
std::string Expressions::correctionOfOperands(const Expr &expr) {
  Trace seen(*this);
  for (const ExprPtr &operand : expr.operands)
    evaluate(*operand);
  return correction(describe(seen.fields));
}

std::optional<Datum>
Expressions::integerArithmetic(const Expr &expr, int64_t left, int64_t right) {
  using Op = Expr::Op;
  int64_t result = 0;
  bool overflow = false;
  if (expr.op == Op::Divide || expr.op == Op::Remainder) {
    if (right == 0)
      return fails(expr.where, fmt::format("{} is divided by 0{}", left,
                                           correctionOfOperands(expr)));
    if (expr.op == Op::Divide && right != -1 && left % right != 0)
      return fails(expr.where,
                   fmt::format("{} does not divide by {}: {} is left over{}",
                               left, right, left % right,
                               correctionOfOperands(expr)));
    if (right == -1) // the one divisor whose quotient can overflow
      overflow = expr.op == Op::Divide &&
                 __builtin_sub_overflow(int64_t{0}, left, &result);
    else
      result = expr.op == Op::Divide ? left / right : left % right;
  } else if (expr.op == Op::Multiply) {
    overflow = __builtin_mul_overflow(left, right, &result);
  } else if (expr.op == Op::Add) {
    overflow = __builtin_add_overflow(left, right, &result);
  } else {
    overflow = __builtin_sub_overflow(left, right, &result);
  }
  if (overflow)
    return fails(
        expr.where,
        fmt::format("the result of {} and {} does not fit in 64 bits{}", left,
                    right, correctionOfOperands(expr)));
  return Datum{Value(result)};
}

std::optional<bool> Expressions::equal(const Expr &expr, const Datum &left,
                                       const Datum &right) {
  if (left.isObject() || right.isObject() ||
      std::holds_alternative<std::shared_ptr<const ValueList>>(left.value) ||
      std::holds_alternative<std::shared_ptr<const ValueList>>(right.value)) {
    fails(expr.where, fmt::format("{} and {} cannot be compared",
                                  describe(left), describe(right)));
    return std::nullopt;
  }
  if (left.isNull() || right.isNull())
    return left.isNull() && right.isNull();
  std::optional<double> x = asNumber(left), y = asNumber(right);
  const int64_t *a = std::get_if<int64_t>(&left.value),
                *b = std::get_if<int64_t>(&right.value);
  if (a && b)
    return *a == *b;
  if (x && y)
    return *x == *y;
  if (left.value.index() == right.value.index()) {
    if (const bool *flag = std::get_if<bool>(&left.value))
      return *flag == std::get<bool>(right.value);
    return std::get<std::string>(left.value) ==
           std::get<std::string>(right.value);
  }
  fails(expr.where,
        fmt::format("{} and {} are of different kinds and cannot be compared",
                    describe(left), describe(right)));
  return std::nullopt;
}

std::optional<Datum> Expressions::comparison(const Expr &expr,
                                             const Datum &left,
                                             const Datum &right) {
  using Op = Expr::Op;
  if (expr.op == Op::Equal || expr.op == Op::NotEqual) {
    std::optional<bool> same = equal(expr, left, right);
    return same ? std::optional(Datum{Value(*same == (expr.op == Op::Equal))})
                : std::nullopt;
  }
  if (expr.op == Op::In) {
    const auto *list =
        std::get_if<std::shared_ptr<const ValueList>>(&right.value);
    if (!list)
      return fails(expr.where,
                   fmt::format("'in' needs a list, not {}", describe(right)));
    for (const Value &item : **list) {
      std::optional<bool> same = equal(expr, left, {item});
      if (!same)
        return std::nullopt;
      if (*same)
        return Datum{Value(true)};
    }
    return Datum{Value(false)};
  }
  std::optional<double> x = asNumber(left), y = asNumber(right);
  if (!x || !y)
    return fails(expr.where, fmt::format("'{}' needs numbers, not {} and {}",
                                         spelling(expr.op), describe(left),
                                         describe(right)));
  switch (expr.op) {
  case Op::Less:
    return Datum{Value(*x < *y)};
  case Op::LessEqual:
    return Datum{Value(*x <= *y)};
  case Op::Greater:
    return Datum{Value(*x > *y)};
  default:
    return Datum{Value(*x >= *y)};
  }
}

} // namespace mbc::dsl
