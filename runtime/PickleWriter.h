#pragma once

#include "runtime/DType.h"
#include "runtime/Json.h"
#include "runtime/Shape.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mbc {

/// Writes a pickle of protocol 2 with the opcodes that torch.load accepts under
/// weights_only. Classes and strings are memoised on first use. Calls follow
/// the order of the opcodes; balance is the caller's business.
class PickleWriter {
public:
  PickleWriter();

  /// `name` is "module\nclass", e.g. "torch\nSize".
  void global(std::string_view name);
  void text(std::string_view value);

  /// A class or string that is written again and again: its memo slot is
  /// looked up once.
  struct Constant {
    std::string_view value;
    int64_t slot = -1;
  };
  void global(Constant &name);
  void text(Constant &value);
  void integer(int64_t value);
  void real(double value);
  void boolean(bool value);
  void none() { out_ += 'N'; }

  void mark() { out_ += '('; }
  void emptyTuple() { out_ += ')'; }
  void emptyList() { out_ += ']'; }
  void emptyDict() { out_ += '}'; }
  void append() { out_ += 'a'; }
  void appends() { out_ += 'e'; }
  void setItems() { out_ += 'u'; }
  void tupleFromMark() { out_ += 't'; }
  void tuple1() { out_ += '\x85'; }
  void reduce() { out_ += 'R'; }
  void build() { out_ += 'b'; }
  void persistentId() { out_ += 'Q'; }

  /// An instance of a class without arguments, before its BUILD.
  void newObject(std::string_view className);
  void newObject(Constant &className);
  /// A tuple of integers.
  void tuple(std::span<const int64_t> values);
  /// torch.Size.
  void size(std::span<const int64_t> dims);
  /// A contiguous tensor on the CPU whose bytes are the archive's entry
  /// data/<key>.
  void tensor(std::string_view key, DType dtype,
              std::span<const int64_t> shape);
  /// A JSON value: objects become dicts, "torch.<dtype>" the dtype itself.
  void json(const Json &value);
  /// argparse.Namespace with the members of a JSON object.
  void nameSpace(const Json &members);

  /// Ends the pickle and returns it.
  std::string finish() &&;

private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Memo = std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>>;

  void get(uint32_t slot);
  bool fetch(const Memo &memo, std::string_view key);
  void remember(Memo &memo, std::string_view key);
  void dictItems(const Json &members);

  std::string out_;
  Memo globals_, texts_;
  uint32_t memoised_ = 0;
  Constant sizeClass_{"torch\nSize"};
};

/// The data.pkl of an archive that holds one bare tensor.
std::string tensorPickle(DType dtype, std::span<const int64_t> shape);

} // namespace mbc
