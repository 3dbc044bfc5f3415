#include "compiler/Target/SourceHeaders.h"

#include "runtime/File.h"
#include "runtime/TorchArchive.h"

#include <algorithm>
#include <tbb/parallel_for.h>

namespace mbc::compiler {

static Result<void> readHeader(const std::string &root, SourceFile &source) {
  Result<InputFile> file = InputFile::open(joinPath(root, source.path));
  if (!file)
    return std::unexpected(file.error());
  source.size = file->size();
  source.header = std::min(source.header, source.size);
  Result<std::string> bytes = file->readAt(0, source.header);
  if (!bytes)
    return std::unexpected(bytes.error());
  source.crc = crc32(0, std::as_bytes(std::span(*bytes)));
  return {};
}

Result<std::vector<SourceFile>>
readSourceFiles(const Checkpoint &checkpoint,
                const std::vector<std::string> &inputs) {
  std::vector<SourceFile> files;
  for (const StoredFile &file : checkpoint.files)
    files.push_back({.path = file.path});
  for (const StoredTensor &tensor : checkpoint.tensors)
    for (const StoredPiece &piece : tensor.pieces) {
      uint64_t &header = files[piece.file].header;
      header = std::min(header, piece.offset);
    }
  for (const std::string &path : inputs)
    files.push_back({.path = path});
  std::vector<Result<void>> read(files.size());
  tbb::parallel_for(size_t{0}, read.size(), [&](size_t i) {
    read[i] = readHeader(checkpoint.root, files[i]);
  });
  for (Result<void> &result : read)
    if (!result)
      return std::unexpected(result.error());
  return files;
}

} // namespace mbc::compiler
