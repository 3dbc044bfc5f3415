#include "tests/end-to-end/MegatronArgs.h"

#include "tests/end-to-end/Scratch.h"

#include <bit>
#include <cstring>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mbc::test {
namespace {

/// The part of the pickle protocol that plain values need. An object is what
/// was set on it; a class is its name.
class Pickle {
public:
  explicit Pickle(std::string_view text) : text_(text) {}

  Json value() {
    while (!step(static_cast<unsigned char>(take(1)[0]))) {
    }
    return pop();
  }

private:
  /// One instruction; true at the end.
  bool step(unsigned char code) {
    switch (code) {
    case 0x80: // protocol
      take(1);
      return false;
    case 'q': // remembers the top
      memo_[little(1)] = stack_.back();
      return false;
    case 'r':
      memo_[little(4)] = stack_.back();
      return false;
    case 'h':
      push(memo_.at(little(1)));
      return false;
    case 'j':
      push(memo_.at(little(4)));
      return false;
    case 'c':
      push(line() + "." + line());
      return false;
    case '(':
      marks_.push_back(stack_.size());
      return false;
    case 'a': {
      Json item = pop();
      stack_.back().push_back(std::move(item));
      return false;
    }
    case 'e':
      for (Json &item : sinceMark())
        stack_.back().push_back(std::move(item));
      return false;
    case 's':
    case 'u':
      return setItems(code);
    case 0x81: // an object of a class and its arguments
      pop();
      stack_.back() = Json::object();
      return false;
    case 'b': { // and what is set on it
      Json state = pop();
      stack_.back() = std::move(state);
      return false;
    }
    case '.':
      return true;
    default:
      push(plain(code));
      return false;
    }
  }

  Json plain(unsigned char code) {
    switch (code) {
    case 'N':
      return nullptr;
    case 0x88:
      return true;
    case 0x89:
      return false;
    case 'K':
      return little(1);
    case 'M':
      return little(2);
    case 'J':
      return static_cast<int32_t>(little(4));
    case 0x8a: // an integer of that many bytes
      return signedOf(little(1));
    case 'G': {
      uint64_t bits = 0;
      std::memcpy(&bits, take(8).data(), 8);
      return std::bit_cast<double>(__builtin_bswap64(bits));
    }
    case 'X':
      return std::string(take(little(4)));
    case ')':
    case ']':
      return Json::array();
    case '}':
      return Json::object();
    default:
      throw std::runtime_error(fmt::format("instruction {:#x}", code));
    }
  }

  bool setItems(unsigned char code) {
    std::vector<Json> items;
    if (code == 'u') {
      items = sinceMark();
    } else {
      Json item = pop(), name = pop();
      items = {std::move(name), std::move(item)};
    }
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      stack_.back()[items[i].get<std::string>()] = std::move(items[i + 1]);
    return false;
  }

  std::vector<Json> sinceMark() {
    const auto from =
        stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<Json> items(std::make_move_iterator(from),
                            std::make_move_iterator(stack_.end()));
    stack_.erase(from, stack_.end());
    return items;
  }

  int64_t signedOf(uint64_t bytes) {
    const std::string_view text = take(bytes);
    int64_t number = !text.empty() && (text.back() & 0x80) != 0 ? -1 : 0;
    std::memcpy(&number, text.data(), text.size());
    return number;
  }

  uint64_t little(size_t bytes) {
    uint64_t number = 0;
    std::memcpy(&number, take(bytes).data(), bytes);
    return number;
  }

  std::string line() {
    const size_t end = text_.find('\n');
    std::string text(take(end));
    take(1);
    return text;
  }

  std::string_view take(size_t bytes) {
    if (bytes > text_.size())
      throw std::runtime_error("it ends early");
    const std::string_view taken = text_.substr(0, bytes);
    text_.remove_prefix(bytes);
    return taken;
  }

  void push(Json value) { stack_.push_back(std::move(value)); }
  Json pop() {
    Json top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }

  std::string_view text_;
  std::vector<Json> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, Json> memo_;
};

} // namespace

Json megatronArgs(const std::string &checkpoint) {
  const std::string file = readText(checkpoint + "/release/common.pt");
  // The archive's first member, which is stored as it is, begins so.
  const size_t begin = file.find("\x80\x02}");
  if (begin == std::string::npos) {
    ADD_FAILURE() << checkpoint << " has no common.pt";
    return nullptr;
  }
  try {
    return Pickle(std::string_view(file).substr(begin)).value().at("args");
  } catch (const std::exception &error) {
    ADD_FAILURE() << checkpoint << "/release/common.pt: " << error.what();
    return nullptr;
  }
}

} // namespace mbc::test
