#pragma once

#include "dsl/Model.h"
#include "runtime/Checkpoint.h"

namespace mbc::compiler {

/// What an evaluation asks of a checkpoint, which has to outlive the oracle.
dsl::NameOracle oracleOf(const Checkpoint &checkpoint);

} // namespace mbc::compiler
