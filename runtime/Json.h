#pragma once

#include "runtime/Result.h"

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace mbc {

/// JSON whose objects keep the order of their keys.
using Json = nlohmann::ordered_json;

/// Appends `text` as a JSON string, quotes included. Bytes that are no ASCII
/// stay as they are.
void appendJsonString(std::string &out, std::string_view text);

/// Parses `text`; an error names `origin`, the line and the column.
Result<Json> parseJson(std::string_view text, std::string_view origin);

} // namespace mbc
