#include "runtime/TorchDistReader.h"

#include "runtime/File.h"
#include "runtime/MegatronFolder.h"
#include "runtime/PickleTensor.h"
#include "runtime/TorchArchive.h"
#include "runtime/TorchDistUnstack.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

namespace mbc {
namespace {

using Chunk = TorchDistIndex::Chunk;

/// The tensor of the pickle that a thread met last: archives of chunks of one
/// shape hold the same pickle, and there may be a hundred thousand.
struct LastPickle {
  std::string bytes;
  std::optional<PickleTree> tree; ///< `tensor` points into it
  PickledTensor tensor;
};
using LastPickles = tbb::enumerable_thread_specific<LastPickle>;

Result<void> readPickle(std::string bytes, const std::string &where,
                        const std::string &key, LastPickle &last) {
  if (last.tree && last.bytes == bytes)
    return {};
  last.tree.reset();
  last.bytes = bytes;
  Result<PickleTree> tree = PickleTree::parse(std::move(bytes), where);
  if (!tree)
    return std::unexpected(tree.error());
  last.tree.emplace(std::move(*tree));
  Result<PickledTensor> tensor =
      readTensor(*last.tree, last.tree->root(), where, key);
  if (!tensor) {
    last.tree.reset();
    return std::unexpected(tensor.error());
  }
  last.tensor = *tensor;
  return {};
}

/// Replaces a chunk's place, its archive, by where the data begins, after
/// comparing the archive's tensor with what the index says.
Result<void> findData(const InputFile &file,
                      const TorchDistIndex::Tensor &tensor, Chunk &chunk,
                      LastPickle &last) {
  Result<TorchArchive> archive =
      TorchArchive::open(file, chunk.offset, chunk.length);
  if (!archive)
    return fail("tensor {}: {}", tensor.key, archive.error().message);
  std::string where =
      fmt::format("{}, archive at byte {}", file.path(), chunk.offset);
  Result<std::string> pickle = archive->pickle();
  if (!pickle)
    return std::unexpected(pickle.error());
  if (Result<void> read =
          readPickle(std::move(*pickle), where, tensor.key, last);
      !read)
    return read;
  const PickledTensor &stored = last.tensor;
  if (!(stored.shape == chunk.shape) || stored.dtype != tensor.dtype)
    return fail("{}: tensor {}: holds {} {}, the index says {} {}", where,
                tensor.key, safetensorsName(stored.dtype),
                toString(stored.shape), safetensorsName(tensor.dtype),
                toString(chunk.shape));
  Result<ArchiveEntry> data = archive->find(fmt::format("data/{}", stored.key));
  if (!data)
    return std::unexpected(data.error());
  uint64_t width = byteSize(tensor.dtype);
  uint64_t skip = static_cast<uint64_t>(stored.storageOffset) * width;
  uint64_t bytes = static_cast<uint64_t>(chunk.shape.elements()) * width;
  if (skip > data->size || bytes > data->size - skip)
    return fail("{}: tensor {}: needs {} bytes, its storage has {}", where,
                tensor.key, skip + bytes, data->size);
  chunk.offset = data->offset + skip;
  return {};
}

/// Opens each file once and looks into its archives, all side by side. The
/// failure returned is that of the first file.
Result<void> findAllData(const std::string &root, TorchDistIndex &index) {
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> byFile(
      index.files.size());
  for (uint32_t t = 0; t != index.tensors.size(); ++t)
    for (uint32_t c = 0; c != index.tensors[t].chunks.size(); ++c)
      byFile[index.tensors[t].chunks[c].file].push_back({t, c});
  std::vector<Result<void>> results(index.files.size());
  LastPickles last;
  tbb::parallel_for(size_t{0}, index.files.size(), [&](size_t f) {
    Result<InputFile> file =
        InputFile::open(joinPath(root, index.files[f].path));
    if (!file) {
      results[f] = std::unexpected(file.error());
      return;
    }
    index.files[f].size = file->size();
    std::vector<Result<void>> found(byFile[f].size());
    tbb::parallel_for(size_t{0}, found.size(), [&](size_t i) {
      auto [t, c] = byFile[f][i];
      TorchDistIndex::Tensor &tensor = index.tensors[t];
      found[i] = findData(*file, tensor, tensor.chunks[c], last.local());
    });
    auto failed = std::find_if(found.begin(), found.end(),
                               [](const auto &result) { return !result; });
    if (failed != found.end())
      results[f] = std::move(*failed);
  });
  for (Result<void> &result : results)
    if (!result)
      return std::move(result);
  for (const StoredObject &object : index.objects)
    if (object.offset > index.files[object.file].size ||
        object.length > index.files[object.file].size - object.offset)
      return fail("{}: object {}: {} bytes at {} leave the file of {}",
                  joinPath(root, index.files[object.file].path), object.key,
                  object.length, object.offset, index.files[object.file].size);
  return {};
}

void sortByPlace(std::vector<StoredTensor> &tensors) {
  auto place = [](const StoredTensor &tensor) {
    if (tensor.pieces.empty())
      return std::pair<uint32_t, uint64_t>(UINT32_MAX, 0);
    return std::pair(tensor.pieces[0].file, tensor.pieces[0].offset);
  };
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const StoredTensor &a, const StoredTensor &b) {
                     return place(a) < place(b);
                   });
}

/// The tensors under the file's own keys.
std::vector<StoredTensor> keysOf(const TorchDistIndex &index,
                                 HeaderStore &store) {
  std::vector<StoredTensor> keys;
  keys.reserve(index.tensors.size());
  for (const TorchDistIndex::Tensor &tensor : index.tensors) {
    StoredTensor &key = keys.emplace_back();
    key.name = store.keep(tensor.key);
    key.dtype = tensor.dtype;
    key.shape = store.keep(tensor.shape);
    std::vector<StoredPiece> pieces;
    for (const Chunk &chunk : tensor.chunks)
      pieces.push_back({chunk.file, chunk.offset, store.keep(chunk.start),
                        store.keep(chunk.shape)});
    key.pieces = store.keep(std::span<const StoredPiece>(pieces));
  }
  return keys;
}

Result<Json> readCommonArchive(const InputFile &file, uint64_t offset,
                               uint64_t length, bool inList) {
  Result<TorchArchive> archive = TorchArchive::open(file, offset, length);
  if (!archive)
    return std::unexpected(archive.error());
  Result<PickleTree> tree = archive->tree();
  if (!tree)
    return std::unexpected(tree.error());
  PickleValue dict = tree->root();
  if (inList && !tree->items(dict).empty())
    dict = tree->items(dict)[0];
  return commonState(*tree, dict);
}

/// common.pt wins over the object of the index, as in Megatron-Core.
Result<void> readCommon(Checkpoint &checkpoint) {
  std::optional<Json> common;
  std::string path = joinPath(checkpoint.root, "common.pt");
  if (std::filesystem::exists(path)) {
    Result<InputFile> file = InputFile::open(path);
    if (!file)
      return std::unexpected(file.error());
    Result<Json> read = readCommonArchive(*file, 0, file->size(), false);
    if (!read)
      return std::unexpected(read.error());
    common = std::move(*read);
  }
  auto object = std::find_if(
      checkpoint.objects.begin(), checkpoint.objects.end(),
      [](const auto &o) { return o.key == "common_state/shard_0_1"; });
  if (object != checkpoint.objects.end()) {
    Result<InputFile> file = InputFile::open(
        joinPath(checkpoint.root, checkpoint.files[object->file].path));
    if (!file)
      return std::unexpected(file.error());
    Result<Json> read =
        readCommonArchive(*file, object->offset, object->length, true);
    if (!read)
      return std::unexpected(read.error());
    if (common && *common != *read)
      checkpoint.notes.push_back(
          "common.pt and the object common_state differ; "
          "common.pt was used, as Megatron-Core does.");
    if (!common)
      common = std::move(*read);
  }
  if (common)
    checkpoint.argsJson = common->dump();
  if (!common || !common->contains("args"))
    checkpoint.notes.push_back("The checkpoint has no saved arguments (args).");
  return {};
}

} // namespace

Result<Checkpoint> openTorchDist(const std::string &directory) {
  Checkpoint checkpoint;
  checkpoint.format = Format::TorchDist;
  checkpoint.root = directory;
  std::string path = joinPath(directory, ".metadata");
  Result<std::string> bytes = readWholeFile(path, uint64_t{4} << 30);
  if (!bytes)
    return std::unexpected(bytes.error());
  Result<TorchDistIndex> index = [&]() -> Result<TorchDistIndex> {
    Result<PickleTree> tree = PickleTree::parse(std::move(*bytes), path);
    if (!tree)
      return std::unexpected(tree.error());
    return readTorchDistIndex(*tree, path);
  }();
  if (!index)
    return std::unexpected(index.error());
  if (index->skipped != 0)
    checkpoint.notes.push_back(
        fmt::format("{} entries of optimizer and random state were skipped.",
                    index->skipped));
  if (auto found = findAllData(directory, *index); !found)
    return std::unexpected(found.error());
  auto store = std::make_shared<HeaderStore>();
  Result<std::vector<StoredTensor>> tensors =
      unstack(*index, path, *store, checkpoint.holes);
  if (!tensors)
    return std::unexpected(tensors.error());
  checkpoint.tensors = std::move(*tensors);
  sortByPlace(checkpoint.tensors);
  checkpoint.indexNames();
  checkpoint.keys = keysOf(*index, *store);
  checkpoint.stores.push_back(std::move(store));
  checkpoint.objects = std::move(index->objects);
  checkpoint.files = std::move(index->files);
  if (auto good = readCommon(checkpoint); !good)
    return std::unexpected(good.error());
  if (auto good = readRecord(checkpoint); !good)
    return std::unexpected(good.error());
  return checkpoint;
}

} // namespace mbc
