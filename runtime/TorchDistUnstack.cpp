#include "runtime/TorchDistUnstack.h"

#include "runtime/TorchDistNames.h"
#include "runtime/TorchDistReader.h"

#include <algorithm>
#include <unordered_map>

namespace mbc {
namespace {

using Chunk = TorchDistIndex::Chunk;

Shape withoutLeading(const Shape &shape, size_t axes) {
  return Shape(shape.dims().subspan(axes));
}

/// The stored tensors that make up one parameter of one or more layers and
/// experts: one, or one for each section.
struct Parameter {
  KeyForm form;
  std::vector<const TorchDistIndex::Tensor *> parts; ///< in row order
};

/// Turns a parameter into a tensor for each layer and expert.
class Unstacker {
public:
  Unstacker(const std::string &path, const Parameter &parameter,
            HeaderStore &store)
      : path_(path), parameter_(parameter), form_(parameter.form),
        store_(store), axes_(form_.layerAxis + form_.expertAxis) {}

  Result<void> run(std::vector<StoredTensor> &out,
                   std::vector<StoredHole> &holes);

private:
  Result<void> prepare(std::vector<StoredTensor> &tensors);
  void cut(const TorchDistIndex::Tensor &part, int64_t firstRow);
  std::string described(size_t unit, const StoredTensor &tensor) const;

  const std::string &path_;
  const Parameter &parameter_;
  const KeyForm &form_;
  HeaderStore &store_;
  size_t axes_;
  int64_t layers_ = 1, experts_ = 1;
  std::vector<std::vector<StoredPiece>> pieces_; ///< of each layer and expert
};

Result<void> Unstacker::prepare(std::vector<StoredTensor> &tensors) {
  const TorchDistIndex::Tensor &first = *parameter_.parts[0];
  if (first.shape.rank() < axes_)
    return fail("{}: tensor {}: has shape {}, its key needs {} leading axes",
                path_, first.key, toString(first.shape), axes_);
  if (form_.layerAxis)
    layers_ = first.shape[0];
  if (form_.expertAxis)
    experts_ = first.shape[axes_ - 1];
  Shape shape = withoutLeading(first.shape, axes_);
  std::vector<int64_t> sections;
  if (!form_.section.empty()) {
    if (shape.empty())
      return fail("{}: tensor {}: a section without rows", path_, first.key);
    shape[0] = 0;
    for (const TorchDistIndex::Tensor *part : parameter_.parts) {
      if (part->shape.rank() != first.shape.rank() ||
          part->dtype != first.dtype)
        return fail("{}: tensor {}: {} {} does not join {}, which is {} {}",
                    path_, part->key, safetensorsName(part->dtype),
                    toString(part->shape), first.key,
                    safetensorsName(first.dtype), toString(first.shape));
      for (size_t dim = 0; dim != first.shape.rank(); ++dim)
        if (dim != axes_ && part->shape[dim] != first.shape[dim])
          return fail("{}: tensor {}: {} does not join {}, which is {}", path_,
                      part->key, toString(part->shape), first.key,
                      toString(first.shape));
      sections.push_back(part->shape[axes_]);
      shape[0] += part->shape[axes_];
    }
  }
  tensors.resize(static_cast<size_t>(layers_ * experts_));
  pieces_.resize(tensors.size());
  const Shape *kept = store_.keep(shape);
  std::string_view key = store_.keep(first.key);
  std::span<const int64_t> keptSections =
      store_.keep(std::span<const int64_t>(sections));
  for (size_t unit = 0; unit != tensors.size(); ++unit) {
    StoredTensor &tensor = tensors[unit];
    auto number = static_cast<int64_t>(unit);
    std::string name = form_.numbered(number / experts_, number % experts_);
    tensor.name = store_.keep(name);
    tensor.dtype = first.dtype;
    tensor.shape = kept;
    tensor.sections = keptSections;
    if (tensor.name != key)
      tensor.key = key;
  }
  return {};
}

/// A chunk that spans several layers or experts is cut into one piece each:
/// the leading axes are outermost, so each is contiguous.
void Unstacker::cut(const TorchDistIndex::Tensor &part, int64_t firstRow) {
  for (const Chunk &chunk : part.chunks) {
    int64_t layer = form_.layerAxis ? chunk.start[0] : 0;
    int64_t layers = form_.layerAxis ? chunk.shape[0] : 1;
    int64_t expert = form_.expertAxis ? chunk.start[axes_ - 1] : 0;
    int64_t experts = form_.expertAxis ? chunk.shape[axes_ - 1] : 1;
    Shape start = withoutLeading(chunk.start, axes_);
    if (!form_.section.empty())
      start[0] += firstRow;
    StoredPiece piece{chunk.file, chunk.offset, store_.keep(start),
                      store_.keep(withoutLeading(chunk.shape, axes_))};
    uint64_t bytes =
        static_cast<uint64_t>(piece.shape->elements()) * byteSize(part.dtype);
    for (int64_t l = 0; l != layers; ++l)
      for (int64_t e = 0; e != experts; ++e) {
        auto unit = static_cast<size_t>((layer + l) * experts_ + expert + e);
        pieces_[unit].push_back(piece);
        piece.offset += bytes;
      }
  }
}

std::string Unstacker::described(size_t unit,
                                 const StoredTensor &tensor) const {
  auto number = static_cast<int64_t>(unit);
  std::string text = fmt::format("{}: tensor {}: ", path_, tensor.name);
  if (form_.layerAxis)
    text += fmt::format("layer {}, ", number / experts_);
  if (form_.expertAxis)
    text += fmt::format("expert {}, ", number % experts_);
  text.resize(text.size() - 2);
  return text + fmt::format(" (key {})", parameter_.parts[0]->key);
}

Result<void> Unstacker::run(std::vector<StoredTensor> &out,
                            std::vector<StoredHole> &holes) {
  std::vector<StoredTensor> tensors;
  if (auto good = prepare(tensors); !good)
    return good;
  int64_t row = 0;
  for (const TorchDistIndex::Tensor *part : parameter_.parts) {
    cut(*part, row);
    if (!form_.section.empty())
      row += part->shape[axes_];
  }
  for (size_t unit = 0; unit != tensors.size(); ++unit) {
    StoredTensor &tensor = tensors[unit];
    sortPieces(pieces_[unit]);
    tensor.pieces = store_.keep(std::span<const StoredPiece>(pieces_[unit]));
    if (auto good = checkCoverage(tensor, described(unit, tensor), holes);
        !good)
      return good;
    out.push_back(tensor);
  }
  return {};
}

/// Puts the parts in the order of their rows.
Result<void> sortSections(const std::string &path, Parameter &parameter) {
  if (parameter.parts.size() == 1)
    return {};
  std::vector<std::pair<size_t, const TorchDistIndex::Tensor *>> ranked;
  for (const TorchDistIndex::Tensor *part : parameter.parts) {
    std::string section = parseTorchDistKey(part->key).section;
    std::optional<size_t> rank = sectionRank(section);
    if (!rank)
      return fail("{}: tensor {}: the place of its section '{}' among the {} "
                  "sections of {} is not known, so they cannot be joined",
                  path, part->key, section, parameter.parts.size(),
                  parameter.form.name);
    ranked.push_back({*rank, part});
  }
  std::ranges::sort(ranked, {}, [](const auto &entry) { return entry.first; });
  std::ranges::transform(ranked, parameter.parts.begin(),
                         [](const auto &entry) { return entry.second; });
  return {};
}

Result<std::vector<Parameter>> groupSections(const std::string &path,
                                             const TorchDistIndex &index) {
  std::vector<Parameter> parameters;
  std::unordered_map<std::string, size_t> known;
  for (const TorchDistIndex::Tensor &tensor : index.tensors) {
    KeyForm form = parseTorchDistKey(tensor.key);
    auto [place, inserted] = known.try_emplace(form.name, parameters.size());
    if (inserted) {
      parameters.push_back({std::move(form), {&tensor}});
      continue;
    }
    Parameter &parameter = parameters[place->second];
    if (form.section.empty() || parameter.form.section.empty())
      return fail("{}: {} and {} are two names of one tensor; remove one", path,
                  parameter.parts[0]->key, tensor.key);
    parameter.parts.push_back(&tensor);
  }
  for (Parameter &parameter : parameters)
    if (auto sorted = sortSections(path, parameter); !sorted)
      return std::unexpected(sorted.error());
  return parameters;
}

} // namespace

Result<std::vector<StoredTensor>> unstack(const TorchDistIndex &index,
                                          const std::string &path,
                                          HeaderStore &store,
                                          std::vector<StoredHole> &holes) {
  Result<std::vector<Parameter>> parameters = groupSections(path, index);
  if (!parameters)
    return std::unexpected(parameters.error());
  std::vector<StoredTensor> tensors;
  for (const Parameter &parameter : *parameters)
    if (auto good = Unstacker(path, parameter, store).run(tensors, holes);
        !good)
      return std::unexpected(good.error());
  return tensors;
}

} // namespace mbc
