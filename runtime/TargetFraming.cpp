#include "runtime/TargetFraming.h"
#include "runtime/PickleWriter.h"
#include "runtime/Plan.h"
#include "runtime/TorchDistWriter.h"
#include "runtime/TorchRanksWriter.h"

namespace mbc {
namespace {

constexpr std::string_view itemRoot = "archive";

std::span<const int64_t> dims(const flatbuffers::Vector<int64_t> *shape) {
  if (!shape)
    return {};
  return {shape->data(), shape->size()};
}

} // namespace

uint64_t TargetFraming::itemBytes(uint32_t item) const {
  return storedBytes(*outputs_[item]);
}

bool TargetFraming::isPlain(uint32_t item) const {
  return plan_->files()->Get(plan_->items()->Get(item)->file())->plain();
}

void TargetFraming::placeItems() {
  size_t items = length(plan_->items());
  outputs_.resize(items);
  data_.resize(items);
  ends_.resize(items);
  items_.resize(length(plan_->files()));
  for (size_t index = 0; index != length(plan_->classes()); ++index) {
    const plan::Class &kind = *plan_->classes()->Get(index);
    size_t outputs = kind.outputs()->size();
    for (size_t row = 0; row != length(kind.items()); ++row)
      outputs_[kind.items()->Get(row)] = kind.outputs()->Get(row % outputs);
  }
  for (uint32_t item = 0; item != items; ++item) {
    const plan::Item &row = *plan_->items()->Get(item);
    items_[row.file()].push_back(item);
    if (!outputs_[item])
      continue; // found by checkFile
    uint64_t bytes = itemBytes(item);
    data_[item] = row.offset();
    ends_[item] = row.offset() + bytes;
    if (plan_->format() != plan::TargetFormat_TorchDist || isPlain(item))
      continue;
    const plan::Output &output = *outputs_[item];
    std::string &pickle = pickles_[&output];
    if (pickle.empty())
      pickle = tensorPickle(DType(output.dtype()), dims(output.shape()));
    ArchiveLayout layout =
        layoutArchive(itemRoot, pickle.size(), {&bytes, 1}, row.offset());
    data_[item] = layout.dataOffsets[0];
    ends_[item] = row.offset() + layout.totalBytes;
  }
}

Result<void> TargetFraming::checkFile(uint32_t file) const {
  const plan::TargetFile &row = *plan_->files()->Get(file);
  std::vector<uint64_t> sizes;
  uint64_t objects = 0;
  for (size_t index = 0; index != length(plan_->object_files()); ++index)
    objects += plan_->object_files()->Get(index) == file;
  uint64_t reached = objects == 0 ? 0 : objects * extraStateObject().size();
  for (uint32_t item : items_[file]) {
    uint64_t begin = plan_->items()->Get(item)->offset();
    std::string key = plan_->tensors()
                          ->Get(plan_->items()->Get(item)->tensor())
                          ->key()
                          ->str();
    if (!outputs_[item])
      return fail("{}: '{}' is in the plan's table of items, but no class "
                  "writes it: compile the plan again",
                  row.path()->str(), key);
    size_t rank = length(outputs_[item]->shape());
    size_t whole = length(
        plan_->tensors()->Get(plan_->items()->Get(item)->tensor())->shape());
    if (plan_->format() == plan::TargetFormat_TorchDist && !row.plain() &&
        rank != whole)
      return fail("{}: '{}' has {} dimensions, its part here {}: compile the "
                  "plan again",
                  row.path()->str(), key, whole, rank);
    if (begin < reached || ends_[item] > row.size())
      return fail("{}: '{}' needs bytes {} to {}, but the one before it ends "
                  "at {} and the file at {}: compile the plan again",
                  row.path()->str(), key, begin, ends_[item], reached,
                  row.size());
    reached = ends_[item];
    sizes.push_back(itemBytes(item));
  }
  if (plan_->format() != plan::TargetFormat_TorchRanks || row.plain())
    return {};
  ArchiveLayout layout =
      layoutArchive(rankFileRoot, length(row.literal()), sizes);
  bool same = layout.totalBytes == row.size();
  for (size_t index = 0; index != items_[file].size(); ++index)
    same = same && layout.dataOffsets[index] == data_[items_[file][index]];
  if (!same)
    return fail("{}: the plan gives {} bytes, the archive has {}, or places "
                "its tensors otherwise: compile the plan again",
                row.path()->str(), row.size(), layout.totalBytes);
  return {};
}

Result<TargetFraming> TargetFraming::make(const plan::Plan &plan) {
  TargetFraming framing(plan);
  framing.placeItems();
  for (uint32_t file = 0; file != framing.items_.size(); ++file)
    if (Result<void> checked = framing.checkFile(file); !checked)
      return std::unexpected(checked.error());
  return framing;
}

std::vector<FramingRun> TargetFraming::frameItem(uint32_t item,
                                                 uint32_t crc) const {
  uint64_t bytes = itemBytes(item);
  return archiveFraming(plan_->items()->Get(item)->offset(), itemRoot,
                        pickles_.at(outputs_[item]), {&bytes, 1}, {&crc, 1});
}

std::vector<FramingRun>
TargetFraming::frameFile(uint32_t file, std::span<const uint32_t> crcs) const {
  std::vector<uint64_t> sizes;
  std::vector<uint32_t> ofFile;
  for (uint32_t item : items_[file]) {
    sizes.push_back(itemBytes(item));
    ofFile.push_back(crcs[item]);
  }
  const auto *literal = plan_->files()->Get(file)->literal();
  std::string_view pickle;
  if (literal)
    pickle = {reinterpret_cast<const char *>(literal->data()), literal->size()};
  return archiveFraming(0, rankFileRoot, pickle, sizes, ofFile);
}

std::string TargetFraming::metadata(uint64_t objectBytes) const {
  // What stands beside the checkpoint is none of its tensors, and comes last.
  std::vector<bool> beside(length(plan_->tensors()));
  for (uint32_t item = 0; item != outputs_.size(); ++item)
    if (isPlain(item))
      beside[plan_->items()->Get(item)->tensor()] = true;
  std::vector<TorchDistTensor> tensors;
  for (size_t index = 0; index != length(plan_->tensors()); ++index) {
    if (beside[index])
      continue;
    const plan::TargetTensor &row = *plan_->tensors()->Get(index);
    tensors.push_back(
        {row.key()->string_view(), DType(row.dtype()), dims(row.shape())});
  }
  std::vector<TorchDistChunk> chunks;
  for (uint32_t item = 0; item != outputs_.size(); ++item) {
    if (isPlain(item))
      continue;
    const plan::Item &row = *plan_->items()->Get(item);
    std::span<const int64_t> shape = dims(outputs_[item]->shape());
    std::span<const int64_t> starts = dims(plan_->starts());
    chunks.push_back({row.tensor(), row.file(), row.offset(),
                      ends_[item] - row.offset(),
                      starts.subspan(row.start(), shape.size()), shape});
  }
  std::vector<TorchDistObject> objects;
  std::vector<uint64_t> placed(length(plan_->files()));
  for (size_t index = 0; index != length(plan_->objects()); ++index) {
    uint32_t file = plan_->object_files()->Get(index);
    objects.push_back({plan_->objects()->Get(index)->string_view(), file,
                       placed[file] * objectBytes, objectBytes});
    ++placed[file];
  }
  std::vector<std::string_view> files;
  for (size_t file = 0; file != length(plan_->files()); ++file)
    if (!plan_->files()->Get(file)->plain())
      files.push_back(plan_->files()->Get(file)->path()->string_view());
  for (size_t index = 0; index != length(plan_->sidecars()); ++index) {
    const plan::Sidecar &row = *plan_->sidecars()->Get(index);
    if (length(row.object()) == 0)
      continue;
    objects.push_back({row.object()->string_view(),
                       static_cast<uint32_t>(files.size()), 0,
                       length(row.bytes())});
    files.push_back(row.path()->string_view());
  }
  return torchDistMetadata(tensors, chunks, objects, files);
}

} // namespace mbc
