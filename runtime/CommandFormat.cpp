#include "runtime/CommandFormat.h"
#include "runtime/CommandConvert.h"
#include "runtime/CompilerLibrary.h"
#include "runtime/NewFile.h"

#include <filesystem>
#include <iostream>
#include <iterator>

namespace mbc {
namespace {

/// Far more than a spec needs; larger files are something else.
constexpr uint64_t maxSpecBytes = 16 << 20;

Result<std::string> readSpec(const std::string &file) {
  if (file != "-")
    return readWholeFile(file, maxSpecBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

/// A link stays a link.
Result<void> writeSpec(const std::string &file, std::string_view text) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(file, error);
  if (error)
    return fail("{}: {}", file, error.message());
  NewFile replaced(path.string());
  replaced.append(text);
  return replaced.publish();
}

int formatFile(const mbc_compiler &compiler, const std::string &file,
               bool check) {
  bool isInput = file == "-";
  std::string name = isInput ? "standard input" : file;
  Result<std::string> spec = readSpec(file);
  if (!spec)
    return report(spec.error());
  std::vector<uint8_t> bytes;
  int status = compiler.format(name.c_str(), {spec->data(), spec->size()},
                               bytesSink(bytes), streamSink(stderr));
  if (status != 0)
    return status;
  std::string text(bytes.begin(), bytes.end());
  if (check) {
    if (text == *spec)
      return 0;
    fmt::print("{}\n", name);
    return 1;
  }
  if (isInput) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0)
      return report({"standard output: the spec could not be written"});
    return 0;
  }
  if (text == *spec)
    return 0;
  Result<void> written = writeSpec(file, text);
  return written ? 0 : report(written.error());
}

} // namespace

int formatCommand(const std::vector<std::string> &files, bool check) {
  Result<const mbc_compiler *> compiler = compilerLibrary();
  if (!compiler)
    return report(compiler.error());
  int status = 0;
  for (const std::string &file : files)
    if (int result = formatFile(**compiler, file, check); result != 0)
      status = result;
  return status;
}

} // namespace mbc
