#include "compiler/Target/Originals.h"

#include "compiler/Binding/QuantizedTensors.h"
#include "runtime/File.h"
#include "runtime/HfDirectory.h"
#include "runtime/Json.h"
#include "runtime/Safetensors.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace mbc::compiler {
namespace {

/// The codes that rules read, with all that stands beside them, in the order
/// of the files.
std::set<uint32_t> originalsIn(const Checkpoint &source, const Binding &binding,
                               size_t &quantized) {
  std::set<uint32_t> tensors;
  quantized = 0;
  for (const BoundClass &bound : binding.classes)
    for (const SourceRef &ref : bound.refs) {
      const StoredTensor &codes = source.tensors[ref.tensor];
      uint32_t scales = scalesOf(source, codes);
      if (scales == Checkpoint::none || !tensors.insert(ref.tensor).second)
        continue;
      ++quantized;
      tensors.insert(scales);
      if (uint32_t one = tensorScaleOf(source, codes); one != Checkpoint::none)
        tensors.insert(one);
      for (uint32_t tensor : besideCodes(source, codes))
        tensors.insert(tensor);
    }
  return tensors;
}

std::string inFolder(std::string_view name) {
  return fmt::format("{}/{}", originalsFolder, name);
}

/// Puts one file of originals together.
class FileOfOriginals {
public:
  FileOfOriginals(const Checkpoint &source, Target &target)
      : source_(source), target_(target) {}

  void add(uint32_t tensor) {
    const StoredTensor &stored = source_.tensors[tensor];
    entries_.push_back(
        {std::string(stored.key.empty() ? stored.name : stored.key),
         stored.dtype, *stored.shape});
    tensors_.push_back(tensor);
  }

  Result<void> finish(const std::string &name) {
    Result<SafetensorsHeader> header = layoutSafetensors(entries_);
    if (!header)
      return std::unexpected(header.error());
    auto file = static_cast<uint32_t>(target_.files.size());
    target_.files.push_back(
        {inFolder(name), header->fileSize, header->bytes, true});
    for (size_t k = 0; k != entries_.size(); ++k)
      addItem(file, k, header->offsets[k]);
    return {};
  }

private:
  void addItem(uint32_t file, size_t index, uint64_t offset) {
    const SafetensorsEntry &entry = entries_[index];
    auto item = static_cast<uint32_t>(target_.items.size());
    target_.items.push_back(
        {file, static_cast<uint32_t>(target_.tensors.size()), 0,
         static_cast<uint32_t>(target_.starts.size()), offset});
    target_.starts.resize(target_.starts.size() + entry.shape.rank(), 0);
    target_.tensors.push_back(
        {std::string(entry.name), entry.dtype, entry.shape});
    addCopy(target_, entry.dtype, entry.shape, {tensors_[index], 0}, item);
  }

  const Checkpoint &source_;
  Target &target_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<uint32_t> tensors_;
};

} // namespace

Result<size_t> placeOriginals(const Checkpoint &source, const Binding &binding,
                              const std::string &configText, Target &target,
                              PlanContent &content) {
  size_t quantized = 0, firstItem = target.items.size();
  std::set<uint32_t> tensors = originalsIn(source, binding, quantized);
  for (auto at = tensors.begin(); at != tensors.end();) {
    uint32_t file = source.tensors[*at].pieces.front().file;
    FileOfOriginals originals(source, target);
    for (;
         at != tensors.end() && source.tensors[*at].pieces.front().file == file;
         ++at)
      originals.add(*at);
    if (Result<void> done = originals.finish(source.files[file].path); !done)
      return std::unexpected(done.error());
  }
  if (quantized != 0) {
    content.sidecars.push_back({inFolder("config.json"), configText, ""});
    content.sidecars.push_back({inFolder("model.safetensors.index.json"),
                                weightIndex(target, firstItem, originalsFolder),
                                ""});
  }
  return quantized;
}

Result<std::optional<Checkpoint>> openOriginals(const Checkpoint &megatron) {
  std::string folder = joinPath(megatron.root, originalsFolder);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    return std::nullopt;
  Result<Checkpoint> originals = openHfDirectory(folder);
  if (!originals)
    return std::unexpected(originals.error());
  nameValues(*originals);
  return std::move(*originals);
}

uint32_t appendOriginals(const Checkpoint &originals, Checkpoint &megatron) {
  auto firstFile = static_cast<uint32_t>(megatron.files.size());
  auto firstTensor = static_cast<uint32_t>(megatron.tensors.size());
  for (const StoredFile &file : originals.files)
    megatron.files.push_back({inFolder(file.path), file.size});
  auto pieces = std::make_shared<HeaderStore>();
  for (StoredTensor tensor : originals.tensors) {
    StoredPiece piece = tensor.pieces.front(); // safetensors have one each
    piece.file += firstFile;
    tensor.pieces = pieces->keep(std::span<const StoredPiece>(&piece, 1));
    megatron.tensors.push_back(tensor);
  }
  megatron.stores.insert(megatron.stores.end(), originals.stores.begin(),
                         originals.stores.end());
  megatron.stores.push_back(std::move(pieces));
  return firstTensor;
}

Result<void> carryOriginals(const Checkpoint &megatron, uint32_t first,
                            Target &target, PlanContent &content) {
  const std::vector<StoredTensor> &tensors = megatron.tensors;
  for (size_t at = first; at != tensors.size();) {
    const uint32_t file = tensors[at].pieces.front().file;
    FileOfOriginals originals(megatron, target);
    for (; at != tensors.size() && tensors[at].pieces.front().file == file;
         ++at)
      originals.add(at);
    const std::string &path = megatron.files[file].path;
    if (Result<void> done =
            originals.finish(path.substr(originalsFolder.size() + 1));
        !done)
      return done;
  }
  for (const char *name : {"config.json", "model.safetensors.index.json"})
    content.copies.emplace_back(inFolder(name), inFolder(name));
  return {};
}

std::string weightIndex(const Target &target, size_t firstItem,
                        std::string_view folder) {
  uint64_t total = 0;
  std::string map;
  std::string_view separator = "\n";
  for (size_t i = firstItem; i != target.items.size(); ++i) {
    const TargetItem &item = target.items[i];
    const TargetTensor &tensor = target.tensors[item.tensor];
    total += tensor.shape.elements() * byteSize(tensor.dtype);
    std::string_view path = target.files[item.file].path;
    if (!folder.empty())
      path.remove_prefix(folder.size() + 1);
    map += separator;
    map += "    ";
    appendJsonString(map, tensor.key);
    map += ": ";
    appendJsonString(map, path);
    separator = ",\n";
  }
  return fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n"
                     "  \"weight_map\": {{{}\n  }}\n}}\n",
                     total, map);
}

} // namespace mbc::compiler
