#pragma once

namespace mbc {

/// The command `mbc`. Results go to standard output, diagnostics to standard
/// error. Returns the exit status: 0 done, 1 the work failed or a check found
/// something, 2 wrong usage.
int runCommand(int argc, char **argv);

} // namespace mbc
