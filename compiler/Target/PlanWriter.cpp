#include "compiler/Target/PlanWriter.h"

#include "compiler/PairedRows.h"
#include "compiler/Target/SourceHeaders.h"
#include "runtime/Plan.h"

#include <fmt/format.h>

namespace mbc::compiler {

namespace fb = flatbuffers;

namespace {
/// Room for a plan, which has some 500 bytes for each source tensor. Pages that
/// are not used cost nothing; growing copies all.
size_t initialBytes(const Checkpoint &checkpoint) {
  return (size_t{16} << 20) + 600 * checkpoint.tensors.size();
}

class PlanWriter {
public:
  PlanWriter(const PlanContent &content, const Checkpoint &checkpoint,
             const Binding &binding, const TensorProgram &program,
             const Target &target)
      : content(content), checkpoint(checkpoint), binding(binding),
        program(program), target(target), builder(initialBytes(checkpoint)) {}

  Result<fb::DetachedBuffer> write() {
    Result<std::vector<SourceFile>> files =
        readSourceFiles(checkpoint, content.inputs);
    if (!files)
      return std::unexpected(files.error());
    sourceFiles = std::move(*files);
    // A FlatBuffer is written from its end, and the seal comes after it.
    std::string seal = planSeal({});
    builder.PushBytes(reinterpret_cast<const uint8_t *>(seal.data()),
                      seal.size());
    numberSources();
    std::vector<fb::Offset<plan::Class>> classes;
    for (size_t c = 0; c != binding.classes.size(); ++c) {
      size_t expected = binding.classes[c].instances.size() *
                        target.classes[c].outputs.size();
      if (target.classes[c].items.size() != expected)
        return fail("the rule at {} makes {} tensors where {} have a place",
                    placeOf(binding.classes[c]), expected,
                    target.classes[c].items.size());
      classes.push_back(writeClass(c));
    }
    for (const PlacedCopies &copies : target.copies)
      classes.push_back(writeCopies(copies));
    finish(classes);
    std::span<uint8_t> bytes(builder.GetBufferPointer(),
                             builder.GetSize() - seal.size());
    if (bytes.size() > 0x7fffffffu)
      return fail("the plan takes {} bytes, more than the 2 GiB of its format",
                  bytes.size());
    seal = planSeal(bytes);
    std::copy(seal.begin(), seal.end(), bytes.end());
    return builder.Release();
  }

private:
  /// Every piece of every tensor that is used gets a number.
  void numberSources() {
    uint32_t pieces = 0;
    firstPiece.reserve(checkpoint.tensors.size());
    for (const StoredTensor &tensor : checkpoint.tensors) {
      firstPiece.push_back(pieces);
      pieces += tensor.pieces.size();
    }
    sourceOfPiece.assign(pieces, UINT32_MAX);
    for (const BoundClass &bound : binding.classes)
      for (const SourceRef &ref : bound.refs)
        number(ref);
    for (const PlacedClass &placed : target.classes)
      for (const SourceRef &ref : placed.originals)
        number(ref);
    for (const PlacedCopies &copies : target.copies)
      for (const SourceRef &ref : copies.sources)
        number(ref);
    for (const BoundComparison &comparison : binding.comparisons) {
      number(comparison.copy);
      if (comparison.hasOwner)
        number(comparison.owner);
    }
  }

  uint32_t &sourceOf(const SourceRef &ref) {
    return sourceOfPiece[firstPiece[ref.tensor] + ref.piece];
  }

  void number(const SourceRef &ref) {
    uint32_t &source = sourceOf(ref);
    if (source != UINT32_MAX)
      return;
    source = sources.size();
    const StoredTensor &tensor = checkpoint.tensors[ref.tensor];
    const StoredPiece &piece = tensor.pieces[ref.piece];
    sources.push_back(plan::Source(piece.file, piece.offset));
    // Codes have their file's name: the plan's reader finds their values again.
    bool codes =
        checkpoint.format == Format::Safetensors && !tensor.key.empty();
    std::string_view name = codes ? tensor.key : tensor.name;
    std::string_view rank = tensor.rank;
    names.push_back(rank.empty() ? builder.CreateString(name)
                                 : builder.CreateString(
                                       fmt::format("{} ({})", name, rank)));
  }

  static std::string placeOf(const BoundClass &bound) {
    const dsl::SourceRange &where = bound.type.mapping->where;
    if (!where.file)
      return "the spec";
    std::string path = where.file->path;
    return fmt::format("{}:{}:{}", path.substr(path.rfind('/') + 1), where.line,
                       where.column);
  }

  fb::Offset<plan::Class> writeClass(size_t index) {
    const BoundClass &bound = binding.classes[index];
    const FusedClass &fused = program.classes[index];
    const PlacedClass &placed = target.classes[index];
    std::vector<fb::Offset<plan::Input>> inputs;
    for (const FusedInput &input : fused.inputs)
      inputs.push_back(writeInput(bound.refs[refOf(input, bound)], input.dtype,
                                  input.elements));
    std::vector<fb::Offset<plan::Output>> outputs;
    std::vector<fb::Offset<plan::Output>> written(fused.outputs.size());
    for (const PlacedOutput &output : placed.outputs) {
      const OperandType &operand =
          targetOperands(bound)[fused.outputs[output.index].operand];
      if (output.role != Role::Values) {
        outputs.push_back(writeCompanion(operand, output.role));
        continue;
      }
      fb::Offset<plan::Encoding> encoding;
      if (operand.encoding)
        encoding = writeEncoding(operand, placed, fused.inputs.size(), inputs);
      fb::Offset<plan::Output> &made = written[output.index];
      if (made.IsNull() || operand.encoding)
        made = writeOutput(fused.outputs[output.index],
                           leadingAxes(index, output.index), encoding);
      outputs.push_back(made);
    }
    return plan::CreateClass(
        builder, builder.CreateString(bound.type.mapping->label),
        builder.CreateString(placeOf(bound)), builder.CreateVector(inputs),
        builder.CreateVector(outputs),
        builder.CreateVector(sourceRows(bound, fused, placed)),
        builder.CreateVector(placed.items));
  }

  /// Tensors that are written as they stand.
  fb::Offset<plan::Class> writeCopies(const PlacedCopies &copies) {
    FusedOutput output;
    output.shape = copies.shape;
    output.dtype = copies.dtype;
    int64_t elements = copies.shape.elements();
    Box &box = output.boxes.emplace_back();
    box.dims.push_back({elements, 1, 1});
    std::vector<uint32_t> rows;
    for (const SourceRef &ref : copies.sources)
      rows.push_back(sourceOf(ref));
    auto input = writeInput(copies.sources.front(), copies.dtype, elements);
    auto written = writeOutput(output, 0, 0);
    return plan::CreateClass(
        builder, builder.CreateString("originals of quantised tensors"),
        builder.CreateString("--quant keep"), builder.CreateVector(&input, 1),
        builder.CreateVector(&written, 1), builder.CreateVector(rows),
        builder.CreateVector(copies.items));
  }

  /// The encoding of an output, whose originals become inputs after the
  /// `others`.
  fb::Offset<plan::Encoding>
  writeEncoding(const OperandType &operand, const PlacedClass &placed,
                size_t others, std::vector<fb::Offset<plan::Input>> &inputs) {
    const Encoding &encoding = *operand.encoding;
    int32_t codes = -1, scales = -1, tensorScale = -1;
    if (encoding.hasOriginals) {
      // Of the first instance, in the order of the outputs.
      const SourceRef *refs = &placed.originals[inputs.size() - others];
      codes = static_cast<int32_t>(inputs.size());
      scales = codes + 1;
      inputs.push_back(
          writeInput(refs[0], encoding.codes, operand.shape.elements()));
      inputs.push_back(writeInput(refs[1], encoding.scale.dtype,
                                  encoding.scaleTensor.elements()));
      if (encoding.scale.tensor != TensorScale::None) {
        tensorScale = scales + 1;
        inputs.push_back(writeInput(refs[2], DType::F32, 1));
      }
    }
    return plan::CreateEncoding(
        builder, static_cast<uint8_t>(encoding.codes),
        static_cast<uint8_t>(encoding.scale.dtype),
        codeColumns(operand.shape, encoding.scale), encoding.scale.blockRows,
        encoding.scale.blockColumns, codes, scales,
        static_cast<uint8_t>(encoding.scale.tensor), tensorScale);
  }

  fb::Offset<plan::Output> writeCompanion(const OperandType &operand,
                                          Role role) {
    FusedOutput output;
    output.shape = role == Role::Scales
                       ? scalesShape(*operand.encoding, operand.shape)
                       : operand.encoding->tensorScale;
    output.dtype =
        role == Role::Scales ? operand.encoding->scale.dtype : DType::F32;
    return writeOutput(output, 0, 0, role);
  }

  const std::vector<OperandType> &
  sourceOperands(const BoundClass &bound) const {
    return binding.direction == Direction::Export ? bound.type.megatron
                                                  : bound.type.hf;
  }

  const std::vector<OperandType> &
  targetOperands(const BoundClass &bound) const {
    return binding.direction == Direction::Export ? bound.type.hf
                                                  : bound.type.megatron;
  }

  /// Where an input's reference stands among those of an instance.
  uint32_t refOf(const FusedInput &input, const BoundClass &bound) const {
    const std::vector<OperandType> &operands = sourceOperands(bound);
    uint32_t at = 0;
    for (uint32_t k = 0; k != input.operand; ++k)
      at += std::max<size_t>(operands[k].parts.size(), 1) +
            operands[k].companions();
    size_t parts = std::max<size_t>(operands[input.operand].parts.size(), 1);
    return at + (input.role == Role::Values   ? input.part
                 : input.role == Role::Scales ? parts
                                              : parts + 1);
  }

  fb::Offset<plan::Input> writeInput(const SourceRef &ref, DType dtype,
                                     int64_t elements) {
    const StoredTensor &tensor = checkpoint.tensors[ref.tensor];
    const StoredPiece &piece = tensor.pieces[ref.piece];
    auto vector = [&](const Shape &shape) {
      return builder.CreateVector(shape.begin(), shape.rank());
    };
    return plan::CreateInput(builder, static_cast<uint8_t>(dtype), elements,
                             vector(*piece.shape), vector(*piece.start),
                             vector(*tensor.shape),
                             static_cast<uint8_t>(tensor.dtype),
                             tensor.order ? vector(*tensor.order) : 0);
  }

  /// instances x inputs: which source each input of each instance is.
  std::vector<uint32_t> sourceRows(const BoundClass &bound,
                                   const FusedClass &fused,
                                   const PlacedClass &placed) {
    std::vector<uint32_t> at;
    for (const FusedInput &input : fused.inputs)
      at.push_back(refOf(input, bound));
    size_t originals = placed.originals.size() / bound.instances.size();
    std::vector<uint32_t> rows;
    rows.reserve(bound.instances.size() * (at.size() + originals));
    for (size_t row = 0; row != bound.instances.size(); ++row) {
      for (uint32_t index : at)
        rows.push_back(
            sourceOf(bound.refs[row * bound.refsPerInstance + index]));
      for (size_t index = 0; index != originals; ++index)
        rows.push_back(sourceOf(placed.originals[row * originals + index]));
    }
    return rows;
  }

  /// `leading`: axes of extent 1 that come before the output's own, as stored.
  fb::Offset<plan::Output> writeOutput(const FusedOutput &output,
                                       size_t leading,
                                       fb::Offset<plan::Encoding> encoding,
                                       Role role = Role::Values) {
    std::vector<fb::Offset<plan::Box>> boxes;
    for (const Box &box : output.boxes) {
      std::vector<plan::Dim> dims;
      for (const BoxDim &dim : box.dims)
        dims.push_back(plan::Dim(dim.count, dim.source, dim.target));
      boxes.push_back(plan::CreateBox(
          builder, box.input, box.sourceOffset, box.targetOffset,
          builder.CreateVectorOfStructs(dims), box.fill));
    }
    std::vector<fb::Offset<plan::Scales>> scales;
    for (size_t input = 0; input != output.scales.size(); ++input)
      if (const std::optional<InputScales> &scale = output.scales[input])
        scales.push_back(plan::CreateScales(
            builder, scale->input, scale->columns, scale->scaleColumns,
            scale->blockRows, scale->blockColumns, input,
            scale->tensorScale ? static_cast<int32_t>(*scale->tensorScale)
                               : -1));
    std::vector<int64_t> shape(leading, 1);
    shape.insert(shape.end(), output.shape.begin(), output.shape.end());
    return plan::CreateOutput(builder, static_cast<uint8_t>(output.dtype),
                              builder.CreateVector(shape),
                              output.shape.elements(),
                              builder.CreateVector(boxes), output.kernel,
                              builder.CreateVector(scales), encoding,
                              role == Role::Scales, role == Role::TensorScale);
  }

  /// A torch_dist chunk has the layer and expert axes of its key in front.
  size_t leadingAxes(size_t index, uint32_t output) const {
    if (binding.direction == Direction::Export)
      return 0;
    const PlacedClass &placed = target.classes[index];
    for (size_t k = 0; k != placed.outputs.size(); ++k)
      if (placed.outputs[k].index == output)
        return target.tensors[target.items[placed.items[k]].tensor]
                   .shape.rank() -
               program.classes[index].outputs[output].shape.rank();
    return 0;
  }

  std::vector<fb::Offset<fb::String>>
  stringsOf(const std::vector<std::string> &list) {
    std::vector<fb::Offset<fb::String>> strings;
    for (const std::string &text : list)
      strings.push_back(builder.CreateString(text));
    return strings;
  }

  fb::Offset<fb::Vector<uint8_t>> bytesOf(const std::string &bytes) {
    return builder.CreateVector(reinterpret_cast<const uint8_t *>(bytes.data()),
                                bytes.size());
  }

  fb::Offset<plan::Comparison>
  shapeComparison(const BoundComparison &comparison) {
    auto shape =
        builder.CreateVector(comparison.shape.begin(), comparison.shape.rank());
    plan::ComparisonBuilder written(builder);
    written.add_first(sourceOf(comparison.copy));
    written.add_second(sourceOf(comparison.owner));
    written.add_bytes(comparison.bytes);
    written.add_shape(shape);
    return written.Finish();
  }

  std::vector<fb::Offset<plan::Comparison>> comparisons() {
    std::vector<fb::Offset<plan::Comparison>> written;
    for (const BoundComparison &comparison : binding.comparisons) {
      int64_t copy = sourceOf(comparison.copy);
      if (!comparison.shape.empty()) {
        written.push_back(shapeComparison(comparison));
        continue;
      }
      auto copyName = builder.CreateString(comparison.copyName);
      if (!comparison.hasOwner) {
        written.push_back(plan::CreateComparison(
            builder, copy, -1, comparison.bytes, comparison.rowBytes, copyName,
            0, comparison.copyOffset, 0, comparison.required));
        continue;
      }
      int64_t owner = sourceOf(comparison.owner);
      written.push_back(plan::CreateComparison(
          builder, owner, copy, comparison.bytes, comparison.rowBytes,
          builder.CreateString(comparison.ownerName), copyName,
          comparison.ownerOffset, comparison.copyOffset));
    }
    return written;
  }

  void finish(const std::vector<fb::Offset<plan::Class>> &classes) {
    std::vector<fb::Offset<plan::SourceFile>> sourceFilesWritten;
    for (const SourceFile &file : sourceFiles)
      sourceFilesWritten.push_back(
          plan::CreateSourceFile(builder, builder.CreateString(file.path),
                                 file.size, file.header, file.crc));
    std::vector<fb::Offset<plan::TargetTensor>> tensors;
    for (const TargetTensor &tensor : target.tensors)
      tensors.push_back(plan::CreateTargetTensor(
          builder, builder.CreateString(tensor.key),
          static_cast<uint8_t>(tensor.dtype),
          builder.CreateVector(tensor.shape.begin(), tensor.shape.rank())));
    std::vector<plan::Item> items;
    items.reserve(target.items.size());
    for (const TargetItem &item : target.items)
      items.push_back(plan::Item(item.file, item.tensor, item.rank, item.start,
                                 item.offset));
    std::vector<fb::Offset<plan::TargetFile>> files;
    for (const TargetFile &file : target.files)
      files.push_back(
          plan::CreateTargetFile(builder, builder.CreateString(file.path),
                                 file.size, bytesOf(file.literal), file.plain));
    std::vector<fb::Offset<plan::Sidecar>> sidecars;
    for (const PlanSidecar &sidecar : content.sidecars)
      sidecars.push_back(plan::CreateSidecar(
          builder, builder.CreateString(sidecar.path), bytesOf(sidecar.bytes),
          sidecar.object.empty() ? 0 : builder.CreateString(sidecar.object)));
    std::vector<fb::Offset<plan::SidecarCopy>> copies;
    for (const auto &[source, copied] : content.copies)
      copies.push_back(plan::CreateSidecarCopy(
          builder, builder.CreateString(source), builder.CreateString(copied)));
    std::vector<fb::Offset<plan::Kernel>> kernels;
    for (const std::string &symbol : program.kernels)
      kernels.push_back(
          plan::CreateKernel(builder, builder.CreateString(symbol)));
    std::vector<fb::Offset<plan::DeviceModule>> deviceModules;
    for (const DeviceModule &module : program.deviceModules)
      deviceModules.push_back(
          plan::CreateDeviceModule(builder, module.capability, module.driver,
                                   builder.CreateString(module.ptx)));

    // Vectors first: a table is not open while its parts are written.
    auto family = builder.CreateString(content.family);
    auto summary = builder.CreateString(content.summary);
    auto sourceFilesAt = builder.CreateVector(sourceFilesWritten);
    auto sourcesAt = builder.CreateVectorOfStructs(sources);
    auto namesAt = builder.CreateVector(names);
    auto classesAt = builder.CreateVector(classes);
    auto tensorsAt = builder.CreateVector(tensors);
    auto itemsAt = builder.CreateVectorOfStructs(items);
    auto startsAt = builder.CreateVector(target.starts);
    auto filesAt = builder.CreateVector(files);
    auto objectsAt = builder.CreateVector(stringsOf(target.objects));
    auto objectFilesAt = builder.CreateVector(target.objectFiles);
    auto sidecarsAt = builder.CreateVector(sidecars);
    auto copiesAt = builder.CreateVector(copies);
    auto comparisonsAt = builder.CreateVector(comparisons());
    auto kernelsAt = builder.CreateVector(kernels);
    auto objectAt = bytesOf(program.kernelObject);
    auto specAt = builder.CreateString(content.specText);
    auto configAt = builder.CreateString(content.configJson);
    auto optionsAt = builder.CreateString(content.optionsJson);
    auto notesAt = builder.CreateVector(stringsOf(content.notes));
    auto modulesAt = builder.CreateVector(deviceModules);
    plan::PlanBuilder all(builder);
    all.add_direction(static_cast<plan::Direction>(content.direction));
    all.add_format(content.format == Format::TorchDist
                       ? plan::TargetFormat_TorchDist
                   : content.format == Format::TorchRanks
                       ? plan::TargetFormat_TorchRanks
                       : plan::TargetFormat_Safetensors);
    all.add_iteration(content.iteration);
    all.add_family(family);
    all.add_summary(summary);
    all.add_source_files(sourceFilesAt);
    all.add_sources(sourcesAt);
    all.add_source_names(namesAt);
    all.add_classes(classesAt);
    all.add_tensors(tensorsAt);
    all.add_items(itemsAt);
    all.add_starts(startsAt);
    all.add_files(filesAt);
    all.add_objects(objectsAt);
    all.add_object_files(objectFilesAt);
    all.add_sidecars(sidecarsAt);
    all.add_copies(copiesAt);
    all.add_comparisons(comparisonsAt);
    all.add_kernels(kernelsAt);
    all.add_kernel_objects(objectAt);
    all.add_spec_text(specAt);
    all.add_config_json(configAt);
    all.add_options_json(optionsAt);
    all.add_notes(notesAt);
    all.add_device_modules(modulesAt);
    plan::FinishPlanBuffer(builder, all.Finish());
  }

  const PlanContent &content;
  const Checkpoint &checkpoint;
  const Binding &binding;
  const TensorProgram &program;
  const Target &target;
  fb::FlatBufferBuilder builder;
  std::vector<SourceFile> sourceFiles;
  std::vector<uint32_t> firstPiece; ///< of each tensor, among all pieces
  std::vector<uint32_t> sourceOfPiece;
  std::vector<plan::Source> sources;
  std::vector<fb::Offset<fb::String>> names;
};
} // namespace

Result<fb::DetachedBuffer> writePlan(const PlanContent &content,
                                     const Checkpoint &checkpoint,
                                     const Binding &binding,
                                     const TensorProgram &program,
                                     const Target &target) {
  return PlanWriter(content, checkpoint, binding, program, target).write();
}

} // namespace mbc::compiler
