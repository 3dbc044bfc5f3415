#pragma once

#include "runtime/CompilerInterface.h"
#include "runtime/Result.h"

namespace mbc {

/// Loads libmbc-compiler.so at its first use and keeps it for the life of the
/// process. Where it is absent, the error says what brings it. Not
/// thread-safe.
Result<const mbc_compiler *> compilerLibrary();

} // namespace mbc
