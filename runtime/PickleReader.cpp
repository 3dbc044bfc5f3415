#include "runtime/PickleReader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

namespace mbc {

Result<uint64_t> PickleReader::number(size_t width) {
  if (!has(width))
    return broken("the pickle ends too early");
  uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + next_, width);
  next_ += width;
  return value;
}

Result<std::string_view> PickleReader::line() {
  size_t end = bytes_.find('\n', next_);
  if (end == std::string_view::npos)
    return broken("the pickle ends too early");
  std::string_view text = bytes_.substr(next_, end - next_);
  next_ = end + 1;
  return text;
}

Result<void> PickleReader::text(size_t lengthWidth) {
  Result<uint64_t> length = number(lengthWidth);
  if (!length)
    return std::unexpected(length.error());
  if (!has(*length) || *length > UINT32_MAX)
    return broken(fmt::format("a text of {} bytes, {} are left", *length,
                              bytes_.size() - next_));
  PickleValue value{Kind::Text, static_cast<uint32_t>(*length), {}};
  value.index = next_;
  push(value);
  next_ += *length;
  return {};
}

Result<void> PickleReader::longInteger(size_t lengthWidth) {
  Result<uint64_t> length = number(lengthWidth);
  if (!length)
    return std::unexpected(length.error());
  if (!has(*length))
    return broken("the pickle ends too early");
  std::string_view digits = bytes_.substr(next_, *length);
  next_ += *length;
  bool negative =
      !digits.empty() && (static_cast<uint8_t>(digits.back()) & 0x80) != 0;
  PickleValue value{Kind::Integer, 0, {}};
  if (digits.size() <= 8) {
    value.integer = negative ? -1 : 0;
    std::memcpy(&value.integer, digits.data(), digits.size());
  } else { // more than 64 bits: only counters are so large
    value.kind = Kind::Real;
    value.real = negative ? -1 : 0;
    for (size_t i = digits.size(); i-- != 0;)
      value.real = value.real * 256 + static_cast<uint8_t>(digits[i]);
  }
  push(value);
  return {};
}

Result<void> PickleReader::remember(uint64_t index) {
  if (!holds(1))
    return broken("nothing to remember on the stack");
  // Every slot costs at least one byte of the pickle.
  if (index > bytes_.size())
    return broken(fmt::format("memo number {} in a pickle of {} bytes", index,
                              bytes_.size()));
  if (index >= memo_.size())
    memo_.resize(std::max<size_t>(index + 1, memo_.size() * 2));
  memo_[index] = stack_.back();
  memoised_ = std::max<size_t>(memoised_, index + 1);
  return {};
}

Result<void> PickleReader::scalar(uint8_t opcode) {
  PickleValue value;
  size_t width = opcode == 'J' ? 4 : opcode == 'K' ? 1 : opcode == 'M' ? 2 : 8;
  switch (opcode) {
  case 0x88:
  case 0x89:
    value.kind = Kind::Bool;
    value.integer = opcode == 0x88;
    break;
  case 'J':
  case 'K':
  case 'M': {
    Result<uint64_t> read = number(width);
    if (!read)
      return std::unexpected(read.error());
    value.kind = Kind::Integer;
    value.integer = opcode == 'J' ? static_cast<int32_t>(*read)
                                  : static_cast<int64_t>(*read);
    break;
  }
  case 'G': {
    Result<uint64_t> read = number(width);
    if (!read)
      return std::unexpected(read.error());
    value.kind = Kind::Real;
    value.real = std::bit_cast<double>(__builtin_bswap64(*read));
    break;
  }
  default:
    break;
  }
  push(value);
  return {};
}

Result<void> PickleReader::memoOp(uint8_t opcode) {
  if (opcode == 0x94)
    return remember(memoised_);
  Result<uint64_t> index = number(opcode == 'h' || opcode == 'q' ? 1 : 4);
  if (!index)
    return std::unexpected(index.error());
  if (opcode == 'q' || opcode == 'r')
    return remember(*index);
  if (*index >= memoised_)
    return broken(fmt::format("memo number {} was never set", *index));
  push(memo_[*index]);
  return {};
}

/// Opcodes of protocol 0, whose argument is the rest of a line. Escapes in
/// texts keep their spelling.
Result<void> PickleReader::lineOp(uint8_t opcode) {
  size_t begin = next_;
  Result<std::string_view> rest = line();
  if (!rest)
    return std::unexpected(rest.error());
  if (opcode == 'S' || opcode == 'V') {
    bool quoted = opcode == 'S' && rest->size() >= 2;
    PickleValue value{
        Kind::Text, static_cast<uint32_t>(rest->size() - 2 * quoted), {}};
    value.index = begin + quoted;
    push(value);
    return {};
  }
  uint64_t index = 0;
  auto [end, code] =
      std::from_chars(rest->data(), rest->data() + rest->size(), index);
  if (code != std::errc() || end != rest->data() + rest->size())
    return broken(fmt::format("memo number '{}'", *rest));
  if (opcode == 'p')
    return remember(index);
  if (index >= memoised_)
    return broken(fmt::format("memo number {} was never set", index));
  push(memo_[index]);
  return {};
}

Result<void> PickleReader::step(uint8_t opcode) {
  switch (opcode) {
  case 0x80:   // PROTO
  case 0x95: { // FRAME
    Result<uint64_t> value = number(opcode == 0x80 ? 1 : 8);
    if (!value)
      return std::unexpected(value.error());
    return {};
  }
  case 'N':
  case 0x88:
  case 0x89:
  case 'J':
  case 'K':
  case 'M':
  case 'G':
    return scalar(opcode);
  case 0x8a:
    return longInteger(1);
  case 0x8b:
    return longInteger(4);
  case 'X':
  case 'B':
  case 'T':
    return text(4);
  case 0x8c:
  case 'C':
  case 'U':
    return text(1);
  case 0x8d:
  case 0x8e:
  case 0x96:
    return text(8);
  case '(':
  case '0':
  case '1':
  case '2':
  case '.':
    return stackOp(opcode);
  case 'h':
  case 'j':
  case 'q':
  case 'r':
  case 0x94:
    return memoOp(opcode);
  case 'S':
  case 'V':
  case 'p':
  case 'g':
    return lineOp(opcode);
  case ')':
    push(make(Kind::Tuple));
    return {};
  case ']':
    push(make(Kind::List));
    return {};
  case '}':
    push(make(Kind::Dict));
    return {};
  case 0x8f:
    push(make(Kind::Set));
    return {};
  case 'a':
  case 'e':
  case 's':
  case 'u':
  case 0x90:
  case 0x91:
  case 't':
  case 0x85:
  case 0x86:
  case 0x87:
    return collect(opcode);
  case 'c':
  case 0x93:
  case 0x81:
  case 0x92:
  case 'R':
  case 'b':
  case 'Q':
  case 'i':
  case 'o':
    return construct(opcode);
  default:
    return broken(fmt::format("unknown opcode {:#04x}", opcode));
  }
}

Result<void> PickleReader::run() {
  while (!done_) {
    position_ = next_;
    if (!has(1))
      return broken("the pickle ends without STOP");
    if (auto good = step(static_cast<uint8_t>(bytes_[next_++])); !good)
      return good;
  }
  tree_.length_ = next_;
  return {};
}

Result<PickleTree> PickleTree::parse(std::string bytes,
                                     std::string_view origin) {
  PickleTree tree;
  tree.bytes_ = std::make_shared<const std::string>(std::move(bytes));
  tree.origin_ = origin;
  if (auto read = PickleReader(tree).run(); !read)
    return std::unexpected(read.error());
  return tree;
}

} // namespace mbc
