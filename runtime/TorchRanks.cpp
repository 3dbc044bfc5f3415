#include "runtime/TorchRanks.h"

#include "runtime/File.h"
#include "runtime/MegatronFolder.h"
#include "runtime/MegatronNames.h"
#include "runtime/PickleTensor.h"
#include "runtime/TorchArchive.h"
#include "runtime/TorchRanksLayout.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>
#include <tbb/parallel_for.h>

namespace mbc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view weightsName = "model_optim_rng.pt";

/// A tensor as a file of one rank has it.
struct RankTensor {
  std::string key;
  DType dtype = DType::F32;
  Shape shape;
  uint64_t offset = 0; ///< of the data, in bytes from the start of the file
};

/// One file: its common state and the tensors of `model`.
struct RankContent {
  uint64_t size = 0;
  Json common;
  std::vector<RankTensor> tensors;
};

Result<RankTensor> readRankTensor(const TorchArchive &archive,
                                  const PickleTree &tree, std::string_view key,
                                  PickleValue value) {
  const std::string &path = archive.file().path();
  Result<PickledTensor> pickled = readTensor(tree, value, path, key);
  if (!pickled)
    return std::unexpected(pickled.error());
  Result<ArchiveEntry> data =
      archive.find(fmt::format("data/{}", pickled->key));
  if (!data)
    return fail("tensor {}: {}", key, data.error().message);
  uint64_t width = byteSize(pickled->dtype);
  uint64_t skip = static_cast<uint64_t>(pickled->storageOffset) * width;
  uint64_t bytes = static_cast<uint64_t>(pickled->shape.elements()) * width;
  if (skip > data->size || bytes > data->size - skip)
    return fail("{}: tensor {}: needs {} bytes, its storage has {}", path, key,
                skip + bytes, data->size);
  return RankTensor{std::string(key), pickled->dtype, pickled->shape,
                    data->offset + skip};
}

Result<RankContent> readRankFile(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return std::unexpected(file.error());
  Result<TorchArchive> archive = TorchArchive::open(*file, 0, file->size());
  if (!archive)
    return std::unexpected(archive.error());
  Result<std::string> pickle = archive->pickle();
  if (!pickle)
    return std::unexpected(pickle.error());
  Result<PickleTree> tree = PickleTree::parse(std::move(*pickle), path);
  if (!tree)
    return std::unexpected(tree.error());
  RankContent content;
  content.size = file->size();
  Result<Json> common = commonState(*tree, tree->root());
  if (!common)
    return std::unexpected(common.error());
  content.common = std::move(*common);
  PickleValue model = tree->field(tree->root(), "model");
  if (model.kind != PickleKind::Dict)
    return fail("{}: has no dict \"model\"", path);
  std::span<const PickleValue> items = tree->items(model);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (!isTensor(*tree, items[i + 1])) // _extra_state
      continue;
    auto tensor =
        readRankTensor(*archive, *tree, tree->text(items[i]), items[i + 1]);
    if (!tensor)
      return std::unexpected(tensor.error());
    content.tensors.push_back(std::move(*tensor));
  }
  return content;
}

/// Names of the per-rank format that a torch_dist spells otherwise.
std::string parameterName(std::string name) {
  name = fromPerRankName(std::move(name));
  if (size_t inner = name.find(".transformer_layer.");
      inner != std::string::npos && name.find("mtp.layers.") < inner)
    name.replace(inner, 19, ".mtp_model_layer.");
  return name;
}

int64_t localLayers(const RankContent &content) {
  int64_t layers = 0;
  for (const RankTensor &tensor : content.tensors)
    if (auto layer = parseMegatronName(tensor.key).layer)
      layers = std::max(layers, *layer + 1);
  return layers;
}

/// The number of routed experts in a file, compared with the arguments.
Result<int64_t> localExperts(const RankContent &content, const RankSizes &sizes,
                             const std::string &path) {
  int64_t experts = 0;
  for (const RankTensor &tensor : content.tensors)
    if (auto expert = parseMegatronName(tensor.key).expert)
      experts = std::max(experts, *expert + 1);
  if (experts != 0 && sizes.experts != 0 && experts * sizes.ep != sizes.experts)
    return fail("{}: has {} experts, the saved arguments say {} over EP {}",
                path, experts, sizes.experts, sizes.ep);
  return experts;
}

/// The first layer of each stage, counted over the model. Stages are as long
/// as their files say, which is right for any pipeline layout; together they
/// must have the layers of the arguments.
Result<std::vector<int64_t>>
stageStarts(const std::string &root, const RankSizes &sizes,
            const std::vector<RankFile> &files,
            const std::vector<RankContent> &contents) {
  std::vector<int64_t> starts = {0};
  for (size_t i = 0; i != files.size(); ++i) {
    int64_t layers = localLayers(contents[i]);
    bool firstOfStage = i == 0 || files[i].place.pp != files[i - 1].place.pp;
    if (firstOfStage)
      starts.push_back(starts.back() + layers);
    else if (starts.back() - starts[starts.size() - 2] != layers)
      return fail("{}: {} has {} decoder layers, the other files of pipeline "
                  "stage {} have {}",
                  root, files[i].path, layers, files[i].place.pp,
                  starts.back() - starts[starts.size() - 2]);
  }
  if (sizes.layers != 0 && starts.back() != sizes.layers)
    return fail("{}: the stages hold {} decoder layers, the saved arguments "
                "say {}",
                root, starts.back(), sizes.layers);
  return starts;
}

/// The name of a file's tensor, counted over the whole model.
std::string globalName(const std::string &key, int64_t firstLayer,
                       int64_t firstExpert) {
  std::string name = parameterName(key);
  MegatronName parsed = parseMegatronName(name);
  std::optional<int64_t> layer, expert;
  if (parsed.layer)
    layer = *parsed.layer + firstLayer;
  if (parsed.expert)
    expert = *parsed.expert + firstExpert;
  return renumber(name, layer, expert);
}

/// Adds the tensors of file `number`.
void addTensors(std::vector<StoredTensor> &tensors, HeaderStore &store,
                const RankContent &content, uint32_t number,
                std::string_view rank, int64_t firstLayer,
                int64_t firstExpert) {
  std::string_view keptRank = store.keep(rank);
  for (const RankTensor &local : content.tensors) {
    const Shape *shape = store.keep(local.shape);
    StoredPiece piece{number, local.offset,
                      store.keep(Shape::zeros(shape->rank())), shape};
    std::string name = globalName(local.key, firstLayer, firstExpert);
    StoredTensor &tensor = tensors.emplace_back();
    tensor.name = store.keep(name);
    tensor.shape = shape;
    tensor.dtype = local.dtype;
    tensor.pieces = store.keep(std::span(&std::as_const(piece), 1));
    if (name != local.key)
      tensor.key = store.keep(local.key);
    tensor.rank = keptRank;
  }
}

Result<std::string> anyRankFile(const std::string &directory) {
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (std::string name = it->path().filename().string();
        name.starts_with("mp_rank_"))
      folders.push_back(std::move(name));
  if (folders.empty())
    return fail("{}: has no folder mp_rank_*", directory);
  return *std::min_element(folders.begin(), folders.end());
}

Result<std::vector<RankContent>> readRankFiles(const Checkpoint &checkpoint) {
  std::vector<Result<RankContent>> read(checkpoint.files.size());
  tbb::parallel_for(size_t{0}, read.size(), [&](size_t i) {
    read[i] = readRankFile(joinPath(checkpoint.root, checkpoint.files[i].path));
  });
  std::vector<RankContent> contents;
  for (auto &content : read) {
    if (!content)
      return std::unexpected(content.error());
    contents.push_back(std::move(*content));
  }
  return contents;
}

} // namespace

Result<Checkpoint> openTorchRanks(const std::string &directory) {
  Checkpoint checkpoint;
  checkpoint.format = Format::TorchRanks;
  checkpoint.root = directory;
  Result<std::string> folder = anyRankFile(directory);
  if (!folder)
    return std::unexpected(folder.error());
  std::string firstPath = joinPath(joinPath(directory, *folder), weightsName);
  Result<RankContent> first = readRankFile(firstPath);
  if (!first)
    return std::unexpected(first.error());
  Result<RankSizes> sizes = readRankSizes(first->common, firstPath);
  if (!sizes)
    return std::unexpected(sizes.error());

  std::vector<RankFile> files = rankFiles(*sizes);
  for (const RankFile &file : files) {
    if (!fs::exists(joinPath(directory, file.path)))
      return fail("{}: does not exist; the saved arguments say TP {}, PP {}, "
                  "EP {}",
                  joinPath(directory, file.path), sizes->tp, sizes->pp,
                  sizes->ep);
    checkpoint.files.push_back({file.path, 0});
  }
  Result<std::vector<RankContent>> contents = readRankFiles(checkpoint);
  if (!contents)
    return std::unexpected(contents.error());
  auto starts = stageStarts(directory, *sizes, files, *contents);
  if (!starts)
    return std::unexpected(starts.error());
  auto store = std::make_shared<HeaderStore>();
  for (uint32_t i = 0; i != files.size(); ++i) {
    const RankContent &content = (*contents)[i];
    Result<int64_t> experts = localExperts(
        content, *sizes, joinPath(directory, checkpoint.files[i].path));
    if (!experts)
      return std::unexpected(experts.error());
    addTensors(checkpoint.tensors, *store, content, i,
               rankName(files[i].place, *sizes),
               (*starts)[static_cast<size_t>(files[i].place.pp)],
               files[i].place.ep * *experts);
    checkpoint.files[i].size = content.size;
  }
  checkpoint.stores.push_back(std::move(store));
  checkpoint.indexNames();
  checkpoint.argsJson = first->common.dump();
  if (auto good = readRecord(checkpoint); !good)
    return std::unexpected(good.error());
  return checkpoint;
}

} // namespace mbc
