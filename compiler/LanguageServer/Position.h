#pragma once

#include "dsl/Diagnostic.h"
#include "runtime/Json.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mbc::compiler {

/// A place as the protocol counts: from 0, columns in UTF-16 units.
struct Position {
  uint32_t line = 0, character = 0;
};

/// A place as the language counts: from 1, columns in characters.
struct Place {
  uint32_t line = 1, column = 1;
};

/// The text of a line, counted from 1, without its line break.
std::string_view lineOf(std::string_view text, uint32_t line);

/// Places outside of the text become its nearest.
Position toPosition(std::string_view text, Place place);
Place toPlace(std::string_view text, Position position);

/// The bytes of a line in front of a place.
std::string_view before(std::string_view text, Place place);

/// A range of the protocol.
Json toJson(std::string_view text, const dsl::SourceRange &where);
Json wholeRange(std::string_view text);

/// Between file names and file:// addresses. An address of another kind stays
/// as it is, as the name of a text that is in no file.
std::string pathOf(std::string_view uri);
std::string uriOf(std::string_view path);

} // namespace mbc::compiler
