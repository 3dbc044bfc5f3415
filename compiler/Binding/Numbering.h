#pragma once

#include "dsl/Model.h"

namespace mbc::compiler {

/// Checks the numbers in names. Layers and experts are those that the model
/// declares, each layer is there, and the numbers of both sides rise together:
/// shapes cannot tell one layer or expert from another, so a rule that turns
/// their order around would fit everywhere.
void checkNumbering(const dsl::Model &model, dsl::Diagnostics &diagnostics);

} // namespace mbc::compiler
