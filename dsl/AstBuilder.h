#pragma once

#include "dsl/Ast.h"
#include "dsl/Diagnostic.h"

#include <memory>
#include <string>
#include <vector>

namespace mbc::dsl {

/// A `use` of a file that is read next.
struct UseRequest {
  std::string path; ///< as written
  SourceRange where;
};

/// Parses one file and adds what it declares to `spec`. Syntax errors go to
/// `diagnostics`, all of them; the tree is added only if there is none.
void addFile(Spec &spec, std::shared_ptr<const SourceFile> file,
             std::vector<UseRequest> &uses, Diagnostics &diagnostics);

} // namespace mbc::dsl
