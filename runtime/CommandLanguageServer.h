#pragma once

#include <string>

namespace mbc {

/// `mbc lsp`: serves an editor on standard input and output. Returns the exit
/// status.
int languageServerCommand(const std::string &specPath);

} // namespace mbc
