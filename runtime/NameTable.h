#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace mbc {

/// Finds names among up to 2^31 of them: 8 bytes a slot, half of the slots in
/// use, no name copied. `nameOf(i)` gives name number i.
template <typename NameOf> class NameTable {
public:
  NameTable(size_t count, NameOf nameOf)
      : nameOf_(std::move(nameOf)), slots_(std::bit_ceil(count * 2 + 1)) {}

  /// Adds name number `index`; the number of the equal name that is there
  /// already, if there is one.
  std::optional<uint32_t> insert(uint32_t index) {
    std::string_view name = nameOf_(index);
    Slot &slot = slots_[place(name)];
    if (slot.index != none)
      return slot.index;
    slot = {hash(name), index};
    return std::nullopt;
  }

  std::optional<uint32_t> find(std::string_view name) const {
    const Slot &slot = slots_[place(name)];
    return slot.index == none ? std::nullopt : std::optional(slot.index);
  }

private:
  static constexpr uint32_t none = UINT32_MAX;
  struct Slot {
    uint32_t hash = 0, index = none;
  };

  static uint32_t hash(std::string_view name) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(name) >> 16);
  }

  /// The slot that holds the name, or the free one where it belongs.
  size_t place(std::string_view name) const {
    uint32_t key = hash(name);
    for (size_t i = key;; ++i) {
      const Slot &slot = slots_[i & (slots_.size() - 1)];
      if (slot.index == none ||
          (slot.hash == key && nameOf_(slot.index) == name))
        return i & (slots_.size() - 1);
    }
  }

  NameOf nameOf_;
  std::vector<Slot> slots_;
};

} // namespace mbc
