#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace mbc {

/// Finds the numbers of names, up to 2^31 of them: 8 bytes a slot, at most half
/// of the slots in use, no name copied. `nameOf(i)` gives name number i.
class NameTable {
public:
  static constexpr uint32_t none = UINT32_MAX;

  explicit NameTable(size_t count = 0) : slots_(std::bit_ceil(count * 2 + 1)) {}

  /// Lets a name lead to `index`; the number to which it led before, or none.
  template <typename NameOf>
  uint32_t put(uint32_t index, const NameOf &nameOf) {
    std::string_view name = nameOf(index);
    Slot &slot = slots_[place(name, nameOf)];
    uint32_t before = slot.index;
    slot = {hash(name), index};
    return before;
  }

  template <typename NameOf>
  uint32_t find(std::string_view name, const NameOf &nameOf) const {
    return slots_[place(name, nameOf)].index;
  }

private:
  struct Slot {
    uint32_t hash = 0, index = none;
  };

  static uint32_t hash(std::string_view name) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(name) >> 16);
  }

  /// The slot that holds the name, or the free one where it belongs.
  template <typename NameOf>
  size_t place(std::string_view name, const NameOf &nameOf) const {
    uint32_t key = hash(name);
    for (size_t i = key;; ++i) {
      const Slot &slot = slots_[i & (slots_.size() - 1)];
      if (slot.index == none ||
          (slot.hash == key && nameOf(slot.index) == name))
        return i & (slots_.size() - 1);
    }
  }

  std::vector<Slot> slots_;
};

} // namespace mbc
