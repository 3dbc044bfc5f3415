#include "runtime/Load.h"
#include "runtime/Checkpoint.h"
#include "runtime/File.h"
#include "runtime/Json.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace mbc {
namespace {

/// What GPUs and vector units want of a tensor's first byte.
constexpr uint64_t alignment = 256;

/// Keeps bands in host memory.
class HostTensors : public BandSink {
public:
  explicit HostTensors(const std::vector<uint64_t> &addresses)
      : addresses_(addresses) {}

  Result<void> write(const Unit &unit) override {
    for (const Band &band : unit.bands)
      if (band.storedBytes != 0)
        std::memcpy(
            reinterpret_cast<void *>(addresses_[band.item] + band.storedOffset),
            unit.at(band.storedPlace), band.storedBytes);
    return {};
  }

private:
  const std::vector<uint64_t> &addresses_; ///< by item
};

/// Keeps bands in a GPU's memory.
class DeviceTensors : public BandSink {
public:
  DeviceTensors(const Device &device, const std::vector<uint64_t> &addresses)
      : device_(device), addresses_(addresses) {}

  uint64_t deviceAddress(const Band &band) const override {
    return addresses_[band.item] + band.storedOffset;
  }

  Result<void> write(const Unit &unit) override {
    Result<DeviceStream> stream = take();
    if (!stream)
      return std::unexpected(stream.error());
    Result<void> done;
    for (const Band &band : unit.bands)
      if (done && !band.placed && band.storedBytes != 0)
        done = stream->upload(deviceAddress(band),
                              {unit.at(band.storedPlace), band.storedBytes});
    // Copies in flight end before the unit's bytes are used again.
    Result<void> waited = stream->wait();
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(*stream));
    return done ? waited : done;
  }

private:
  Result<DeviceStream> take() {
    if (Result<void> entered = device_.enter(); !entered)
      return std::unexpected(entered.error());
    std::lock_guard lock(mutex_);
    if (free_.empty())
      return device_.makeStream();
    DeviceStream stream = std::move(free_.back());
    free_.pop_back();
    return stream;
  }

  const Device &device_;
  const std::vector<uint64_t> &addresses_; ///< by item
  std::mutex mutex_;
  std::vector<DeviceStream> free_; ///< guarded by mutex_
};

class Loading {
public:
  Loading(const Plan &plan, const std::string &source,
          const LoadOptions &options)
      : plan_(*plan), options_(options), work_(plan_, source, options) {}

  Result<LoadedTensors> operator()();

private:
  Result<std::vector<bool>> wantedFiles() const;
  void placeTensors(const std::vector<bool> &files);
  void addTensor(uint32_t item, const plan::Output &output);
  Result<uint64_t> allocate();
  Result<void> fill();

  const plan::Plan &plan_;
  const LoadOptions &options_;
  TensorWork work_;
  LoadedTensors loaded_;
  bool virtual_ = false;            ///< a rank has several models
  std::vector<bool> wanted_;        ///< by item
  std::vector<uint64_t> addresses_; ///< by item
};

/// The files of the rank that is asked for; of Hugging Face, all.
Result<std::vector<bool>> Loading::wantedFiles() const {
  std::vector<bool> wanted(length(plan_.files()), true);
  if (plan_.format() == plan::TargetFormat_Safetensors)
    return wanted;
  if (plan_.format() != plan::TargetFormat_TorchRanks)
    return fail("the plan writes a torch_dist, which has no tensors of one "
                "rank: compile it with --format torch");
  Result<Json> options = parseJson(
      plan_.options_json() ? plan_.options_json()->string_view() : "{}",
      "the plan's options");
  if (!options)
    return std::unexpected(options.error());
  ParallelSizes sizes;
  for (auto [key, size] : {std::pair("tp", &sizes.tp),
                           {"pp", &sizes.pp},
                           {"ep", &sizes.ep},
                           {"etp", &sizes.etp}})
    *size = std::max<int64_t>(1, options->value(key, int64_t{1}));
  if (options->value("etp", int64_t{0}) == 0)
    sizes.etp = sizes.tp;
  const RankPlace &rank = options_.rank;
  for (auto [name, number, size] : {std::tuple("tp", rank.tp, sizes.tp),
                                    {"pp", rank.pp, sizes.pp},
                                    {"ep", rank.ep, sizes.ep}})
    if (number < 0 || number >= size)
      return fail("the plan has no rank {}={}: it was compiled with --{} {}",
                  name, number, name, size);
  std::set<std::string_view> paths;
  const std::vector<RankFile> files = rankFiles(sizes);
  for (const RankFile &file : files)
    if (file.place.tp == rank.tp && file.place.pp == rank.pp &&
        file.place.ep == rank.ep)
      paths.insert(file.path);
  for (size_t file = 0; file != wanted.size(); ++file)
    wanted[file] =
        paths.contains(plan_.files()->Get(file)->path()->string_view());
  return wanted;
}

/// Lays out one allocation; addresses count from its first byte.
void Loading::placeTensors(const std::vector<bool> &files) {
  wanted_.assign(length(plan_.items()), false);
  addresses_.assign(length(plan_.items()), 0);
  for (size_t item = 0; item != wanted_.size(); ++item)
    wanted_[item] = files[plan_.items()->Get(item)->file()];
  for (const plan::Item *item : *plan_.items())
    virtual_ = virtual_ || (plan_.format() == plan::TargetFormat_TorchRanks &&
                            item->start() != 0);
  std::vector<const plan::Output *> outputs(wanted_.size());
  for (size_t index = 0; index != length(plan_.classes()); ++index) {
    const plan::Class &kind = *plan_.classes()->Get(index);
    for (size_t row = 0; row != length(kind.items()); ++row)
      outputs[kind.items()->Get(row)] =
          kind.outputs()->Get(row % kind.outputs()->size());
  }
  for (uint32_t item = 0; item != wanted_.size(); ++item)
    if (wanted_[item] && outputs[item])
      addTensor(item, *outputs[item]);
}

void Loading::addTensor(uint32_t item, const plan::Output &output) {
  const plan::Item &row = *plan_.items()->Get(item);
  const plan::TargetTensor &tensor = *plan_.tensors()->Get(row.tensor());
  LoadedTensor made;
  made.name = (virtual_ ? fmt::format("model{}.", row.start()) : "") +
              tensor.key()->str();
  made.dtype = DType(tensor.dtype());
  if (tensor.shape())
    made.shape.assign(tensor.shape()->begin(), tensor.shape()->end());
  made.address = addresses_[item] = loaded_.bytes;
  loaded_.bytes +=
      (storedBytes(output) + alignment - 1) / alignment * alignment;
  loaded_.tensors.push_back(std::move(made));
}

/// The first byte of memory for all tensors.
Result<uint64_t> Loading::allocate() {
  const uint64_t bytes = std::max(loaded_.bytes, alignment);
  if (work_.device()) {
    Result<DeviceMemory> memory = work_.device()->device().allocate(bytes);
    if (!memory)
      return std::unexpected(memory.error());
    uint64_t address = memory->address();
    loaded_.memory = std::make_shared<DeviceMemory>(std::move(*memory));
    loaded_.device = options_.device;
    return address;
  }
  void *memory = std::aligned_alloc(alignment, bytes);
  if (!memory)
    return fail("there is no memory for the {} bytes of the rank's tensors",
                bytes);
  loaded_.memory = std::shared_ptr<void>(memory, std::free);
  return reinterpret_cast<uint64_t>(memory);
}

Result<void> Loading::fill() {
  Result<uint64_t> first = allocate();
  if (!first)
    return std::unexpected(first.error());
  for (uint64_t &address : addresses_)
    address += *first;
  for (LoadedTensor &tensor : loaded_.tensors)
    tensor.address += *first;
  if (!work_.device()) {
    HostTensors sink(addresses_);
    return work_.move(sink, false, wanted_);
  }
  DeviceTensors sink(work_.device()->device(), addresses_);
  return work_.move(sink, false, wanted_);
}

Result<LoadedTensors> Loading::operator()() {
  auto begin = std::chrono::steady_clock::now();
  Result<std::vector<bool>> files = wantedFiles();
  if (!files)
    return std::unexpected(files.error());
  if (Result<void> prepared = work_.prepare(); !prepared)
    return std::unexpected(prepared.error());
  Result<std::vector<std::string>> notes = work_.compare();
  if (!notes)
    return std::unexpected(notes.error());
  loaded_.notes = std::move(*notes);
  placeTensors(*files);
  if (Result<void> filled = fill(); !filled)
    return std::unexpected(filled.error());
  loaded_.bytesRead = work_.bytesRead();
  loaded_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return std::move(loaded_);
}

} // namespace

Result<LoadedTensors> load(const Plan &plan, const std::string &sourceDir,
                           const LoadOptions &options) {
  try {
    Result<std::string> root = checkpointRoot(sourceDir);
    if (!root)
      return std::unexpected(root.error());
    return Loading(plan, *root, options)();
  } catch (const std::exception &exception) {
    return fail("{}: cannot be loaded: {}", sourceDir, exception.what());
  }
}

} // namespace mbc
