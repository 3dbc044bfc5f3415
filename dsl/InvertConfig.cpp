#include "dsl/InvertConfig.h"

#include "dsl/Inversion.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mbc::dsl {
namespace {

using List = std::shared_ptr<const ValueList>;

std::optional<double> asNumber(const Value &value) {
  if (const int64_t *integer = std::get_if<int64_t>(&value))
    return static_cast<double>(*integer);
  if (const double *number = std::get_if<double>(&value))
    return *number;
  return std::nullopt;
}

void set(ConfigNode &node, const Value &value) {
  using Kind = ConfigNode::Kind;
  if (const bool *flag = std::get_if<bool>(&value)) {
    node.kind = Kind::Bool;
    node.integer = *flag;
  } else if (const int64_t *integer = std::get_if<int64_t>(&value)) {
    node.kind = Kind::Int;
    node.integer = *integer;
  } else if (const double *number = std::get_if<double>(&value)) {
    node.kind = Kind::Double;
    node.number = *number;
  } else if (const std::string *text = std::get_if<std::string>(&value)) {
    node.kind = Kind::String;
    node.text = *text;
  } else if (const List *list = std::get_if<List>(&value)) {
    node.kind = Kind::List;
    for (const Value &item : **list)
      set(node.items.emplace_back(), item);
  } else {
    node.kind = Kind::Null;
  }
}

bool says(const ConfigNode &node, const Value &value) {
  using Kind = ConfigNode::Kind;
  switch (node.kind) {
  case Kind::Null:
    return std::holds_alternative<std::monostate>(value);
  case Kind::Bool:
    return sameValue(Value(node.integer != 0), value);
  case Kind::Int:
    return sameValue(Value(node.integer), value);
  case Kind::Double:
    return sameValue(Value(node.number), value);
  case Kind::String:
    return sameValue(Value(node.text), value);
  case Kind::Object:
    return false;
  case Kind::List:
    break;
  }
  const List *list = std::get_if<List>(&value);
  return list && std::ranges::equal(node.items, **list, says);
}

/// An argument and the expression that gives it.
struct Equation {
  const Expr *expr;
  const std::vector<Value> *spellings;
  bool isSolved = false;
};

class Equations {
public:
  Equations(Inversion &inversion) : inversion(inversion) {}

  void add(const Expr &expr, const std::vector<Value> &spellings) {
    all.push_back({&expr, &spellings});
  }

  /// Fields that one equation gives are what another needs.
  void solve() {
    for (bool progress = true; progress;) {
      progress = false;
      for (Equation &equation : all)
        if (!equation.isSolved && attempt(equation))
          progress = equation.isSolved = true;
    }
  }

  /// Once more: what was left to a default may have its place now.
  void complete() {
    for (Equation &equation : all)
      if (equation.isSolved)
        attempt(equation);
      else if (equation.spellings->empty())
        inversion.settle(*equation.expr);
  }

private:
  bool attempt(const Equation &equation) {
    return std::ranges::any_of(*equation.spellings, [&](const Value &value) {
      return inversion.attempt([&] {
        return inversion.solve(*equation.expr, value) && othersHold();
      });
    });
  }
  bool othersHold() {
    return std::ranges::all_of(all, [&](const Equation &other) {
      return !other.isSolved ||
             std::ranges::any_of(*other.spellings, [&](const Value &value) {
               return inversion.holds(*other.expr, value);
             });
    });
  }

  Inversion &inversion;
  std::vector<Equation> all;
};

} // namespace

bool sameValue(const Value &one, const Value &other) {
  std::optional<double> x = asNumber(one), y = asNumber(other);
  if (x && y)
    return *x == *y;
  const List *a = std::get_if<List>(&one), *b = std::get_if<List>(&other);
  if (a && b)
    return std::ranges::equal(**a, **b, sameValue);
  return static_cast<const Value::variant &>(one) ==
         static_cast<const Value::variant &>(other);
}

const ConfigNode *Inversion::find(const Path &path) const {
  const ConfigNode *node = &root;
  for (const std::string &key : path)
    if (node)
      node = node->find(key);
  return node;
}

bool Inversion::parentExists(const Path &path) const {
  return find(Path(path.begin(), path.end() - 1)) != nullptr;
}

/// The object that a field belongs to, made if it is not there; null if what
/// stands in its place is no object.
ConfigNode *Inversion::parentOf(const Path &path) {
  ConfigNode *node = &root;
  for (size_t at = 0; at + 1 != path.size(); ++at) {
    auto member = std::ranges::find(
        node->members, path[at], [](const auto &entry) { return entry.name; });
    if (member == node->members.end()) {
      ConfigNode object;
      object.kind = ConfigNode::Kind::Object;
      object.path = fmt::format(
          "{}", fmt::join(path.begin(), path.begin() + at + 1, "."));
      node->members.push_back({path[at], std::move(object)});
      member = node->members.end() - 1;
    }
    node = &member->value;
    if (node->kind != ConfigNode::Kind::Object)
      return nullptr;
  }
  return node;
}

bool Inversion::assign(const Path &path, const Value &value) {
  if (const ConfigNode *given = find(path))
    return says(*given, value);
  ConfigNode *parent = parentOf(path);
  if (!parent)
    return false;
  ConfigNode field;
  field.path = fmt::format("{}", fmt::join(path, "."));
  set(field, value);
  parent->members.push_back({path.back(), std::move(field)});
  values.forgetLets();
  return true;
}

/// Elements come in their order.
bool Inversion::assignElement(const Path &path, size_t index,
                              const Value &value) {
  auto list = std::make_shared<ValueList>();
  if (!find(path) && !assign(path, Value(List(list))))
    return false;
  ConfigNode *parent = parentOf(path);
  auto member = std::ranges::find(parent->members, path.back(),
                                  [](const auto &entry) { return entry.name; });
  ConfigNode &field = member->value;
  if (field.kind != ConfigNode::Kind::List || index > field.items.size())
    return false;
  if (index != field.items.size())
    return says(field.items[index], value);
  set(field.items.emplace_back(), value);
  values.forgetLets();
  return true;
}

bool Inversion::attempt(const std::function<bool()> &work) {
  ConfigNode saved = root;
  if (work())
    return true;
  root = std::move(saved);
  values.forgetLets();
  return false;
}

/// Whether the spec's `write` names the field.
bool Inversion::isWritten(const Path &path) const {
  std::function<bool(size_t, const Path &, size_t)> fits =
      [&](size_t at, const Path &pattern, size_t next) {
        if (next == pattern.size())
          return at == path.size();
        if (pattern[next] == "**")
          return fits(at, pattern, next + 1) ||
                 (at != path.size() && fits(at + 1, pattern, next));
        return at != path.size() &&
               (pattern[next] == "*" || pattern[next] == path[at]) &&
               fits(at + 1, pattern, next + 1);
      };
  return std::ranges::any_of(spec.writtenFields, [&](const Name &name) {
    return fits(0, name.segments, 1);
  });
}

ConfigNode Inversion::take() {
  for (const Path &path : joined) {
    const ConfigNode *field = find(path);
    if (!field || field->kind != ConfigNode::Kind::List)
      continue;
    std::vector<int64_t> items;
    for (const ConfigNode &item : field->items)
      items.push_back(item.integer);
    ConfigNode *parent = parentOf(path);
    std::erase_if(parent->members,
                  [&](const auto &entry) { return entry.name == path.back(); });
    assign(path, Value(fmt::format("{}", fmt::join(items, ","))));
  }
  return std::move(root);
}

ConfigNode invertConfig(const Spec &spec, const NameOracle &oracle,
                        ConfigNode known,
                        const std::vector<KnownArgument> &arguments,
                        const Value &vocabSize) {
  Inversion inversion(spec, oracle, std::move(known));
  Equations equations(inversion);
  const std::vector<Value> vocab{vocabSize};
  if (spec.model && spec.model->vocab &&
      !std::holds_alternative<std::monostate>(vocabSize))
    equations.add(*spec.model->vocab, vocab);
  for (const KnownArgument &argument : arguments)
    for (const ConfigAssignment &field : spec.config)
      if (argument.name == field.field)
        equations.add(*field.value, argument.spellings);
  using Stage = Inversion::Stage;
  for (Stage stage : {Stage::Fields, Stage::Objects, Stage::Lists}) {
    inversion.enter(stage);
    equations.solve();
  }
  inversion.enter(Stage::Rest);
  equations.complete();
  return inversion.take();
}

} // namespace mbc::dsl
