#pragma once

#include "compiler/LanguageServer/Document.h"
#include "compiler/LanguageServer/Position.h"
#include "compiler/LanguageServer/Subject.h"

#include <optional>
#include <string>

namespace mbc::compiler {

/// What stands at a place, as Markdown: a declaration and the value of a let;
/// at the first word of a rule the tensors that it joins. `subject` may be
/// null: values and tensors are then unknown.
std::optional<std::string> hover(const Document &document, Place place,
                                 const Subject *subject);

} // namespace mbc::compiler
