#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mbc::test {

struct Outcome {
  int status = -1; ///< exit status; 128 + signal if it was killed by one
  std::string out, err;
};

/// The command under test: `bin/mbc` of the build folder, or of the folder that
/// the environment's MBC_BUILD names (another build, with sanitizers for one).
std::string mbcBinary();

/// Runs a program to its end, with standard input empty. `argv[0]` is its path.
/// May be called from any number of threads.
Outcome run(const std::vector<std::string> &argv);

/// Runs `mbc` with these arguments.
Outcome mbc(std::vector<std::string> arguments);

/// The same where no file may grow over `units` of `fileLimitUnit` bytes.
Outcome mbcWithFileLimit(uint64_t units,
                         const std::vector<std::string> &arguments);
inline constexpr uint64_t fileLimitUnit = 512; ///< of the shell's `ulimit -f`

/// The same with no more memory of its own than this.
Outcome mbcWithMemoryLimit(uint64_t kibibytes,
                           const std::vector<std::string> &arguments);

/// The command line, for messages of failed expectations.
std::string spell(const std::vector<std::string> &arguments);

} // namespace mbc::test
