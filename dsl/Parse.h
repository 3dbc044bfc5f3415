#pragma once

#include "dsl/Ast.h"
#include "dsl/Diagnostic.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mbc::dsl {

/// A parsed spec that passed all checks which need no config.json, or null if
/// `diagnostics` got an error. All errors of all files are reported.
using ParseResult = std::unique_ptr<const Spec>;

/// Reads `path` and what it `use`s. A used file is looked for beside the file
/// that uses it, then in each of `searchDirs`. Never throws; safe to call from
/// several threads.
ParseResult parseFile(const std::string &path,
                      const std::vector<std::string> &searchDirs,
                      Diagnostics &diagnostics);

/// The same for a text. `path` is its name in messages. A text made by
/// `bundle` brings the files that it uses; nothing else is read then.
ParseResult parseText(std::string_view text, const std::string &path,
                      const std::vector<std::string> &searchDirs,
                      Diagnostics &diagnostics);

/// What can be read of a spec, for tools: files with syntax errors are left
/// out, nothing is checked. Never null.
std::unique_ptr<const Spec> readSpec(std::string_view text,
                                     const std::string &path,
                                     const std::vector<std::string> &searchDirs,
                                     Diagnostics &diagnostics);

/// What a spec says about itself before any evaluation.
struct SpecHeader {
  std::string name;
  std::vector<std::string> architectures;
  std::string modelType;               ///< the first of `modelTypes`, or ""
  std::vector<std::string> modelTypes; ///< of config.json
  std::string megatron;
};
SpecHeader header(const Spec &spec);

/// All files of a spec as one text, for plans; `parseText` reads it back. The
/// files' names in it are relative: the text is the same wherever the specs
/// are installed.
std::string bundle(const Spec &spec);

/// Checks that need no config.json: unknown names and operations, arity,
/// recursion, attributes. Called by the parse functions.
void checkSpec(const Spec &spec, Diagnostics &diagnostics);

} // namespace mbc::dsl
