#include "compiler/Target/Target.h"

#include "compiler/Binding/NameGroups.h"
#include "runtime/Safetensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <unordered_set>

namespace mbc::compiler {

namespace {
constexpr uint64_t defaultShardSize =
    5'000'000'000; // as the field's own writers

/// A tensor to write: which output of which instance makes it, or, of a copy,
/// which tensor of the source.
struct Made {
  std::string name;
  DType dtype = DType::BF16;
  Shape shape;
  uint32_t boundClass = 0, row = 0, output = 0;
  Role role = Role::Values;             ///< of the output
  std::optional<SourceRef> source = {}; ///< of a copy
  /// The values whose codes, scales or shape it is; else its own name.
  std::string values = {};
  std::string owner = {}; ///< of a tied copy's values; else `values`
  uint32_t file = 0;

  uint64_t bytes() const { return shape.elements() * byteSize(dtype); }
};

class SafetensorsPlacer {
public:
  SafetensorsPlacer(const TargetInput &input, const SplitOptions &split)
      : input(input), split(split) {}

  Result<Target> place() {
    collect();
    if (Result<void> placed = chooseFiles(); !placed)
      return std::unexpected(placed.error());
    if (Result<void> laidOut = layoutFiles(); !laidOut)
      return std::unexpected(laidOut.error());
    fillClasses();
    return std::move(target);
  }

private:
  void collect() {
    std::vector<InstancePlace> places =
        placesOfInstances(input.model, input.binding);
    for (uint32_t i = 0; i != places.size(); ++i) {
      if (places[i].boundClass == UINT32_MAX)
        continue;
      const FusedClass &fused = input.program.classes[places[i].boundClass];
      for (uint32_t o = 0; o != fused.outputs.size(); ++o) {
        const FusedOutput &output = fused.outputs[o];
        const std::string &name = input.model.instances[i].hf[output.operand];
        Made one{name,          output.dtype,
                 output.shape,  places[i].boundClass,
                 places[i].row, o};
        one.owner = name;
        add(one);
        for (const auto &[copy, owner] : split.copies)
          if (owner == name) {
            one.name = copy;
            add(one);
          }
      }
    }
  }

  /// A tensor, or the codes and scales that its values leave as.
  void add(Made one) {
    one.values = one.name;
    const std::optional<Encoding> &encoding = encodingOf(one);
    if (!encoding) {
      made.push_back(std::move(one));
      return;
    }
    Shape values = one.shape;
    one.name = codesName(*encoding, one.values);
    one.dtype = encoding->storedCodes;
    one.shape = codesShape(*encoding, values);
    made.push_back(one);
    one.name = scalesName(*encoding, one.values);
    one.dtype = encoding->storedScale;
    one.shape = scalesShape(*encoding, values);
    one.role = Role::Scales;
    made.push_back(one);
    if (encoding->scale.tensor != TensorScale::None) {
      one.name = tensorScaleName(*encoding, one.values);
      one.dtype = DType::F32;
      one.shape = encoding->tensorScale;
      one.role = Role::TensorScale;
      made.push_back(one);
    }
    addBeside(one);
  }

  /// What else stands beside the originals.
  void addBeside(Made one) {
    const QuantizedTargets::Originals *originals =
        split.quantized->originalsOf(one.values); // copies have none
    if (!originals)
      return;
    for (uint32_t tensor : originals->beside) {
      one.source = {split.firstOriginal + tensor, 0};
      const StoredTensor &stored =
          split.checkpoint->tensors[one.source->tensor];
      one.name = stored.name;
      one.dtype = stored.dtype;
      one.shape = *stored.shape;
      made.push_back(one);
    }
  }

  const std::optional<Encoding> &encodingOf(const Made &one) const {
    const FusedOutput &output =
        input.program.classes[one.boundClass].outputs[one.output];
    return input.binding.classes[one.boundClass]
        .type.hf[output.operand]
        .encoding;
  }

  /// The record's files and order while they still fit; else files by size,
  /// in the order of the rules.
  Result<void> chooseFiles() {
    bool recorded = split.record && split.maxShardSize == 0 && recordFits();
    order.resize(made.size());
    std::iota(order.begin(), order.end(), 0u);
    if (recorded) {
      useRecordedFiles();
      return {};
    }
    uint64_t limit =
        split.maxShardSize != 0 ? split.maxShardSize : defaultShardSize;
    uint64_t filled = 0;
    uint32_t file = 0;
    for (Made &tensor : made) {
      if (filled != 0 && filled + tensor.bytes() > limit) {
        ++file;
        filled = 0;
      }
      tensor.file = file;
      filled += tensor.bytes();
    }
    uint32_t count = made.empty() ? 0 : file + 1;
    for (uint32_t f = 0; f != count; ++f)
      target.files.push_back(
          {count == 1
               ? "model.safetensors"
               : fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, count),
           0,
           {}});
    return {};
  }

  /// What the record says of a tensor; of codes, and of scales that it does not
  /// know, what it says of their values.
  const RecordedTensor *recordOf(const Made &tensor) const {
    const RecordedTensor *known = split.record->find(tensor.name);
    return known ? known : split.record->find(tensor.values);
  }

  /// Whether every tensor has a file in the record; says what does not fit.
  bool recordFits() {
    std::vector<std::string> unknown, unmade;
    std::unordered_set<std::string_view> names;
    for (const Made &tensor : made) {
      names.insert(tensor.name);
      names.insert(tensor.values);
      const RecordedTensor *known = recordOf(tensor);
      if (!known || !isPlainName(known->file))
        unknown.push_back(tensor.name);
    }
    for (const RecordedTensor &tensor : split.record->tensors)
      if (!names.contains(tensor.name) && split.record->returns(tensor.name))
        unmade.push_back(tensor.name);
    for (const NameGroup &group : groupNames(unmade))
      target.notes.push_back(group.text +
                             " was in the imported checkpoint, and "
                             "is not made again");
    for (const NameGroup &group : groupNames(unknown))
      target.notes.push_back(group.text + " has no file in mbc/record.json; "
                                          "the files are cut by size");
    return unknown.empty();
  }

  static bool isPlainName(const std::string &file) {
    return file.ends_with(".safetensors") && !file.contains('/') &&
           !file.starts_with('.');
  }

  void useRecordedFiles() {
    const Record &record = *split.record;
    auto position = [&](uint32_t i) {
      return recordOf(made[i]) - record.tensors.data();
    };
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return position(a) < position(b);
    });
    std::unordered_map<std::string_view, uint32_t> ids;
    for (uint32_t i : order) {
      const std::string &file = recordOf(made[i])->file;
      auto [it, isNew] = ids.try_emplace(file, target.files.size());
      if (isNew)
        target.files.push_back({file, 0, {}});
      made[i].file = it->second;
    }
  }

  Result<void> layoutFiles() {
    std::vector<std::vector<uint32_t>> tensorsOfFile(target.files.size());
    for (uint32_t i : order)
      tensorsOfFile[made[i].file].push_back(i);
    itemOf.resize(made.size());
    for (uint32_t f = 0; f != target.files.size(); ++f) {
      std::vector<SafetensorsEntry> entries;
      for (uint32_t i : tensorsOfFile[f])
        entries.push_back({made[i].name, made[i].dtype, made[i].shape});
      Result<SafetensorsHeader> header = layoutSafetensors(entries);
      if (!header)
        return std::unexpected(header.error());
      target.files[f].literal = header->bytes;
      target.files[f].size = header->fileSize;
      for (size_t k = 0; k != entries.size(); ++k)
        addItem(tensorsOfFile[f][k], f, std::move(entries[k]),
                header->offsets[k]);
    }
    return {};
  }

  void addItem(uint32_t index, uint32_t file, SafetensorsEntry entry,
               uint64_t offset) {
    itemOf[index] = target.items.size();
    target.items.push_back({file, static_cast<uint32_t>(target.tensors.size()),
                            0, static_cast<uint32_t>(target.starts.size()),
                            offset});
    for (size_t dim = 0; dim != entry.shape.rank(); ++dim)
      target.starts.push_back(0);
    target.tensors.push_back({std::move(entry.name), entry.dtype, entry.shape});
  }

  /// `made` is in the order of instances and outputs; a class's rows are too.
  void fillClasses() {
    target.classes.resize(input.binding.classes.size());
    for (uint32_t i = 0; i != made.size(); ++i) {
      const Made &one = made[i];
      if (one.source) {
        addCopy(target, one.dtype, one.shape, *one.source, itemOf[i]);
        continue;
      }
      PlacedClass &placed = target.classes[one.boundClass];
      if (one.row == 0)
        placed.outputs.push_back({one.output, one.role});
      placed.items.push_back(itemOf[i]);
      if (one.role == Role::Values)
        addOriginals(one, placed);
    }
  }

  void addOriginals(const Made &one, PlacedClass &placed) const {
    const std::optional<Encoding> &encoding = encodingOf(one);
    if (!encoding || !encoding->hasOriginals)
      return;
    const auto &originals = *split.quantized->originalsOf(one.owner);
    for (uint32_t tensor :
         {originals.codes, originals.scales, originals.tensorScale})
      if (tensor != Checkpoint::none)
        placed.originals.push_back({split.firstOriginal + tensor, 0});
  }

  const TargetInput &input;
  const SplitOptions &split;
  std::vector<Made> made;
  std::vector<uint32_t> order; ///< of the files
  std::vector<uint32_t> itemOf;
  Target target;
};
} // namespace

Result<Target> placeSafetensors(const TargetInput &input,
                                const SplitOptions &split) {
  return SafetensorsPlacer(input, split).place();
}

} // namespace mbc::compiler
