#include "runtime/HfDirectory.h"

#include "runtime/File.h"
#include "runtime/HfIndex.h"
#include "runtime/Safetensors.h"
#include "runtime/TorchFile.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

namespace mbc {
namespace {

namespace fs = std::filesystem;

/// How the weights of a directory are stored.
struct WeightKind {
  std::string_view prefix, suffix; ///< of the files' names
  std::string_view single;         ///< the file of a model that has one
  std::string_view index;
  bool isStateDict = false; ///< written by torch.save
};
constexpr WeightKind safetensors{"", ".safetensors", "model.safetensors",
                                 "model.safetensors.index.json"};
constexpr WeightKind stateDicts{"pytorch_model", ".bin", "pytorch_model.bin",
                                "pytorch_model.bin.index.json", true};

bool isOf(const WeightKind &kind, std::string_view name) {
  return name == kind.index ||
         (name.starts_with(kind.prefix) && name.ends_with(kind.suffix));
}

bool isWeightFile(std::string_view name) {
  constexpr std::array<std::string_view, 9> suffixes = {
      ".safetensors", ".bin",     ".pt", ".pth", ".ckpt",
      ".gguf",        ".msgpack", ".h5", ".onnx"};
  for (std::string_view suffix : suffixes)
    if (name.ends_with(suffix))
      return true;
  return false;
}

Result<std::vector<std::string>> listFiles(const std::string &directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    std::string name = it->path().filename().string();
    if (name.front() != '.' && it->is_regular_file(ignored))
      names.push_back(std::move(name));
  }
  if (error)
    return fail("{}: cannot list the directory: {}", directory,
                error.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// What is there; safetensors where both are.
const WeightKind &kindOf(const std::vector<std::string> &names) {
  for (const WeightKind *kind : {&safetensors, &stateDicts})
    for (const std::string &name : names)
      if (isOf(*kind, name))
        return *kind;
  return safetensors;
}

/// Without an index: the files of the kind, which must be all of a set
/// `...-00001-of-00003.safetensors` if they are named like one.
Result<std::vector<std::string>>
weightFilesWithoutIndex(const std::string &directory, const WeightKind &kind,
                        const std::vector<std::string> &names) {
  std::vector<std::string> files;
  std::map<std::string, std::pair<long, long>> sets; // stem -> found, announced
  for (const std::string &name : names) {
    if (name == kind.single)
      return std::vector<std::string>{name};
    if (!isOf(kind, name))
      continue;
    files.push_back(name);
    if (size_t of = name.rfind("-of-"); of != std::string::npos && of >= 6) {
      long count = 0;
      std::from_chars(name.data() + of + 4, name.data() + name.size(), count);
      auto &set = sets[name.substr(0, of - 6)];
      ++set.first;
      set.second = std::max(set.second, count);
    }
  }
  for (const auto &[stem, set] : sets)
    if (set.first != set.second)
      return fail("{}: has {} of the {} files {}-*{}, and no {}", directory,
                  set.first, set.second, stem, kind.suffix, kind.index);
  if (files.empty())
    return fail("{}: has neither *.safetensors nor pytorch_model*.bin (other "
                "weight formats are not read: save the model as safetensors)",
                directory);
  return files;
}

/// Reads headers of either kind; not thread-safe.
class HeaderReader {
public:
  Result<std::vector<StoredTensor>> read(const InputFile &file, uint32_t number,
                                         const WeightKind &kind) {
    return kind.isStateDict ? readStateDict(file, number)
                            : safetensors_.read(file, number);
  }

  /// What the tensors point to.
  std::vector<std::shared_ptr<const HeaderStore>> stores() const {
    return {safetensors_.store(), store_};
  }

private:
  Result<std::vector<StoredTensor>> readStateDict(const InputFile &file,
                                                  uint32_t number) {
    Result<std::vector<TorchTensor>> tensors = mbc::readStateDict(file);
    if (!tensors)
      return std::unexpected(tensors.error());
    std::vector<StoredTensor> stored;
    for (const TorchTensor &tensor : *tensors) {
      StoredTensor &added = stored.emplace_back();
      added.name = store_->keep(std::string_view(tensor.name));
      added.shape = store_->keep(tensor.shape);
      added.dtype = tensor.dtype;
      StoredPiece piece{number, tensor.offset,
                        store_->keep(Shape::zeros(tensor.shape.rank())),
                        added.shape};
      if (!tensor.order.empty())
        added.order = store_->keep(tensor.order);
      added.pieces = store_->keep(std::span(&std::as_const(piece), 1));
    }
    return stored;
  }

  SafetensorsReader safetensors_;
  std::shared_ptr<HeaderStore> store_ = std::make_shared<HeaderStore>();
};

/// Opens the files and reads their headers side by side; the first failure in
/// the order of the files is returned.
Result<void> readHeaders(Checkpoint &checkpoint, const WeightKind &kind,
                         const std::vector<std::string> &files) {
  std::vector<Result<std::vector<StoredTensor>>> read(files.size());
  checkpoint.files.resize(files.size());
  tbb::enumerable_thread_specific<HeaderReader> readers;
  tbb::parallel_for(size_t{0}, files.size(), [&](size_t i) {
    Result<InputFile> file =
        InputFile::open(joinPath(checkpoint.root, files[i]));
    if (!file) {
      read[i] = std::unexpected(file.error());
      return;
    }
    checkpoint.files[i] = {files[i], file->size()};
    read[i] = readers.local().read(*file, static_cast<uint32_t>(i), kind);
  });
  for (const HeaderReader &reader : readers)
    for (auto &store : reader.stores())
      checkpoint.stores.push_back(std::move(store));
  size_t count = 0;
  for (auto &tensors : read) {
    if (!tensors)
      return std::unexpected(tensors.error());
    count += tensors->size();
  }
  checkpoint.tensors.reserve(count);
  for (auto &tensors : read) {
    checkpoint.tensors.insert(checkpoint.tensors.end(), tensors->begin(),
                              tensors->end());
    *tensors = {}; // there may be half a million
  }
  return {};
}

const std::string &fileOf(const Checkpoint &checkpoint, uint32_t tensor) {
  return checkpoint.files[checkpoint.tensors[tensor].pieces[0].file].path;
}

/// Every name is there once; the first second use is what is reported.
Result<void> checkNames(const Checkpoint &checkpoint) {
  uint32_t first = 0, second = Checkpoint::none;
  for (uint32_t i = 0; i != checkpoint.tensors.size(); ++i)
    if (checkpoint.next(i) < second) {
      first = i;
      second = checkpoint.next(i);
    }
  if (second == Checkpoint::none)
    return {};
  std::string_view name = checkpoint.tensors[first].name;
  const std::string &a = fileOf(checkpoint, first),
                    &b = fileOf(checkpoint, second);
  if (a == b)
    return fail("{}: tensor {}: is in the header twice",
                joinPath(checkpoint.root, a), name);
  return fail("{}: tensor {}: is in two files, {} and {}; remove one",
              checkpoint.root, name, a, b);
}

/// Appends "item" to a list that shows at most twenty.
void addToList(std::string &list, size_t &count, const std::string &item) {
  if (count < 20)
    (list += list.empty() ? "" : ", ") += item;
  ++count;
}

std::string withCount(const std::string &list, size_t count) {
  return count > 20 ? fmt::format("{} and {} more", list, count - 20) : list;
}

Result<void> compareWithIndex(Checkpoint &checkpoint, const HfIndex &index,
                              std::string_view indexName) {
  std::string wrong, unlisted;
  size_t wrongCount = 0, unlistedCount = 0;
  std::vector<bool> listed(checkpoint.tensors.size());
  for (const HfIndex::Entry &entry : index.entries) {
    std::string_view name = entry.tensor;
    uint32_t found = checkpoint.find(name);
    const std::string &file = index.files[entry.file];
    if (found == Checkpoint::none) {
      addToList(wrong, wrongCount,
                fmt::format("{} (listed in {}, in no file)", name, file));
      continue;
    }
    listed[found] = true;
    if (checkpoint.tensors[found].pieces[0].file != entry.file)
      addToList(wrong, wrongCount,
                fmt::format("{} (listed in {}, found in {})", name, file,
                            fileOf(checkpoint, found)));
  }
  if (wrongCount != 0)
    return fail("{}: disagrees with the files about {} tensor{}: {}",
                joinPath(checkpoint.root, indexName), wrongCount,
                wrongCount == 1 ? "" : "s", withCount(wrong, wrongCount));
  for (uint32_t i = 0; i != listed.size(); ++i)
    if (!listed[i])
      addToList(unlisted, unlistedCount,
                fmt::format("{} ({})", checkpoint.tensors[i].name,
                            fileOf(checkpoint, i)));
  if (unlistedCount != 0)
    checkpoint.notes.push_back(fmt::format(
        "{} does not list {} tensor{} that the files hold, used all the same: "
        "{}.",
        indexName, unlistedCount, unlistedCount == 1 ? "" : "s",
        withCount(unlisted, unlistedCount)));
  return {};
}

Result<void> checkNamedFiles(const std::string &directory,
                             std::string_view indexName, const HfIndex &index) {
  for (uint32_t i = 0; i != index.files.size(); ++i) {
    std::error_code error;
    fs::file_status status =
        fs::status(joinPath(directory, index.files[i]), error);
    if (status.type() == fs::file_type::regular)
      continue;
    auto entry = std::find_if(index.entries.begin(), index.entries.end(),
                              [&](const auto &e) { return e.file == i; });
    return fail("{}: tensor {}: the file \"{}\" {}",
                joinPath(directory, indexName), entry->tensor, index.files[i],
                status.type() == fs::file_type::directory ? "is a directory"
                                                          : "does not exist");
  }
  return {};
}

} // namespace

Result<std::vector<std::string>> listSidecars(const std::string &directory) {
  Result<std::vector<std::string>> names = listFiles(directory);
  if (!names)
    return names;
  std::erase_if(*names, [](const std::string &name) {
    return isWeightFile(name) || name.ends_with(".index.json") ||
           name == "config.json" || name == "README.md";
  });
  return names;
}

Result<Checkpoint> openHfDirectory(const std::string &directory) {
  Checkpoint checkpoint;
  checkpoint.format = Format::Safetensors;
  checkpoint.root = directory;
  Result<std::string> config =
      readWholeFile(joinPath(directory, "config.json"));
  if (!config)
    return std::unexpected(config.error());
  checkpoint.configJson = std::move(*config);
  Result<std::vector<std::string>> names = listFiles(directory);
  Result<std::vector<std::string>> sidecars = listSidecars(directory);
  if (!names || !sidecars)
    return std::unexpected(names ? sidecars.error() : names.error());
  checkpoint.sidecars = std::move(*sidecars);

  const WeightKind &kind = kindOf(*names);
  std::optional<HfIndex> index;
  std::vector<std::string> files;
  if (std::string path = joinPath(directory, kind.index); fs::exists(path)) {
    Result<HfIndex> read = readHfIndex(path, kind.suffix);
    if (!read)
      return std::unexpected(read.error());
    if (auto good = checkNamedFiles(directory, kind.index, *read); !good)
      return std::unexpected(good.error());
    files = read->files;
    index = std::move(*read);
    for (const std::string &name : *names)
      if (name != kind.index && isOf(kind, name) &&
          std::find(files.begin(), files.end(), name) == files.end())
        checkpoint.notes.push_back(fmt::format(
            "{} is not named by {} and was not read.", name, kind.index));
  } else {
    auto found = weightFilesWithoutIndex(directory, kind, *names);
    if (!found)
      return std::unexpected(found.error());
    files = std::move(*found);
  }

  if (auto read = readHeaders(checkpoint, kind, files); !read)
    return std::unexpected(read.error());
  checkpoint.indexNames();
  if (auto good = checkNames(checkpoint); !good)
    return std::unexpected(good.error());
  if (index)
    if (auto good = compareWithIndex(checkpoint, *index, kind.index); !good)
      return std::unexpected(good.error());
  return checkpoint;
}

} // namespace mbc
