#pragma once

#include "runtime/CompilerInterface.h"
#include "runtime/Result.h"

#include <cstdio>
#include <vector>

namespace mbc {

/// Loads libmbc-compiler.so at its first use and keeps it for the life of the
/// process. Where it is absent, the error says what brings it. Not
/// thread-safe.
Result<const mbc_compiler *> compilerLibrary();

/// Sinks for what it gives: a stream, or the end of `bytes`.
mbc_sink streamSink(FILE *stream);
mbc_sink bytesSink(std::vector<uint8_t> &bytes);

} // namespace mbc
