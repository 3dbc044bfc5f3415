#pragma once

#include <string>
#include <vector>

namespace mbc::test {

struct Outcome {
  int status = -1; ///< exit status; 128 + signal if it was killed by one
  std::string out, err;
};

/// Runs a program to its end, with standard input empty. `argv[0]` is its path.
/// May be called from any number of threads.
Outcome run(const std::vector<std::string> &argv);

/// Runs `mbc` with these arguments.
Outcome mbc(std::vector<std::string> arguments);

/// The command line, for messages of failed expectations.
std::string spell(const std::vector<std::string> &arguments);

} // namespace mbc::test
