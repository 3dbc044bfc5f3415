#pragma once

#include "runtime/CompilerInterface.h"
#include "runtime/Json.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mbc::compiler {

/// Messages of the language server protocol: a header with Content-Length, an
/// empty line, and that many bytes of JSON.
class Channel {
public:
  Channel(mbc_source in, mbc_sink out) : in(in), out(out) {}

  struct Incoming {
    enum class Kind : uint8_t { Message, Malformed, End } kind = Kind::End;
    std::string text; ///< the message, or what is wrong with its header
  };
  /// Blocks until there is a message or the input ends. What is malformed is
  /// passed over.
  Incoming read();

  void write(const Json &message);

  /// Larger ones are refused: a spec is some kilobytes.
  static constexpr uint64_t maxMessageBytes = 64 << 20;

private:
  std::optional<char> byte();
  std::optional<std::string> headerLine();
  bool skip(uint64_t count);

  mbc_source in;
  mbc_sink out;
  std::string buffer;
  size_t at = 0;        ///< in the buffer
  uint64_t refused = 0; ///< bytes of a message that is too large, still to come
};

} // namespace mbc::compiler
