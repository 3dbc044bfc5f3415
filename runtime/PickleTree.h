#pragma once

#include "runtime/Json.h"
#include "runtime/Result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mbc {

enum class PickleKind : uint8_t {
  None,
  Bool,
  Integer,
  Real,
  Text,   ///< also bytes
  Global, ///< a class or function, by name only
  Tuple,
  List,
  Set,
  Dict,   ///< items: key, value, key, value ...; also OrderedDict and its like
  Object, ///< an instance: class, arguments, state
  Call,   ///< an allowed function or enum that would be called: the same
  Persistent, ///< a storage: items[0] is its id
};

/// A value of a PickleTree, 16 bytes, valid as long as the tree.
struct PickleValue {
  PickleKind kind = PickleKind::None;
  uint32_t length = 0; ///< Text: bytes
  union {
    int64_t integer = 0;
    double real;
    uint64_t
        index; ///< Text: offset into the pickle; else number of a container
  };
};

/// A pickle as plain data. Nothing is imported, called or built: classes stay
/// names, unknown ones included. A call is an error unless its function is on
/// a closed list of constructors of plain values (Size, dtype, storage ...).
/// Immutable after `parse`, so any number of threads may read it.
class PickleTree {
public:
  /// Reads protocols 2 to 5. Errors name `origin` and the byte offset.
  static Result<PickleTree> parse(std::string bytes, std::string_view origin);
  /// How many bytes the pickle took of those that were given.
  size_t length() const { return length_; }

  PickleValue root() const { return root_; }

  std::string_view text(PickleValue value) const; ///< "" if it is no text
  struct Name {
    std::string_view module, name;
    bool is(std::string_view otherModule, std::string_view otherName) const {
      return module == otherModule && name == otherName;
    }
  };
  Name global(PickleValue value) const; ///< empty if it is no Global
  /// Elements, keys and values, or arguments.
  std::span<const PickleValue> items(PickleValue value) const;
  /// The class or function of an Object or Call (of an OrderedDict: None).
  PickleValue callable(PickleValue value) const;
  /// What BUILD gave.
  PickleValue state(PickleValue value) const;
  /// A dict's entry or an object's attribute; None if it is absent.
  PickleValue field(PickleValue value, std::string_view name) const;
  bool hasField(PickleValue value, std::string_view name) const;

  /// Plain values as JSON: namespaces and objects by their attributes, tuples
  /// as lists, dtypes as "torch.<name>", enums by their member. Deeper than 64
  /// levels, or more than a million values, is an error.
  Result<Json> json(PickleValue value) const;

private:
  friend class PickleReader;

  struct Container {
    uint64_t first = 0; ///< of its items in `pool_`
    uint32_t count = 0, capacity = 0;
    PickleValue callable, state;
  };

  const Container *container(PickleValue value) const;

  std::shared_ptr<const std::string> bytes_;
  std::string origin_;
  size_t length_ = 0;
  std::vector<PickleValue> pool_;
  std::vector<Container> containers_;
  std::vector<Name> globals_;
  PickleValue root_;
};

/// Whether a pickle may call `name`: constructors of plain values and of
/// enums, none of which can do anything else.
bool mayBeCalled(PickleTree::Name name);

} // namespace mbc
