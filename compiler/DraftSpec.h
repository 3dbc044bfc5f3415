#pragma once

#include "compiler/Binding/Bind.h"
#include "dsl/Diagnostic.h"

#include <string>

namespace mbc::compiler {

/// `mbc spec new`: the text of a spec for a checkpoint that none is made for.
/// It is the shipped spec that leaves the fewest names over, under the model's
/// own name; what it cannot place, and what it looks for in vain, follows as
/// comments. A model built from blocks that are known needs no edit.
/// `options` name the checkpoint and the folder of specs.
Result<std::string> draftSpec(const Options &options,
                              dsl::Diagnostics &diagnostics);

} // namespace mbc::compiler
