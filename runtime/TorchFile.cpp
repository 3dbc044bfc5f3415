#include "runtime/TorchFile.h"

#include "runtime/PickleTensor.h"

#include <algorithm>

namespace mbc {

Result<TorchTensor> placeTensor(const TorchArchive &archive,
                                const PickleTree &tree, std::string_view name,
                                PickleValue value) {
  const std::string &path = archive.file().path();
  Result<PickledTensor> pickled = readTensor(tree, value, path, name);
  if (!pickled)
    return std::unexpected(pickled.error());
  Result<ArchiveEntry> data =
      archive.find(fmt::format("data/{}", pickled->key));
  if (!data)
    return fail("tensor {}: {}", name, data.error().message);
  uint64_t width = byteSize(pickled->dtype);
  uint64_t skip = static_cast<uint64_t>(pickled->storageOffset) * width;
  uint64_t bytes = static_cast<uint64_t>(pickled->shape.elements()) * width;
  if (skip > data->size || bytes > data->size - skip)
    return fail("{}: tensor {}: needs {} bytes, its storage has {}", path, name,
                skip + bytes, data->size);
  return TorchTensor{std::string(name), pickled->dtype, pickled->shape,
                     data->offset + skip};
}

Result<std::vector<TorchTensor>> readStateDict(const InputFile &file) {
  Result<TorchArchive> archive = TorchArchive::open(file, 0, file.size());
  if (!archive)
    return std::unexpected(archive.error());
  Result<PickleTree> tree = archive->tree();
  if (!tree)
    return std::unexpected(tree.error());
  if (tree->root().kind != PickleKind::Dict)
    return fail("{}: holds no dict of tensors", file.path());
  std::vector<TorchTensor> tensors;
  std::span<const PickleValue> items = tree->items(tree->root());
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    std::string_view name = tree->text(items[i]);
    if (name.empty() || !isTensor(*tree, items[i + 1]))
      return fail("{}: entry {} (\"{}\") is no tensor with a name", file.path(),
                  i / 2, name);
    Result<TorchTensor> tensor =
        placeTensor(*archive, *tree, name, items[i + 1]);
    if (!tensor)
      return std::unexpected(tensor.error());
    tensors.push_back(std::move(*tensor));
  }
  std::ranges::stable_sort(tensors, {}, &TorchTensor::offset);
  return tensors;
}

} // namespace mbc
