#include "runtime/CommandLanguageServer.h"
#include "runtime/CommandConvert.h"
#include "runtime/CompilerLibrary.h"

#include <cerrno>
#include <csignal>
#include <unistd.h>

namespace mbc {
namespace {

/// Not by a FILE, which would wait until its buffer is full.
size_t readInput(void *, char *bytes, size_t count) {
  ssize_t got = 0;
  do
    got = ::read(STDIN_FILENO, bytes, count);
  while (got < 0 && errno == EINTR);
  return got < 0 ? 0 : static_cast<size_t>(got);
}

void writeOutput(void *, const char *bytes, size_t count) {
  std::fwrite(bytes, 1, count, stdout);
  std::fflush(stdout);
}

} // namespace

int languageServerCommand(const std::string &specPath) {
  Result<const mbc_compiler *> compiler = compilerLibrary();
  if (!compiler)
    return report(compiler.error());
  // An editor that is gone ends the input as well.
  std::signal(SIGPIPE, SIG_IGN);
  return (*compiler)->serve(specPath.empty() ? nullptr : specPath.c_str(),
                            {readInput, nullptr}, {writeOutput, nullptr},
                            streamSink(stderr));
}

} // namespace mbc
