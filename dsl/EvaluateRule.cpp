#include "dsl/EvaluationScope.h"
#include "dsl/Nesting.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include <fmt/ranges.h>

namespace mbc::dsl {

bool Evaluation::tensor(const Expr &expr, const Expr *extent, Side which,
                        RuleSide &out) {
  const Name &name = *expr.name;
  const Argument *argument = values.parameter(name);
  WrittenExtents written;
  if (!extents(extent, written))
    return false;
  if (argument) {
    if (!values.step(name.where))
      return false;
    const DefFrame *frame = values.frame();
    values.setFrame(frame->caller);
    size_t root = out.code.size();
    bool good = side(*argument->value, argument->extent.get(), which, out);
    values.setFrame(frame);
    if (!good || !extent)
      return good;
    for (size_t at = root; at != out.code.size();
         at += 9 + static_cast<size_t>(out.code[at + 8]))
      root = at;
    return addExtents(*extent, written, root, out);
  }
  if (out.names.size() == maxOperands) {
    reporter.error(expr.where,
                   fmt::format("a rule joins at most {} tensors", maxOperands));
    return false;
  }
  std::string &text = out.names.emplace_back();
  const std::string &start = prefix(which);
  text.reserve(start.size() + name.spelling.size() + 8);
  if (!name.fromRoot)
    text = start;
  if (!values.appendName(name, text))
    return false;
  size_t operand = out.names.size() - 1;
  if (out.openSlices != 0)
    operand = static_cast<size_t>(
        std::find(out.names.begin(), out.names.end(), text) -
        out.names.begin());
  if (operand + 1 != out.names.size())
    out.names.pop_back();
  else
    out.optional += name.optional;
  out.emit(OpKind::Tensor, expr.where, written.along,
           static_cast<int64_t>(operand), false, 0, 0, written.leading);
  return true;
}

bool Evaluation::side(const Expr &expr, const Expr *extent, Side which,
                      RuleSide &out) {
  if (expr.kind == Expr::Kind::Name)
    return tensor(expr, extent, which, out);
  if (expr.kind != Expr::Kind::Call) {
    reporter.error(expr.where,
                   "a tensor is needed here: a name or an operation");
    return false;
  }
  WrittenExtents written;
  if (!extents(extent, written))
    return false;
  if (!written.leading.empty()) {
    reporter.error(extent->where, "a list of extents belongs to a tensor, not "
                                  "to an operation");
    return false;
  }
  const Call &call = *expr.call;
  auto def = spec.defs.find(call.symbol);
  if (def == spec.defs.end())
    return operation(expr, written.along, which, out);
  if (!values.step(call.where))
    return false;
  DefFrame frame{&def->second, &call, values.frame()};
  reporter.pushCall(call.where, "def", call.callee);
  values.setFrame(&frame);
  bool good = side(*def->second.body, nullptr, which, out);
  values.setFrame(frame.caller);
  reporter.popCall();
  return good;
}

bool Evaluation::operands(const Call &call, Side which, RuleSide &out,
                          size_t &count) {
  auto addAll = [&] {
    for (const Argument &argument : call.arguments) {
      if (!argument.key.empty())
        continue;
      if (!side(*argument.value, argument.extent.get(), which, out))
        return false;
      ++count;
    }
    return true;
  };
  if (call.variable == noSymbol)
    return addAll();
  auto range = values.bounds(*call.from, *call.to);
  if (!range)
    return false;
  if (range->first >= range->second) {
    reporter.error(call.where,
                   fmt::format("nothing to {}: the range {}..{} is empty",
                               call.callee, range->first, range->second));
    return false;
  }
  values.push(call.variable, {});
  bool good = true;
  for (int64_t at = range->first; good && at < range->second; ++at) {
    values.setLast(at);
    good = addAll();
  }
  values.pop();
  return good;
}

/// The `dim=` of a call, 0 without one.
std::optional<int64_t> Evaluation::dimension(const Call &call) {
  for (const Argument &argument : call.arguments)
    if (!argument.key.empty())
      return values.integer(*argument.value);
  return 0;
}

/// The pieces of a tensor are slices of it; each finds the tensor by its name.
bool Evaluation::slice(const Expr &expr, std::optional<int64_t> extent,
                       Side which, RuleSide &out) {
  std::vector<const Argument *> plain;
  for (const Argument &argument : expr.call->arguments)
    if (argument.key.empty())
      plain.push_back(&argument);
  std::optional<int64_t> dim = dimension(*expr.call),
                         from = values.integer(*plain[1]->value),
                         width = values.integer(*plain[2]->value);
  if (!dim || !from || !width)
    return false;
  if (++out.slices > maxSlices) {
    reporter.error(
        expr.where,
        fmt::format("a side of a rule has at most {} slices", maxSlices));
    return false;
  }
  ++out.openSlices;
  bool good = side(*plain[0]->value, plain[0]->extent.get(), which, out);
  --out.openSlices;
  if (good)
    out.emit(OpKind::Slice, expr.where, extent, *dim, false, 0, 1,
             std::array{*from, *width});
  return good;
}

bool Evaluation::operation(const Expr &expr, std::optional<int64_t> extent,
                           Side which, RuleSide &out) {
  const Call &call = *expr.call;
  const std::string &name = call.callee;
  if (name == "slice")
    return slice(expr, extent, which, out);
  if (name == "concat" || name == "stack") {
    std::optional<int64_t> dim = dimension(call);
    size_t count = 0;
    if (!dim || !operands(call, which, out, count))
      return false;
    out.emit(name == "concat" ? OpKind::Concat : OpKind::Stack, expr.where,
             extent, *dim, false, 0, count, {});
    return true;
  }
  const Expr &first = *call.arguments[0].value,
             &second = *call.arguments[1].value;
  std::vector<int64_t> ints;
  bool rest = false;
  if (name == "init") {
    std::optional<double> value = values.number(first);
    if (!value || !shapeList(second, ints, rest))
      return false;
    out.emit(OpKind::Fill, expr.where, extent, 0, false, *value, 0, ints);
    return true;
  }
  if (!side(first, call.arguments[0].extent.get(), which, out))
    return false;
  if (name == "reshape" || name == "transpose") {
    if (!shapeList(second, ints, rest))
      return false;
    out.emit(name == "reshape" ? OpKind::Reshape : OpKind::Transpose,
             expr.where, extent, 0, rest, 0, 1, ints);
    return true;
  }
  if (name == "repeat") {
    std::optional<int64_t> times = values.integer(second);
    if (!times)
      return false;
    if (*times < 1) {
      reporter.error(call.where, "repeat needs a positive number of times" +
                                     values.correctionOf(second));
      return false;
    }
    out.emit(OpKind::Repeat, expr.where, extent, 0, false, 0, 1, {&*times, 1});
    return true;
  }
  if (name == "deinterleave") {
    Expressions::Trace seen(values);
    std::optional<int64_t> groups = values.integer(second);
    if (!groups || !shapeList(*call.arguments[2].value, ints, rest))
      return false;
    ints.insert(ints.begin(), *groups);
    if (ints.size() < 2 || *std::min_element(ints.begin(), ints.end()) < 1) {
      reporter.error(call.where,
                     "deinterleave needs a positive number of groups and, for "
                     "each section, a positive number of rows in a group" +
                         correction(describe(seen.fields)));
      return false;
    }
    out.emit(OpKind::Deinterleave, expr.where, extent, 0, false, 0, 1, ints);
    return true;
  }
  std::optional<double> value = values.number(second);
  if (!value)
    return false;
  out.emit(name == "add" ? OpKind::Add : OpKind::Scale, expr.where, extent, 0,
           false, *value, 1, {});
  return true;
}

bool Evaluation::dropped() const {
  const RuleSide &known =
      oracle.known == Side::Megatron ? megatronSide : hfSide;
  const RuleSide &target =
      oracle.known == Side::Megatron ? hfSide : megatronSide;
  auto allOptional = [](const RuleSide &side) {
    return !side.names.empty() && side.optional == side.names.size();
  };
  if (known.names.empty() || (!allOptional(known) && !allOptional(target)))
    return false;
  return std::none_of(
      known.names.begin(), known.names.end(),
      [this](const std::string &name) { return present(name); });
}

void Evaluation::addRule(const Statement &statement, const Rule &rule) {
  if (rule.hf->kind == Expr::Kind::Name && rule.hf->name->wildcard)
    return addSubtree(statement, rule);
  megatronSide.clear();
  hfSide.clear();
  if (!side(*rule.megatron, nullptr, Side::Megatron, megatronSide) ||
      !side(*rule.hf, nullptr, Side::Hf, hfSide) || dropped())
    return;
  key.assign({std::bit_cast<int64_t>(&rule),
              static_cast<int64_t>(callSites.size()),
              static_cast<int64_t>(megatronSide.code.size())});
  key.insert(key.end(), callSites.begin(), callSites.end());
  key.insert(key.end(), megatronSide.code.begin(), megatronSide.code.end());
  key.insert(key.end(), hfSide.code.begin(), hfSide.code.end());
  if (!attributeKey(rule))
    return;
  std::optional<uint32_t> mapping = table.find(key);
  if (!mapping) {
    mapping = newMapping(statement, rule);
    model.mappings[*mapping].configFields = configFieldsOf(rule);
    table.add(key, *mapping);
  }
  model.instances.push_back(
      {*mapping, std::move(megatronSide.names), std::move(hfSide.names)});
}

void Evaluation::addSubtree(const Statement &statement, const Rule &rule) {
  const Name &megatron = *rule.megatron->name, &hf = *rule.hf->name;
  std::optional<std::string> megatronPattern =
      fullName(megatron, Side::Megatron);
  std::optional<std::string> hfPattern = fullName(hf, Side::Hf);
  if (!megatronPattern || !hfPattern || !oracle.withPrefix)
    return;
  // Both patterns end in "**".
  megatronPattern->resize(megatronPattern->size() - 2);
  hfPattern->resize(hfPattern->size() - 2);
  bool import = oracle.known == Side::Hf;
  const std::string &known = import ? *hfPattern : *megatronPattern;
  uint32_t mapping = UINT32_MAX;
  for (const std::string &name : oracle.withPrefix(known)) {
    if (mapping == UINT32_MAX) {
      for (RuleSide *side : {&megatronSide, &hfSide}) {
        side->clear();
        side->emit(OpKind::Tensor, (side == &hfSide ? hf : megatron).where, {},
                   0, false, 0, 0, {});
      }
      mapping = newMapping(statement, rule);
    }
    std::string tail = name.substr(known.size());
    model.instances.push_back(
        {mapping, {*megatronPattern + tail}, {*hfPattern + tail}});
  }
  if (mapping == UINT32_MAX && !hf.optional && !megatron.optional)
    reporter.error(
        (import ? hf : megatron).where,
        fmt::format(
            "no tensor's name starts with '{}'; mark the pattern with ? if "
            "that may be",
            known));
}

/// What config.json has of the numbers of a rule that has just been evaluated.
std::string Evaluation::configFieldsOf(const Rule &rule) {
  Expressions::Trace seen(values);
  RuleSide again;
  side(*rule.megatron, nullptr, Side::Megatron, again);
  again.clear();
  side(*rule.hf, nullptr, Side::Hf, again);
  return describe(seen.fields);
}

uint32_t Evaluation::newMapping(const Statement &statement, const Rule &rule) {
  Mapping mapping;
  mapping.megatron = decodeSide(megatronSide.code);
  mapping.hf = decodeSide(hfSide.code);
  mapping.where = statement.where;
  mapping.expansion = reporter.expansion();
  mapping.conditions = reporter.conditions();
  for (const Name *name : scopeNames) {
    if (name->fromRoot)
      mapping.label.clear();
    if (!name->stay)
      mapping.label +=
          (name->fromRoot ? name->spelling.substr(1) : name->spelling) + ".";
  }
  mapping.label += rule.megatron->kind == Expr::Kind::Name
                       ? rule.megatron->name->spelling
                       : rule.megatron->call->callee + "(...)";
  for (const Attribute &attribute : rule.attributes)
    setAttribute(mapping, attribute);
  model.mappings.push_back(std::move(mapping));
  return static_cast<uint32_t>(model.mappings.size() - 1);
}

} // namespace mbc::dsl
