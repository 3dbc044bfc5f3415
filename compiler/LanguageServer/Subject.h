#pragma once

#include "dsl/Model.h"
#include "runtime/Checkpoint.h"
#include "runtime/Result.h"

#include <optional>
#include <string>

namespace mbc::compiler {

/// What a spec is looked at with: a config.json, and the headers of a
/// checkpoint if one was named.
struct Subject {
  std::string config; ///< the text of config.json
  std::optional<Checkpoint> checkpoint;

  /// Points into this object.
  dsl::NameOracle oracle() const;
  dsl::Side known() const;
};

/// `path` is a checkpoint's directory, or a config.json.
Result<Subject> openSubject(const std::string &path);

} // namespace mbc::compiler
