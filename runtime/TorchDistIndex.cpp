#include "runtime/TorchDistIndex.h"

#include "runtime/PickleTensor.h"

#include <algorithm>
#include <unordered_map>

namespace mbc {
namespace {

bool isTrainingState(std::string_view key) {
  for (std::string_view prefix : {"optimizer", "chained_", "rng_state",
                                  "opt_param_scheduler", "rerun_state_machine"})
    if (key.starts_with(prefix))
      return true;
  return false;
}

bool before(const Shape &a, const Shape &b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

class IndexReader {
public:
  IndexReader(const PickleTree &tree, const std::string &path)
      : tree_(tree), path_(path) {}

  Result<TorchDistIndex> read();

private:
  Result<void> readTensor(std::string_view key, PickleValue value);
  Result<DType> readDType(std::string_view key, PickleValue value);
  Result<void> readPlace(PickleValue index, PickleValue info);
  Result<uint32_t> fileNumber(std::string_view path);
  Result<void> findGaps() const;

  const PickleTree &tree_;
  const std::string &path_;
  TorchDistIndex index_;
  std::unordered_map<std::string_view, uint32_t> tensors_, objects_;
  std::unordered_map<std::string, uint32_t> files_;
};

Result<DType> IndexReader::readDType(std::string_view key, PickleValue value) {
  // Five values, of which the first is the dtype.
  PickleValue properties = tree_.state(value);
  std::span<const PickleValue> items = tree_.items(properties);
  PickleTree::Name name;
  if (properties.kind == PickleKind::Tuple && !items.empty())
    name = tree_.global(items[0]);
  else
    name = tree_.global(tree_.field(value, "dtype"));
  if (std::optional<DType> dtype = dtypeFromTorch(name.name))
    return *dtype;
  return fail("{}: tensor {}: unknown dtype {}.{}; known are {}", path_, key,
              name.module, name.name, knownDTypes());
}

Result<void> IndexReader::readTensor(std::string_view key, PickleValue value) {
  TorchDistIndex::Tensor tensor;
  tensor.key = key;
  Result<DType> dtype = readDType(key, tree_.field(value, "properties"));
  if (!dtype)
    return std::unexpected(dtype.error());
  tensor.dtype = *dtype;
  Result<Shape> shape =
      readShape(tree_, tree_.field(value, "size"), path_, key);
  if (!shape)
    return std::unexpected(shape.error());
  tensor.shape = *shape;
  std::span<const PickleValue> chunks =
      tree_.items(tree_.field(value, "chunks"));
  tensor.chunks.reserve(chunks.size());
  for (PickleValue chunk : chunks) {
    Result<Shape> start =
        readShape(tree_, tree_.field(chunk, "offsets"), path_, key);
    Result<Shape> extent =
        start ? readShape(tree_, tree_.field(chunk, "sizes"), path_, key)
              : start;
    if (!extent)
      return std::unexpected(extent.error());
    if (start->rank() != shape->rank() || extent->rank() != shape->rank())
      return fail("{}: tensor {}: a chunk has {} dimensions, the tensor {}",
                  path_, key, extent->rank(), shape->rank());
    for (size_t dim = 0; dim != shape->rank(); ++dim)
      if ((*start)[dim] > (*shape)[dim] ||
          (*extent)[dim] > (*shape)[dim] - (*start)[dim])
        return fail("{}: tensor {}: the chunk at {} of {} leaves the shape {}",
                    path_, key, toString(*start), toString(*extent),
                    toString(*shape));
    tensor.chunks.push_back({*start, *extent, 0, 0, 0});
  }
  std::sort(
      tensor.chunks.begin(), tensor.chunks.end(),
      [](const auto &a, const auto &b) { return before(a.start, b.start); });
  for (size_t i = 1; i < tensor.chunks.size(); ++i)
    if (tensor.chunks[i - 1].start == tensor.chunks[i].start)
      return fail("{}: tensor {}: two chunks start at {}", path_, key,
                  toString(tensor.chunks[i].start));
  index_.tensors.push_back(std::move(tensor));
  return {};
}

Result<uint32_t> IndexReader::fileNumber(std::string_view path) {
  auto [known, inserted] = files_.try_emplace(
      std::string(path), static_cast<uint32_t>(index_.files.size()));
  if (inserted) {
    bool leaves = path.empty() || path.front() == '/' || path == ".." ||
                  path.starts_with("../") || path.find("/../") != path.npos ||
                  path.ends_with("/..");
    if (leaves)
      return fail("{}: names the file \"{}\", which is not inside the "
                  "checkpoint",
                  path_, path);
    index_.files.push_back({std::string(path), 0});
  }
  return known->second;
}

Result<void> IndexReader::readPlace(PickleValue index, PickleValue info) {
  std::string_view key = tree_.text(tree_.field(index, "fqn"));
  if (isTrainingState(key))
    return {};
  PickleValue offset = tree_.field(info, "offset");
  PickleValue length = tree_.field(info, "length");
  if (offset.kind != PickleKind::Integer || offset.integer < 0 ||
      length.kind != PickleKind::Integer || length.integer <= 0)
    return fail("{}: {}: has no offset and length", path_, key);
  if (!tree_.items(tree_.field(info, "transform_descriptors")).empty())
    return fail("{}: {}: is stored compressed (transform_descriptors); save it "
                "without",
                path_, key);
  Result<uint32_t> file =
      fileNumber(tree_.text(tree_.field(info, "relative_path")));
  if (!file)
    return std::unexpected(file.error());
  auto from = static_cast<uint64_t>(offset.integer);
  auto bytes = static_cast<uint64_t>(length.integer);
  if (auto object = objects_.find(key); object != objects_.end()) {
    StoredObject &stored = index_.objects[object->second];
    stored.file = *file;
    stored.offset = from;
    stored.length = bytes;
    return {};
  }
  auto found = tensors_.find(key);
  if (found == tensors_.end())
    return fail("{}: places {}, which it does not describe", path_, key);
  Result<Shape> start =
      readShape(tree_, tree_.field(index, "offset"), path_, key);
  if (!start)
    return std::unexpected(start.error());
  auto &chunks = index_.tensors[found->second].chunks;
  auto chunk = std::lower_bound(
      chunks.begin(), chunks.end(), *start,
      [](const auto &a, const Shape &b) { return before(a.start, b); });
  if (chunk == chunks.end() || !(chunk->start == *start))
    return fail("{}: tensor {}: places a chunk at {}, which it does not list",
                path_, key, toString(*start));
  chunk->file = *file;
  chunk->offset = from;
  chunk->length = bytes;
  return {};
}

Result<void> IndexReader::findGaps() const {
  for (const TorchDistIndex::Tensor &tensor : index_.tensors)
    for (const TorchDistIndex::Chunk &chunk : tensor.chunks)
      if (chunk.length == 0)
        return fail("{}: tensor {}: says of the chunk at {} in no place where "
                    "it is stored",
                    path_, tensor.key, toString(chunk.start));
  for (const StoredObject &object : index_.objects)
    if (object.length == 0)
      return fail("{}: object {}: has no place", path_, object.key);
  return {};
}

Result<TorchDistIndex> IndexReader::read() {
  PickleValue root = tree_.root();
  if (!tree_.hasField(root, "state_dict_metadata") ||
      !tree_.hasField(root, "storage_data"))
    return fail("{}: is no index of a distributed checkpoint", path_);
  std::span<const PickleValue> described =
      tree_.items(tree_.field(root, "state_dict_metadata"));
  for (size_t i = 0; i + 1 < described.size(); i += 2) {
    std::string_view key = tree_.text(described[i]);
    PickleTree::Name type = tree_.global(tree_.callable(described[i + 1]));
    bool known = true;
    if (isTrainingState(key))
      ++index_.skipped;
    else if (type.name == "BytesStorageMetadata") {
      known = objects_.try_emplace(key, index_.objects.size()).second;
      index_.objects.push_back({std::string(key), 0, 0, 0});
    } else {
      known = tensors_.try_emplace(key, index_.tensors.size()).second;
      if (auto good = readTensor(key, described[i + 1]); !good)
        return std::unexpected(good.error());
    }
    if (!known)
      return fail("{}: describes {} twice", path_, key);
  }
  std::span<const PickleValue> places =
      tree_.items(tree_.field(root, "storage_data"));
  for (size_t i = 0; i + 1 < places.size(); i += 2)
    if (auto good = readPlace(places[i], places[i + 1]); !good)
      return std::unexpected(good.error());
  if (auto good = findGaps(); !good)
    return std::unexpected(good.error());
  return std::move(index_);
}

} // namespace

Result<TorchDistIndex> readTorchDistIndex(const PickleTree &tree,
                                          const std::string &path) {
  return IndexReader(tree, path).read();
}

} // namespace mbc
