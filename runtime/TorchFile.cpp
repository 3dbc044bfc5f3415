#include "runtime/TorchFile.h"

#include "runtime/PickleTensor.h"

#include <algorithm>
#include <cstring>

namespace mbc {
namespace {

/// The pickle of 0x1950a86a20f9469cfc6c.
constexpr std::string_view magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20"
                                   "\x6a\xa8\x50\x19.";
/// No pickle of a model is longer; an archive's are bounded by their entry.
constexpr uint64_t longestPickle = 1 << 30;

/// The pickle at a place of a file; how long it is, it says itself at its end.
Result<PickleTree> pickleAt(const InputFile &file, uint64_t offset) {
  const uint64_t rest = file.size() - offset;
  for (uint64_t window = 1 << 16;; window *= 16) {
    const uint64_t count = std::min(window, rest);
    Result<std::string> bytes = file.readAt(offset, count);
    if (!bytes)
      return std::unexpected(bytes.error());
    Result<PickleTree> tree = PickleTree::parse(std::move(*bytes), file.path());
    if (tree || count == rest || count >= longestPickle)
      return tree;
  }
}

/// Elements of a storage are as wide as those of its tensors.
struct Element {
  uint64_t width = 0, count = 0;
};

/// By the key of the storage, from the tensors of a dict and of the dicts in
/// it.
Result<void> elementsOf(const PickleTree &tree, PickleValue value,
                        std::string_view origin, int depth,
                        std::unordered_map<std::string_view, Element> &found) {
  if (isTensor(tree, value)) {
    Result<PickledTensor> tensor = readTensor(tree, value, origin, "");
    if (!tensor)
      return {}; // reported where it is read, if it is
    found[tensor->key] = {byteSize(tensor->dtype),
                          static_cast<uint64_t>(tensor->storageElements)};
    return {};
  }
  if (value.kind != PickleKind::Dict && value.kind != PickleKind::List)
    return {};
  if (depth == 0)
    return fail("{}: dicts are nested too deeply", origin);
  for (PickleValue item : tree.items(value))
    if (auto good = elementsOf(tree, item, origin, depth - 1, found); !good)
      return good;
  return {};
}

} // namespace

Result<TorchFile> TorchFile::open(const InputFile &file) {
  if (file.size() >= magic.size()) {
    Result<std::string> head = file.readAt(0, magic.size());
    if (!head)
      return std::unexpected(head.error());
    if (*head == magic)
      return openSequence(file);
  }
  Result<TorchArchive> archive = TorchArchive::open(file, 0, file.size());
  if (!archive)
    return std::unexpected(archive.error());
  Result<PickleTree> tree = archive->tree();
  if (!tree)
    return std::unexpected(tree.error());
  TorchFile opened(file, std::move(*tree));
  opened.archive_ = std::move(*archive);
  return opened;
}

Result<TorchFile> TorchFile::openSequence(const InputFile &file) {
  uint64_t at = magic.size();
  PickleTree pickles[4]; // protocol, system, the content, keys
  for (PickleTree &pickle : pickles) {
    Result<PickleTree> read = pickleAt(file, at);
    if (!read)
      return std::unexpected(read.error());
    at += read->length();
    pickle = std::move(*read);
  }
  const auto &[protocol, system, content, keys] = pickles;
  if (protocol.root().kind != PickleKind::Integer ||
      protocol.root().integer != 1001)
    return fail("{}: is of a protocol of torch.save that is not known; known "
                "is 1001",
                file.path());
  PickleValue little = system.field(system.root(), "little_endian");
  if (little.kind != PickleKind::Bool || little.integer != 1)
    return fail("{}: was not written on a little-endian machine", file.path());
  TorchFile opened(file, content);
  if (auto found = opened.findStorages(keys, at); !found)
    return std::unexpected(found.error());
  return opened;
}

/// Storages follow one another in the order of `keys`.
Result<void> TorchFile::findStorages(const PickleTree &keys, uint64_t at) {
  constexpr int deepest = 64;
  const std::string &path = file_->path();
  std::unordered_map<std::string_view, Element> elements;
  if (auto good = elementsOf(tree_, tree_.root(), path, deepest, elements);
      !good)
    return good;
  for (PickleValue item : keys.items(keys.root())) {
    auto element = elements.find(keys.text(item));
    if (element == elements.end())
      return fail("{}: storage \"{}\" belongs to no tensor that is stored "
                  "plainly",
                  path, keys.text(item));
    uint64_t count = 0;
    if (file_->size() - at < sizeof count)
      return fail("{}: ends before storage \"{}\"", path, element->first);
    if (auto read =
            file_->readAt(at, std::as_writable_bytes(std::span(&count, 1)));
        !read)
      return read;
    at += sizeof count;
    const auto [width, expected] = element->second;
    if (count != expected || count > (file_->size() - at) / width)
      return fail("{}: storage \"{}\" has {} elements of {} bytes, its tensors "
                  "want {} and {} bytes are left",
                  path, element->first, count, width, expected,
                  file_->size() - at);
    sequence_[element->first] = {at, count * width};
    at += count * width;
  }
  return {};
}

Result<TorchFile::Storage> TorchFile::storageOf(std::string_view key) const {
  if (archive_) {
    Result<ArchiveEntry> data = archive_->find(fmt::format("data/{}", key));
    if (!data)
      return std::unexpected(data.error());
    return Storage{data->offset, data->size};
  }
  auto found = sequence_.find(key);
  if (found == sequence_.end())
    return fail("{}: has no storage \"{}\"", file_->path(), key);
  return found->second;
}

Result<TorchTensor> TorchFile::tensor(std::string_view name,
                                      PickleValue value) const {
  const std::string &path = file_->path();
  Result<PickledTensor> pickled = readTensor(tree_, value, path, name);
  if (!pickled)
    return std::unexpected(pickled.error());
  Result<Storage> data = storageOf(pickled->key);
  if (!data)
    return fail("tensor {}: {}", name, data.error().message);
  uint64_t width = byteSize(pickled->dtype);
  uint64_t skip = static_cast<uint64_t>(pickled->storageOffset) * width;
  uint64_t bytes = static_cast<uint64_t>(pickled->shape.elements()) * width;
  if (skip > data->size || bytes > data->size - skip)
    return fail("{}: tensor {}: needs {} bytes, its storage has {}", path, name,
                skip + bytes, data->size);
  return TorchTensor{std::string(name), pickled->dtype, pickled->shape,
                     pickled->order, data->offset + skip};
}

Result<std::vector<TorchTensor>> readStateDict(const InputFile &file) {
  Result<TorchFile> torch = TorchFile::open(file);
  if (!torch)
    return std::unexpected(torch.error());
  const PickleTree &tree = torch->tree();
  if (tree.root().kind != PickleKind::Dict)
    return fail("{}: holds no dict of tensors", file.path());
  std::vector<TorchTensor> tensors;
  std::span<const PickleValue> items = tree.items(tree.root());
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    std::string_view name = tree.text(items[i]);
    if (items[i + 1].kind == PickleKind::Dict)
      return fail("{}: entry {} (\"{}\") is a dict: this is a file of a "
                  "training run; save the dict of the weights alone",
                  file.path(), i / 2, name);
    if (name.empty() || !isTensor(tree, items[i + 1]))
      return fail("{}: entry {} (\"{}\") is no tensor with a name", file.path(),
                  i / 2, name);
    Result<TorchTensor> tensor = torch->tensor(name, items[i + 1]);
    if (!tensor)
      return std::unexpected(tensor.error());
    tensors.push_back(std::move(*tensor));
  }
  std::ranges::stable_sort(tensors, {}, &TorchTensor::offset);
  return tensors;
}

} // namespace mbc
