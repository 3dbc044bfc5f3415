#include "compiler/LanguageServer/Position.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mbc::compiler {
namespace {

constexpr std::string_view fileScheme = "file://";

/// Bytes of the character that starts with `lead`, and its UTF-16 units.
size_t byteCount(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
uint32_t units(char lead) { return byteCount(lead) == 4 ? 2 : 1; }

Json toJson(Position position) {
  return {{"line", position.line}, {"character", position.character}};
}

} // namespace

std::string_view lineOf(std::string_view text, uint32_t line) {
  for (; line > 1; --line) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos)
      return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

Position toPosition(std::string_view text, Place place) {
  Position position{place.line == 0 ? 0 : place.line - 1, 0};
  std::string_view line = lineOf(text, place.line);
  uint32_t column = 1;
  for (size_t at = 0; at < line.size() && column < place.column;
       at += byteCount(line[at]), ++column)
    position.character += units(line[at]);
  return position;
}

Place toPlace(std::string_view text, Position position) {
  Place place{position.line + 1, 1};
  std::string_view line = lineOf(text, place.line);
  uint32_t character = 0;
  for (size_t at = 0; at < line.size() && character < position.character;
       at += byteCount(line[at]), ++place.column)
    character += units(line[at]);
  return place;
}

std::string_view before(std::string_view text, Place place) {
  std::string_view line = lineOf(text, place.line);
  size_t at = 0;
  for (uint32_t column = 1; at < line.size() && column < place.column; ++column)
    at += byteCount(line[at]);
  return line.substr(0, at);
}

Json toJson(std::string_view text, const dsl::SourceRange &where) {
  Place end{where.line, where.column + std::max(1U, where.length)};
  return {{"start", toJson(toPosition(text, {where.line, where.column}))},
          {"end", toJson(toPosition(text, end))}};
}

Json wholeRange(std::string_view text) {
  auto lines =
      static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n'));
  Position end = toPosition(text, {lines + 1, UINT32_MAX});
  return {{"start", toJson(Position{})}, {"end", toJson(end)}};
}

std::string pathOf(std::string_view uri) {
  if (!uri.starts_with(fileScheme))
    return std::string(uri);
  uri.remove_prefix(fileScheme.size());
  std::string path;
  for (size_t at = 0; at < uri.size(); ++at) {
    int byte = 0;
    const char *digits = uri.data() + at + 1;
    if (uri[at] == '%' && at + 2 < uri.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      path += static_cast<char>(byte);
      at += 2;
    } else {
      path += uri[at];
    }
  }
  return path;
}

std::string uriOf(std::string_view path) {
  std::error_code error;
  std::string full = std::filesystem::absolute(path, error).string();
  std::string uri(fileScheme);
  for (char c : full) {
    bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                 std::string_view("/-._~").contains(c);
    uri += plain ? std::string(1, c)
                 : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

} // namespace mbc::compiler
