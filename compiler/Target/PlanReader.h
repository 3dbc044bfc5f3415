#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Options.h"
#include "runtime/Checkpoint.h"

#include <string>

namespace mbc::compiler {

/// A plan taken apart again into what it was compiled from.
struct PlanSource {
  Options options;
  Checkpoint checkpoint; ///< the tensors that the plan reads
  std::string specText, configJson;
  Record record; ///< of an export: the HF tensors that it makes
};

/// Options and the source's args as the text of Plan.options_json.
std::string writeOptions(const Options &options, const Checkpoint &checkpoint);

/// Reads the plan file at `path`. Damaged plans are errors.
Result<PlanSource> readPlanSource(const std::string &path);

} // namespace mbc::compiler
