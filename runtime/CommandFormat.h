#pragma once

#include <string>
#include <vector>

namespace mbc {

/// `mbc fmt`: formats specs in place; "-" is standard input, formatted to
/// standard output. With `check` nothing is written: the names of those that
/// would change go to standard output. Returns the exit status.
int formatCommand(const std::vector<std::string> &files, bool check);

} // namespace mbc
