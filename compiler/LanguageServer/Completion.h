#pragma once

#include "compiler/LanguageServer/Document.h"
#include "compiler/LanguageServer/Position.h"
#include "compiler/LanguageServer/Subject.h"
#include "runtime/Json.h"

namespace mbc::compiler {

/// A CompletionList: behind `hf.` fields of config.json; else names in scope,
/// operations, functions and, in a rule, the checkpoint's names. `subject` may
/// be null.
Json completion(const Document &document, Place place, const Subject *subject);

} // namespace mbc::compiler
