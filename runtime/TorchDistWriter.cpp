#include "runtime/TorchDistWriter.h"

#include "runtime/CommonStateWriter.h"
#include "runtime/PickleWriter.h"
#include "runtime/TorchArchive.h"

#include <numeric>
#include <vector>

namespace mbc {
namespace {

#define METADATA "torch.distributed.checkpoint.metadata\n"
constexpr std::string_view metadataClass = METADATA "Metadata";
constexpr std::string_view tensorClass = METADATA "TensorStorageMetadata";
constexpr std::string_view propertiesClass = METADATA "TensorProperties";
constexpr std::string_view memoryFormatClass = METADATA "_MEM_FORMAT_ENCODING";
constexpr std::string_view chunkClass = METADATA "ChunkStorageMetadata";
constexpr std::string_view bytesClass = METADATA "BytesStorageMetadata";
constexpr std::string_view indexClass = METADATA "MetadataIndex";
constexpr std::string_view storageMetaClass = METADATA "StorageMeta";
#undef METADATA
constexpr std::string_view storageInfoClass =
    "torch.distributed.checkpoint.filesystem\n_StorageInfo";

/// Writes the index part by part.
class MetadataPickle {
public:
  MetadataPickle(std::span<const TorchDistTensor> tensors,
                 std::span<const TorchDistChunk> chunks,
                 std::span<const TorchDistObject> objects,
                 std::span<const std::string_view> files)
      : tensors_(tensors), chunks_(chunks), objects_(objects) {
    sortChunks();
    for (const TorchDistTensor &tensor : tensors)
      keys_.push_back({tensor.key});
    for (std::string_view file : files)
      paths_.push_back({file});
  }

  std::string write();

private:
  void sortChunks();
  void properties(DType dtype);
  void tensor(size_t index);
  void storageData();
  void place(uint32_t file, uint64_t offset, uint64_t length);
  void storageMeta();

  std::span<const TorchDistTensor> tensors_;
  std::span<const TorchDistChunk> chunks_;
  std::span<const TorchDistObject> objects_;
  std::vector<uint32_t> order_; ///< chunks by tensor
  std::vector<uint32_t> first_; ///< of each tensor in `order_`, and the end
  PickleWriter out_;

  using Constant = PickleWriter::Constant;
  Constant chunkClass_{chunkClass}, indexClass_{indexClass},
      storageInfoClass_{storageInfoClass};
  Constant offsets_{"offsets"}, sizes_{"sizes"}, fqn_{"fqn"}, offset_{"offset"},
      index_{"index"}, path_{"relative_path"}, length_{"length"};
  std::vector<Constant> keys_, paths_; ///< of `tensors_` and `files_`
};

void MetadataPickle::sortChunks() {
  first_.assign(tensors_.size() + 1, 0);
  for (const TorchDistChunk &chunk : chunks_)
    ++first_[chunk.tensor + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  order_.resize(chunks_.size());
  for (uint32_t i = 0; i != chunks_.size(); ++i)
    order_[next[chunks_[i].tensor]++] = i;
}

void MetadataPickle::properties(DType dtype) {
  out_.newObject(propertiesClass);
  out_.mark();
  out_.global(std::string("torch\n").append(torchName(dtype)));
  out_.global("torch.serialization\n_get_layout");
  out_.text("torch.strided");
  out_.tuple1();
  out_.reduce();
  out_.boolean(false); // requires_grad
  out_.global(memoryFormatClass);
  out_.integer(0); // contiguous
  out_.tuple1();
  out_.reduce();
  out_.boolean(false); // pin_memory
  out_.tupleFromMark();
  out_.build();
}

void MetadataPickle::tensor(size_t index) {
  out_.text(keys_[index]);
  out_.newObject(tensorClass);
  out_.emptyDict();
  out_.mark();
  out_.text("properties");
  properties(tensors_[index].dtype);
  out_.text("size");
  out_.size(tensors_[index].shape);
  out_.text("chunks");
  out_.emptyList();
  out_.mark();
  for (uint32_t i = first_[index]; i != first_[index + 1]; ++i) {
    const TorchDistChunk &chunk = chunks_[order_[i]];
    out_.newObject(chunkClass_);
    out_.emptyDict();
    out_.mark();
    out_.text(offsets_);
    out_.size(chunk.start);
    out_.text(sizes_);
    out_.size(chunk.shape);
    out_.setItems();
    out_.build();
  }
  out_.appends();
  out_.setItems();
  out_.build();
}

void MetadataPickle::place(uint32_t file, uint64_t offset, uint64_t length) {
  out_.newObject(storageInfoClass_);
  out_.emptyDict();
  out_.mark();
  out_.text(path_);
  out_.text(paths_[file]);
  out_.text(offset_);
  out_.integer(static_cast<int64_t>(offset));
  out_.text(length_);
  out_.integer(static_cast<int64_t>(length));
  out_.setItems();
  out_.build();
}

/// A key of this dict is complete (BUILD) before SETITEMS hashes it.
void MetadataPickle::storageData() {
  out_.emptyDict();
  out_.mark();
  for (const TorchDistObject &object : objects_) {
    out_.newObject(indexClass_);
    out_.emptyDict();
    out_.mark();
    out_.text(fqn_);
    out_.text(object.key);
    out_.text(offset_);
    out_.none();
    out_.text(index_);
    out_.none();
    out_.setItems();
    out_.build();
    place(object.file, object.offset, object.length);
  }
  for (uint32_t i : order_) {
    const TorchDistChunk &chunk = chunks_[i];
    out_.newObject(indexClass_);
    out_.emptyDict();
    out_.mark();
    out_.text(fqn_);
    out_.text(keys_[chunk.tensor]);
    out_.text(offset_);
    out_.size(chunk.start);
    out_.text(index_);
    out_.none();
    out_.setItems();
    out_.build();
    place(chunk.file, chunk.offset, chunk.length);
  }
  out_.setItems();
}

void MetadataPickle::storageMeta() {
  out_.newObject(storageMetaClass);
  out_.emptyDict();
  out_.mark();
  for (std::string_view field : {"checkpoint_id", "save_id", "load_id"}) {
    out_.text(field);
    out_.none();
  }
  out_.text("modules");
  out_.emptyList();
  out_.setItems();
  out_.build();
}

std::string MetadataPickle::write() {
  out_.newObject(metadataClass);
  out_.emptyDict();
  out_.mark();
  out_.text("state_dict_metadata");
  out_.emptyDict();
  out_.mark();
  for (const TorchDistObject &object : objects_) {
    out_.text(object.key);
    out_.newObject(bytesClass);
  }
  for (size_t i = 0; i != tensors_.size(); ++i)
    tensor(i);
  out_.setItems();
  out_.text("planner_data");
  out_.none();
  out_.text("storage_data");
  storageData();
  out_.text("storage_meta");
  storageMeta();
  out_.text("version");
  out_.text("1.0.0");
  out_.setItems();
  out_.build();
  return std::move(out_).finish();
}

} // namespace

std::string torchDistMetadata(std::span<const TorchDistTensor> tensors,
                              std::span<const TorchDistChunk> chunks,
                              std::span<const TorchDistObject> objects,
                              std::span<const std::string_view> files) {
  return MetadataPickle(tensors, chunks, objects, files).write();
}

std::string_view torchDistMarker() {
  return R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1})";
}

std::string extraStateObject() {
  PickleWriter out;
  out.emptyList();
  out.tensor("0", DType::U8, Shape{0}.dims());
  out.append();
  std::string_view empty;
  return archiveBytes("archive", std::move(out).finish(), {&empty, 1});
}

std::string trainState(int64_t iteration) {
  PickleWriter out;
  std::vector<std::string> storages;
  out.emptyDict();
  out.mark();
  auto item = [&](std::string_view name, DType dtype, const auto &value) {
    out.text(name);
    out.tensor(std::to_string(storages.size()), dtype, {});
    storages.emplace_back(reinterpret_cast<const char *>(&value),
                          sizeof(value));
  };
  const int64_t none = 0;
  const float operations = 0;
  const bool yes = true;
  item("step", DType::I64, iteration);
  for (const char *samples : {"consumed_train_samples", "skipped_train_samples",
                              "consumed_valid_samples"})
    item(samples, DType::I64, none);
  item("floating_point_operations_so_far", DType::F32, operations);
  for (const char *stage : {"do_train", "do_valid", "do_test"})
    item(stage, DType::BOOL, yes);
  out.setItems();
  std::vector<std::string_view> bytes(storages.begin(), storages.end());
  return archiveBytes("archive", std::move(out).finish(), bytes);
}

Result<std::string> commonFile(std::string_view commonJson) {
  PickleWriter out;
  if (auto good = writeCommonState(out, commonJson); !good)
    return std::unexpected(good.error());
  return archiveBytes("common", std::move(out).finish(), {});
}

Result<std::string> commonObject(std::string_view commonJson) {
  PickleWriter out;
  out.emptyList();
  if (auto good = writeCommonState(out, commonJson); !good)
    return std::unexpected(good.error());
  out.append();
  return archiveBytes("archive", std::move(out).finish(), {});
}

} // namespace mbc
