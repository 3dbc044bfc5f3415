#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace mbc {

/// " (did you mean '--tp'?)" for a word that `command` does not know, or
/// nothing if no option or subcommand is near.
std::string suggestion(const CLI::App &command, const std::string &word);

} // namespace mbc
