#pragma once

#include "dsl/Ast.h"
#include "dsl/Diagnostic.h"
#include "dsl/Model.h"
#include "runtime/DType.h"
#include "runtime/Json.h"

#include <string>
#include <string_view>
#include <vector>

namespace mbc::compiler {

/// A Megatron checkpoint without a config.json, or with some of its fields.
struct ConfigSource {
  std::string_view checkpoint; ///< its folder, for messages
  std::string_view known;      ///< the fields that are given, as JSON; or ""
  const Json &args;
  DType dtype; ///< of the tensors
};

/// The text of a config.json that gives the arguments by the spec's `config`.
/// It is held against them: what differs, or is missing, is an error with the
/// way to say it. Empty if there is an error.
std::string configFromArgs(const dsl::Spec &spec, const ConfigSource &source,
                           const dsl::NameOracle &oracle,
                           std::vector<std::string> &notes,
                           dsl::Diagnostics &diagnostics);

} // namespace mbc::compiler
