#pragma once

#include <string>
#include <string_view>

/// Edits of config.json that keep every other byte, so that numbers, blanks
/// and the order of fields come back as they were written. A path is a field's
/// name, or one inside an object: `text_config.dtype`. A text that is no JSON
/// object, or has no such field, comes back as it is.
namespace mbc::compiler {

/// The text without a field, its comma, and the blanks before it.
std::string withoutField(std::string_view text, std::string_view path);

/// The text with the string `value` in the place of the field's value.
std::string withString(std::string_view text, std::string_view path,
                       std::string_view value);

/// The text with one more field after the others of the whole object; `value`
/// is JSON.
std::string withField(std::string_view text, std::string_view name,
                      std::string_view value);

} // namespace mbc::compiler
