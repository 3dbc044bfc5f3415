#pragma once

#include "runtime/CompilerInterface.h"

#include <string>

namespace mbc::compiler {

/// `mbc lsp`: serves an editor until it says `exit` or its end of the pipe is
/// closed. Gives the exit status: 0 if it had asked to shut down before.
/// `specDirectory` is searched for used files.
int serveLanguage(const std::string &specDirectory, mbc_source in,
                  mbc_sink out);

} // namespace mbc::compiler
