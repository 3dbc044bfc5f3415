#include "runtime/PickleReader.h"

#include <algorithm>

namespace mbc {

Result<size_t> PickleReader::popMark() {
  if (marks_.empty())
    return broken("no MARK on the stack");
  size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

PickleValue PickleReader::make(Kind kind, std::span<const PickleValue> items) {
  PickleValue value{kind, 0, {}};
  value.index = tree_.containers_.size();
  tree_.containers_.emplace_back();
  extend(value, items);
  return value;
}

void PickleReader::extend(PickleValue value,
                          std::span<const PickleValue> items) {
  PickleTree::Container &container = tree_.containers_[value.index];
  std::vector<PickleValue> &pool = tree_.pool_;
  uint32_t needed = container.count + static_cast<uint32_t>(items.size());
  if (needed > container.capacity) {
    // Doubling keeps the cost of one APPEND at a time linear.
    uint32_t capacity = container.count == 0 ? needed : needed * 2;
    bool last = container.first + container.capacity == pool.size();
    uint64_t first =
        last && container.count != 0 ? container.first : pool.size();
    pool.resize(first + capacity);
    std::copy_n(pool.begin() + static_cast<ptrdiff_t>(container.first),
                container.count, pool.begin() + static_cast<ptrdiff_t>(first));
    container.first = first;
    container.capacity = capacity;
  }
  std::copy(items.begin(), items.end(),
            pool.begin() +
                static_cast<ptrdiff_t>(container.first + container.count));
  container.count = needed;
}

/// Moves the stack from `from` on into the container below.
Result<void> PickleReader::addItems(size_t from, bool pairs) {
  if (from == 0 || from > stack_.size())
    return broken("no container on the stack");
  PickleValue target = stack_[from - 1];
  if (target.kind < Kind::List || (pairs && (stack_.size() - from) % 2 != 0))
    return broken("items for something that is no container");
  extend(target, std::span(stack_).subspan(from));
  stack_.resize(from);
  return {};
}

Result<void> PickleReader::pushTuple(size_t from) {
  PickleValue tuple = make(Kind::Tuple, std::span(stack_).subspan(from));
  stack_.resize(from);
  push(tuple);
  return {};
}

Result<void> PickleReader::pushGlobal(std::string_view module,
                                      std::string_view name) {
  PickleValue value{Kind::Global, 0, {}};
  value.index = tree_.globals_.size();
  tree_.globals_.push_back({module, name});
  push(value);
  return {};
}

/// Kind::Object: an instance, of whatever class. Kind::Call: a function, which
/// has to be on the list.
Result<void> PickleReader::call(PickleValue callable, PickleValue arguments,
                                Kind kind) {
  if (callable.kind != Kind::Global || arguments.kind != Kind::Tuple)
    return broken("a call of something that is no class or function");
  PickleTree::Name name = tree_.global(callable);
  if (kind == Kind::Call && !mayBeCalled(name))
    return broken(fmt::format("would call {}.{}, which a checkpoint has no "
                              "reason to; it was not executed",
                              name.module, name.name));
  std::span<const PickleValue> items = tree_.items(arguments);
  if (name.is("torch", "Size") && items.size() == 1 &&
      items[0].kind >= Kind::Tuple) {
    push(items[0]);
    return {};
  }
  if (name.is("_codecs", "encode") && !items.empty()) {
    push(items[0]);
    return {};
  }
  bool dict = name.module == "collections" && name.name != "deque";
  if (kind == Kind::Call && dict) {
    push(make(Kind::Dict));
    return {};
  }
  // A copy: making the container may move the items.
  std::vector<PickleValue> copy(items.begin(), items.end());
  PickleValue value = make(kind, copy);
  tree_.containers_[value.index].callable = callable;
  push(value);
  return {};
}

Result<void> PickleReader::stackOp(uint8_t opcode) {
  if (opcode == '(') {
    marks_.push_back(stack_.size());
    return {};
  }
  if (opcode == '1') {
    Result<size_t> mark = popMark();
    if (!mark)
      return std::unexpected(mark.error());
    stack_.resize(*mark);
    return {};
  }
  if (!holds(1))
    return broken("the stack is empty");
  if (opcode == '0')
    stack_.pop_back();
  else if (opcode == '2')
    push(stack_.back());
  else { // STOP
    tree_.root_ = stack_.back();
    done_ = true;
  }
  return {};
}

Result<void> PickleReader::collect(uint8_t opcode) {
  size_t fixed = opcode == 'a' ? 1 : opcode == 's' ? 2 : opcode - 0x84u;
  bool single =
      opcode == 'a' || opcode == 's' || (opcode >= 0x85 && opcode <= 0x87);
  size_t from = 0;
  if (single) {
    if (!holds(fixed))
      return broken("too few values on the stack");
    from = stack_.size() - fixed;
  } else {
    Result<size_t> mark = popMark();
    if (!mark)
      return std::unexpected(mark.error());
    from = *mark;
  }
  switch (opcode) {
  case 'a':
  case 'e':
  case 0x90:
    return addItems(from, false);
  case 's':
  case 'u':
    return addItems(from, true);
  case 0x91: {
    PickleValue set = make(Kind::Set, std::span(stack_).subspan(from));
    stack_.resize(from);
    push(set);
    return {};
  }
  default:
    return pushTuple(from);
  }
}

Result<void> PickleReader::construct(uint8_t opcode) {
  if (opcode == 'c') {
    Result<std::string_view> module = line();
    Result<std::string_view> name = module ? line() : module;
    if (!name)
      return std::unexpected(name.error());
    return pushGlobal(*module, *name);
  }
  if (opcode == 'i' || opcode == 'o') { // INST, OBJ: a call with a MARK
    Result<size_t> mark = popMark();
    if (!mark)
      return std::unexpected(mark.error());
    if (opcode == 'i') {
      Result<std::string_view> module = line();
      Result<std::string_view> name = module ? line() : module;
      if (!name)
        return std::unexpected(name.error());
      (void)pushGlobal(*module, *name);
      std::rotate(stack_.begin() + static_cast<ptrdiff_t>(*mark),
                  stack_.end() - 1, stack_.end());
    }
    if (stack_.size() <= *mark)
      return broken("too few values on the stack");
    (void)pushTuple(*mark + 1);
    PickleValue arguments = pop();
    return call(pop(), arguments, Kind::Call);
  }
  size_t needed = opcode == 0x92 ? 3 : opcode == 'Q' ? 1 : 2;
  if (!holds(needed))
    return broken("too few values on the stack");
  PickleValue top = pop();
  switch (opcode) {
  case 'Q':
    push(make(Kind::Persistent, {&top, 1}));
    return {};
  case 0x93: {
    PickleValue module = pop();
    if (top.kind != Kind::Text || module.kind != Kind::Text)
      return broken("a class whose name is no text");
    return pushGlobal(tree_.text(module), tree_.text(top));
  }
  case 'b':
    if (stack_.back().kind < Kind::Tuple)
      return broken("a state for something that is no object");
    tree_.containers_[stack_.back().index].state = top;
    return {};
  case 0x92: { // NEWOBJ_EX: keyword arguments have no meaning for inert objects
    PickleValue arguments = pop();
    return call(pop(), arguments, Kind::Object);
  }
  default:
    return call(pop(), top, opcode == 'R' ? Kind::Call : Kind::Object);
  }
}

} // namespace mbc
