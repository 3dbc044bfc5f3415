#include "runtime/TorchRanks.h"

#include "runtime/File.h"
#include "runtime/MegatronFolder.h"
#include "runtime/MegatronNames.h"
#include "runtime/PickleTensor.h"
#include "runtime/TorchFile.h"
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
  int64_t chunk = 0; ///< of the stage's model chunks
  TorchTensor stored;
};

/// One file: its common state and the tensors of `model`, or of `model0`,
/// `model1` ... where a stage has several chunks.
struct RankContent {
  uint64_t size = 0;
  int64_t chunks = 1;
  Json common;
  std::vector<RankTensor> tensors;
};

std::vector<PickleValue> modelChunks(const PickleTree &tree) {
  PickleValue whole = tree.field(tree.root(), "model");
  if (whole.kind == PickleKind::Dict)
    return {whole};
  std::vector<PickleValue> chunks;
  for (;;) {
    PickleValue chunk =
        tree.field(tree.root(), fmt::format("model{}", chunks.size()));
    if (chunk.kind != PickleKind::Dict)
      return chunks;
    chunks.push_back(chunk);
  }
}

Result<RankContent> readRankFile(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return std::unexpected(file.error());
  Result<TorchFile> torch = TorchFile::open(*file);
  if (!torch)
    return std::unexpected(torch.error());
  const PickleTree &tree = torch->tree();
  RankContent content;
  content.size = file->size();
  Result<Json> common = commonState(tree, tree.root());
  if (!common)
    return std::unexpected(common.error());
  content.common = std::move(*common);
  std::vector<PickleValue> models = modelChunks(tree);
  if (models.empty())
    return fail("{}: has no dict \"model\"", path);
  content.chunks = static_cast<int64_t>(models.size());
  for (int64_t chunk = 0; chunk != content.chunks; ++chunk) {
    std::span<const PickleValue> items =
        tree.items(models[static_cast<size_t>(chunk)]);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (!isTensor(tree, items[i + 1])) // _extra_state
        continue;
      Result<TorchTensor> tensor =
          torch->tensor(tree.text(items[i]), items[i + 1]);
      if (!tensor)
        return std::unexpected(tensor.error());
      if (!tensor->order.empty())
        return fail("{}: tensor {}: is a transposed view; save it contiguous",
                    path, tensor->name);
      content.tensors.push_back({chunk, std::move(*tensor)});
    }
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

int64_t localLayers(const RankContent &content, int64_t chunk) {
  int64_t layers = 0;
  for (const RankTensor &tensor : content.tensors)
    if (auto layer = parseMegatronName(tensor.stored.name).layer;
        layer && tensor.chunk == chunk)
      layers = std::max(layers, *layer + 1);
  return layers;
}

/// The numbers of routed experts in a file. The model's is compared with the
/// arguments, which do not know a draft module's.
Result<ExpertCounts> localExperts(const RankContent &content,
                                  const RankSizes &sizes,
                                  const std::string &path) {
  ExpertCounts experts;
  for (const RankTensor &tensor : content.tensors)
    experts.note(parseMegatronName(tensor.stored.name));
  if (experts.model != 0 && sizes.experts != 0 &&
      experts.model * sizes.ep != sizes.experts)
    return fail("{}: has {} experts, the saved arguments say {} over EP {}",
                path, experts.model, sizes.experts, sizes.ep);
  return experts;
}

/// The first layer of each chunk of the model, counted over the model; chunk c
/// stands on stage c mod PP. Chunks are as long as their files say, which is
/// right for any pipeline layout; together they must have the layers of the
/// arguments.
Result<std::vector<int64_t>>
chunkStarts(const std::string &root, const RankSizes &sizes,
            const std::vector<RankFile> &files,
            const std::vector<RankContent> &contents) {
  for (size_t i = 0; i != files.size(); ++i)
    if (contents[i].chunks != sizes.vpp)
      return fail("{}: {} has {} model chunks, the saved arguments say {}",
                  root, files[i].path, contents[i].chunks, sizes.vpp);
  std::vector<std::optional<int64_t>> layers(
      static_cast<size_t>(sizes.pp * sizes.vpp));
  for (size_t i = 0; i != files.size(); ++i) {
    for (int64_t chunk = 0; chunk != sizes.vpp; ++chunk) {
      auto &known =
          layers[static_cast<size_t>(chunk * sizes.pp + files[i].place.pp)];
      int64_t here = localLayers(contents[i], chunk);
      if (!known)
        known = here;
      else if (*known != here)
        return fail("{}: {} has {} decoder layers, the other files of pipeline "
                    "stage {} have {}",
                    root, files[i].path, here, files[i].place.pp, *known);
    }
  }
  std::vector<int64_t> starts = {0};
  for (const std::optional<int64_t> &count : layers)
    starts.push_back(starts.back() + count.value_or(0));
  if (sizes.layers != 0 && starts.back() != sizes.layers)
    return fail("{}: the stages hold {} decoder layers, the saved arguments "
                "say {}",
                root, starts.back(), sizes.layers);
  return starts;
}

/// The name of a file's tensor, counted over the whole model.
std::string globalName(const std::string &key, int64_t firstLayer,
                       const ExpertCounts &firstExperts) {
  std::string name = parameterName(key);
  MegatronName parsed = parseMegatronName(name);
  std::optional<int64_t> layer, expert;
  if (parsed.layer)
    layer = *parsed.layer + firstLayer;
  if (parsed.expert)
    expert = *parsed.expert + firstExperts.of(parsed);
  return renumber(name, layer, expert);
}

/// Adds the tensors of file `number`. `firstLayer`: of each of its chunks.
void addTensors(std::vector<StoredTensor> &tensors, HeaderStore &store,
                const RankContent &content, uint32_t number,
                std::string_view rank, const std::vector<int64_t> &firstLayer,
                const ExpertCounts &firstExperts) {
  std::string_view keptRank = store.keep(rank);
  for (const RankTensor &tensor : content.tensors) {
    const TorchTensor &local = tensor.stored;
    const Shape *shape = store.keep(local.shape);
    StoredPiece piece{number, local.offset,
                      store.keep(Shape::zeros(shape->rank())), shape};
    std::string name =
        globalName(local.name, firstLayer[static_cast<size_t>(tensor.chunk)],
                   firstExperts);
    StoredTensor &added = tensors.emplace_back();
    added.name = store.keep(name);
    added.shape = shape;
    added.dtype = local.dtype;
    added.pieces = store.keep(std::span(&std::as_const(piece), 1));
    if (name != local.name)
      added.key = store.keep(local.name);
    added.rank = keptRank;
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
  auto starts = chunkStarts(directory, *sizes, files, *contents);
  if (!starts)
    return std::unexpected(starts.error());
  auto store = std::make_shared<HeaderStore>();
  for (uint32_t i = 0; i != files.size(); ++i) {
    const RankContent &content = (*contents)[i];
    Result<ExpertCounts> experts = localExperts(
        content, *sizes, joinPath(directory, checkpoint.files[i].path));
    if (!experts)
      return std::unexpected(experts.error());
    std::vector<int64_t> firstLayer;
    for (int64_t chunk = 0; chunk != sizes->vpp; ++chunk)
      firstLayer.push_back((
          *starts)[static_cast<size_t>(chunk * sizes->pp + files[i].place.pp)]);
    const int64_t ep = files[i].place.ep;
    addTensors(checkpoint.tensors, *store, content, i,
               rankName(files[i].place, *sizes), firstLayer,
               {ep * experts->model, ep * experts->draft});
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
