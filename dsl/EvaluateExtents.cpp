#include "dsl/Evaluation.h"

#include <fmt/ranges.h>

/// Numbers that a spec writes: what stands behind a piece's colon, shapes and
/// orders of axes.
namespace mbc::dsl {

bool Evaluation::extents(const Expr *expr, WrittenExtents &out) {
  if (!expr)
    return true;
  bool rest = false;
  if (expr->kind == Expr::Kind::List)
    return shapeList(*expr, out.leading, rest);
  std::optional<Datum> value = values.evaluate(*expr);
  if (!value)
    return false;
  if (std::holds_alternative<std::shared_ptr<const ValueList>>(value->value))
    return integersOf(*expr, *value, out.leading);
  out.along = values.integer(*expr);
  return out.along.has_value();
}

/// Writes what a def says of a parameter on the entry at `root`. Where the call
/// writes it too, both must agree.
bool Evaluation::addExtents(const Expr &expr, const WrittenExtents &written,
                            size_t root, RuleSide &out) {
  auto fails = [&](std::string text) {
    reporter.error(expr.where, std::move(text));
    return false;
  };
  if (written.along) {
    if (out.code[root + 2] && out.code[root + 3] != *written.along)
      return fails(
          fmt::format("this piece is {} here, but {} where it is passed",
                      *written.along, out.code[root + 3]));
    out.code[root + 2] = 1;
    out.code[root + 3] = *written.along;
  }
  if (written.leading.empty())
    return true;
  if (static_cast<OpKind>(out.code[root]) != OpKind::Tensor)
    return fails("a list of extents belongs to a tensor, not to an operation");
  // The root is the last entry, and a tensor's list stands at its end.
  const std::vector<int64_t> passed(
      out.code.begin() + static_cast<std::ptrdiff_t>(root + 9), out.code.end());
  if (!passed.empty() && passed != written.leading)
    return fails(fmt::format("this piece is [{}] here, but [{}] where it is "
                             "passed",
                             fmt::join(written.leading, ", "),
                             fmt::join(passed, ", ")));
  if (passed.empty()) {
    out.code[root + 8] = static_cast<int64_t>(written.leading.size());
    out.code.insert(out.code.end(), written.leading.begin(),
                    written.leading.end());
  }
  return true;
}

bool Evaluation::integersOf(const Expr &expr, const Datum &datum,
                            std::vector<int64_t> &ints) {
  auto list = std::get_if<std::shared_ptr<const ValueList>>(&datum.value);
  for (const Value &item : list ? **list : ValueList{}) {
    const int64_t *integer = std::get_if<int64_t>(&item);
    if (!integer) {
      list = nullptr;
      break;
    }
    ints.push_back(*integer);
  }
  if (!list)
    reporter.error(expr.where,
                   "a list of integers is needed here, such as [a, b, ...]");
  return list != nullptr;
}

bool Evaluation::shapeList(const Expr &list, std::vector<int64_t> &ints,
                           bool &rest) {
  if (list.kind != Expr::Kind::List) {
    std::optional<Datum> value = values.evaluate(list);
    return value && integersOf(list, *value, ints);
  }
  for (const ExprPtr &item : list.operands) {
    if (item->kind == Expr::Kind::Rest) {
      rest = true;
      continue;
    }
    std::optional<int64_t> extent = values.integer(*item);
    if (!extent)
      return false;
    ints.push_back(*extent);
  }
  return true;
}

} // namespace mbc::dsl
