#pragma once

#include "compiler/Binding/Bind.h"

namespace mbc::compiler {

/// Checks that every shard of an import divides as Megatron demands. What does
/// not is reported once for each number, with the sizes at which the whole
/// model would divide.
void checkDivisions(const dsl::Model &model, const Binding &binding,
                    const ParallelLayout &layout,
                    dsl::Diagnostics &diagnostics);

} // namespace mbc::compiler
