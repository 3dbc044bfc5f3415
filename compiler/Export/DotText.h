#pragma once

#include "compiler/Map/MapOps.h"

#include <string>

namespace mbc::compiler {

/// A picture of the module for Graphviz: a cluster for each rule, in it the
/// stored tensors, the operations between them, and what is written.
std::string dotText(mlir::ModuleOp module);

} // namespace mbc::compiler
