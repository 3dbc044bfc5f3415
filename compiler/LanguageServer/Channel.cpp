#include "compiler/LanguageServer/Channel.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mbc::compiler {
namespace {

constexpr size_t maxHeaderLine = 4096;

/// The value of a header line that is a Content-Length; names of headers have
/// no case.
std::optional<std::string> contentLength(std::string_view line) {
  size_t colon = line.find(':');
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (colon == std::string_view::npos || name != "content-length")
    return std::nullopt;
  std::string_view value = line.substr(colon + 1);
  value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
  return std::string(value);
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

} // namespace

std::optional<char> Channel::byte() {
  if (at == buffer.size()) {
    buffer.resize(1 << 16);
    at = 0;
    buffer.resize(in.read(in.context, buffer.data(), buffer.size()));
    if (buffer.empty())
      return std::nullopt;
  }
  return buffer[at++];
}

/// Without its line break. Of a line that is too long, only the start is kept.
std::optional<std::string> Channel::headerLine() {
  std::string line;
  while (std::optional<char> next = byte()) {
    if (*next == '\n') {
      if (line.ends_with('\r'))
        line.pop_back();
      return line;
    }
    if (line.size() < maxHeaderLine)
      line += *next;
  }
  return std::nullopt;
}

bool Channel::skip(uint64_t count) {
  while (count != 0) {
    if (at == buffer.size()) {
      if (!byte())
        return false;
      --count;
    }
    uint64_t here = std::min<uint64_t>(count, buffer.size() - at);
    at += here;
    count -= here;
  }
  return true;
}

Channel::Incoming Channel::read() {
  using Kind = Incoming::Kind;
  if (!skip(std::exchange(refused, 0)))
    return {Kind::End, ""};
  std::optional<std::string> length;
  std::optional<std::string> line;
  while ((line = headerLine()) && !line->empty())
    if (std::optional<std::string> value = contentLength(*line))
      length = value;
  if (!line)
    return {Kind::End, ""};
  if (!length)
    return {Kind::Malformed, "a message has no Content-Length"};
  std::optional<uint64_t> count = number(*length);
  if (!count)
    return {
        Kind::Malformed,
        fmt::format("Content-Length '{}' is not a number of bytes", *length)};
  if (*count > maxMessageBytes) {
    // The sender learns of it before the bytes have come.
    refused = *count;
    return {Kind::Malformed,
            fmt::format("Content-Length is {}; at most {} bytes are read",
                        *count, maxMessageBytes)};
  }
  std::string text;
  while (text.size() < *count) {
    std::optional<char> next = byte();
    if (!next)
      return {Kind::End, ""};
    size_t here =
        std::min<uint64_t>(*count - text.size(), buffer.size() - at + 1);
    text.append(buffer, at - 1, here);
    at += here - 1;
  }
  return {Kind::Message, std::move(text)};
}

void Channel::write(const Json &message) {
  std::string text =
      message.dump(-1, ' ', false, Json::error_handler_t::replace);
  text = fmt::format("Content-Length: {}\r\n\r\n{}", text.size(), text);
  out.write(out.context, text.data(), text.size());
}

} // namespace mbc::compiler
