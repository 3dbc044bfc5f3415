#include "compiler/Codegen/CompileKernels.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

namespace mbc::compiler {
namespace {

std::string findLinker() {
  for (const char *name : {"ld.lld", "ld.lld-19"}) {
    auto onPath = llvm::sys::findProgramByName(name);
    if (onPath)
      return *onPath;
    auto besideLlvm = llvm::sys::findProgramByName(name, {MBC_LLVM_TOOLS});
    if (besideLlvm)
      return *besideLlvm;
  }
  return {};
}

/// A file name of our own; the file goes when the value does.
class TemporaryFile {
public:
  explicit TemporaryFile(const char *suffix)
      : failed(static_cast<bool>(
            llvm::sys::fs::createTemporaryFile("mbc", suffix, path))) {}
  ~TemporaryFile() {
    if (!failed)
      llvm::sys::fs::remove(path);
  }
  TemporaryFile(const TemporaryFile &) = delete;

  llvm::SmallString<128> path;
  bool failed;
};

} // namespace

Result<std::string> linkShared(const std::string &object) {
  std::string linker = findLinker();
  if (linker.empty())
    return fail("the linker ld.lld was not found on PATH nor in {}; install "
                "lld-19",
                MBC_LLVM_TOOLS);
  TemporaryFile input("o"), output("so"), messages("txt");
  if (input.failed || output.failed || messages.failed)
    return fail("cannot create temporary files for the linker; set TMPDIR to a "
                "writable directory");
  std::error_code error;
  llvm::raw_fd_ostream out(input.path, error);
  out << object;
  out.close();
  if (error || out.has_error())
    return fail("cannot write {}: {}", input.path.c_str(),
                (error ? error : out.error()).message());
  llvm::StringRef arguments[] = {
      linker, "-shared",   "--no-undefined", "-s", "--build-id=none",
      "-o",   output.path, input.path};
  std::optional<llvm::StringRef> redirects[] = {std::nullopt,
                                                llvm::StringRef(messages.path),
                                                llvm::StringRef(messages.path)};
  int status =
      llvm::sys::ExecuteAndWait(linker, arguments, std::nullopt, redirects);
  auto text = llvm::MemoryBuffer::getFile(messages.path);
  if (status != 0)
    return fail("{} failed with status {}: {}", linker, status,
                text ? (*text)->getBuffer().str() : std::string());
  auto linked = llvm::MemoryBuffer::getFile(output.path);
  if (!linked)
    return fail("cannot read {}: {}", output.path.c_str(),
                linked.getError().message());
  return (*linked)->getBuffer().str();
}

} // namespace mbc::compiler
