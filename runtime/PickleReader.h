#pragma once

#include "runtime/PickleTree.h"

namespace mbc {

/// The stack machine. It moves values; the only thing that it "runs" is the
/// assembly of containers.
class PickleReader {
public:
  PickleReader(PickleTree &tree) : tree_(tree), bytes_(*tree.bytes_) {}
  Result<void> run();

private:
  using Kind = PickleKind;
  using Status = Result<void>;

  Status step(uint8_t opcode);
  Status scalar(uint8_t opcode);
  Status stackOp(uint8_t opcode);
  Status memoOp(uint8_t opcode);
  Status lineOp(uint8_t opcode);
  Status collect(uint8_t opcode);
  Status construct(uint8_t opcode);

  std::unexpected<Error> broken(std::string_view what) const {
    return fail("{}: byte {} of the pickle: {}", tree_.origin_, position_,
                what);
  }

  // --- input ---
  bool has(uint64_t count) const { return count <= bytes_.size() - next_; }
  Result<uint64_t> number(size_t width);
  Result<std::string_view> line();
  Status text(size_t lengthWidth);
  Status longInteger(size_t lengthWidth);

  // --- stack ---
  void push(PickleValue value) { stack_.push_back(value); }
  bool holds(size_t count) const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back()) >= count;
  }
  PickleValue pop() {
    PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Result<size_t> popMark();

  // --- containers ---
  PickleValue make(Kind kind, std::span<const PickleValue> items = {});
  void extend(PickleValue value, std::span<const PickleValue> items);
  Status addItems(size_t from, bool pairs);
  Status pushTuple(size_t from);
  Status call(PickleValue callable, PickleValue arguments, Kind kind);
  Status pushGlobal(std::string_view module, std::string_view name);
  Status remember(uint64_t index);

  PickleTree &tree_;
  std::string_view bytes_;
  size_t next_ = 0, position_ = 0;
  std::vector<PickleValue> stack_, memo_;
  std::vector<size_t> marks_;
  size_t memoised_ = 0;
  bool done_ = false;
};

} // namespace mbc
