#include "runtime/Json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace mbc {

void appendJsonString(std::string &out, std::string_view text) {
  auto isSpecial = [](char c) {
    return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
  };
  out += '"';
  for (auto at = text.begin();; ++at) {
    auto plain = std::exchange(at, std::find_if(at, text.end(), isSpecial));
    out.append(plain, at);
    if (at == text.end())
      break;
    if (static_cast<unsigned char>(*at) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(*at));
    else
      (out += '\\') += *at;
  }
  out += '"';
}

Result<Json> parseJson(std::string_view text, std::string_view origin) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error &error) {
    std::string_view before =
        text.substr(0, std::min(text.size(), error.byte ? error.byte - 1 : 0));
    size_t lineStart = before.rfind('\n') + 1; // 0 if there is no line break
    return fail("{}:{}:{}: is not valid JSON: {}", origin,
                1 + std::count(before.begin(), before.end(), '\n'),
                before.size() - lineStart + 1, error.what());
  } catch (const std::exception &error) {
    return fail("{}: is not valid JSON: {}", origin, error.what());
  }
}

} // namespace mbc
