#include "compiler/Compilation.h"

#include "compiler/Binding/BindCommon.h"
#include "compiler/Binding/ConfigEdit.h"
#include "compiler/Target/ImportRecord.h"
#include "compiler/Target/MegatronArgs.h"
#include "compiler/Target/Originals.h"
#include "compiler/Target/PlanReader.h"
#include "compiler/Target/QuantizationConfig.h"
#include "compiler/Target/RunConfig.h"
#include "runtime/File.h"
#include "runtime/Json.h"
#include "runtime/TorchDistWriter.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tbb/parallel_invoke.h>

namespace mbc::compiler {

/// The arguments that a Megatron source was made with; null if none are there.
Json Compilation::sourceArgs() const {
  if (checkpoint.format == Format::Safetensors || checkpoint.argsJson.empty())
    return nullptr;
  Result<Json> common = parseJson(checkpoint.argsJson, checkpoint.root);
  return common ? common->value("args", Json()) : Json();
}

/// What Megatron reads beside the tensors: args and how keys are spelt.
Json Compilation::commonState() const {
  Json common;
  common["args"] = megatronArgs(
      model, layout, options, dtypeOption(options.dtype).value_or(facts.dtype),
      binding.paddedVocab, sourceArgs());
  common["checkpoint_version"] = 3.0;
  common["iteration"] = options.iteration;
  common["num_floating_point_operations_so_far"] = 0;
  common["content_metadata"] = {{"singleton_local_shards", false},
                                {"chained_optim_avoid_prefix", true}};
  if (!model.layersStacked)
    common["content_metadata"]["non_homogeneous_layers"] = true;
  return common;
}

std::vector<std::pair<std::string, std::string>>
Compilation::copiesToMake() const {
  std::vector<std::pair<std::string, std::string>> copies;
  for (const dsl::TiedCopy &tie : model.ties) {
    if (tie.side != dsl::Side::Hf)
      continue;
    bool had = std::find(record.copies.begin(), record.copies.end(),
                         tie.copy) != record.copies.end();
    if (hasRecord ? had : !tie.optional)
      copies.emplace_back(tie.copy, tie.owner);
  }
  return copies;
}

Result<Target> Compilation::placeTarget(const TensorProgram &program) const {
  TargetInput input{model, binding, program, layout, ""};
  if (direction == Direction::Export)
    return placeSafetensors(input, {hasRecord ? &record : nullptr,
                                    static_cast<uint64_t>(options.maxShardSize),
                                    copiesToMake(), &quantized, &checkpoint,
                                    firstOriginal});
  input.commonJson = commonState().dump();
  return options.format == "torch" ? placeTorchRanks(input)
                                   : placeTorchDist(input);
}

/// --quant keep of an import.
Result<void> Compilation::keepOriginals(PlanContent &content,
                                        Target &target) const {
  Result<size_t> kept =
      placeOriginals(checkpoint, binding, configText, target, content);
  if (!kept)
    return std::unexpected(kept.error());
  content.notes.push_back(
      *kept == 0
          ? "nothing in the source is quantised: --quant keep keeps nothing"
          : fmt::format("{} quantised tensors are kept as they are in {}, for "
                        "an export with --quant keep",
                        *kept, originalsFolder));
  return {};
}

void Compilation::addImportSidecars(PlanContent &content,
                                    std::string recordText) const {
  content.sidecars.push_back({"mbc/record.json", std::move(recordText), ""});
  content.sidecars.push_back({"mbc/hf/config.json", configText, ""});
  for (const std::string &name : checkpoint.sidecars)
    content.copies.emplace_back(name, "mbc/hf/" + name);
}

static std::string withDType(std::string config, const std::string &option) {
  std::string_view name = option == "bf16"  ? "bfloat16"
                          : option == "f16" ? "float16"
                          : option == "f32" ? "float32"
                                            : "";
  if (name.empty())
    return config;
  // Older configs say torch_dtype; those of composed models say it inside.
  for (const char *path :
       {"dtype", "torch_dtype", "text_config.dtype", "text_config.torch_dtype"})
    config = withString(config, path, name);
  return config;
}

Result<void> Compilation::addExportSidecars(PlanContent &content,
                                            const Target &target) const {
  std::string config = withDType(configText, options.dtype);
  if (options.quant.empty() && facts.quantization)
    content.notes.push_back(
        "weights leave dequantised: no scales are written and "
        "quantization_config is removed from config.json (--quant none)");
  if (!quantizationStays()) {
    for (const char *path :
         {"quantization_config", "text_config.quantization_config"})
      config = withoutField(config, path);
    if (!options.quant.empty())
      config =
          withField(config, "quantization_config",
                    quantizationConfig(
                        options.quant,
                        facts.quantization.value_or(Quantization()), target));
  }
  content.sidecars.push_back({"config.json", config, ""});
  if (std::string text = modelOptConfig(options.quant, target); !text.empty())
    content.sidecars.push_back({std::string(modelOptFile), text, ""});
  if (target.files.size() > 1)
    content.sidecars.push_back(
        {"model.safetensors.index.json", weightIndex(target), ""});
  return addHfSidecars(content, "");
}

/// The Hugging Face files that travel with a Megatron source, into `folder`.
Result<void> Compilation::addHfSidecars(PlanContent &content,
                                        const std::string &folder) const {
  // A file that says the same as quantization_config goes with it.
  auto leaves = [&](const std::string &name) {
    return name != modelOptFile || direction == Direction::Reshard ||
           quantizationStays();
  };
  if (hfSidecarRoot.empty()) {
    for (const std::string &name : checkpoint.sidecars)
      if (leaves(name))
        content.copies.emplace_back("mbc/hf/" + name, folder + name);
    return {};
  }
  // A folder beside the source: the plan has to bring its files along.
  for (const std::string &name : hfSidecars) {
    if (!leaves(name))
      continue;
    Result<std::string> bytes = readWholeFile(hfSidecarRoot + "/" + name);
    if (!bytes)
      return std::unexpected(bytes.error());
    content.sidecars.push_back({folder + name, std::move(*bytes), ""});
  }
  return {};
}

/// Everything that an import left beside the tensors goes along as it is.
Result<void> Compilation::addReshardSidecars(PlanContent &content,
                                             Target &target) const {
  if (hasRecord)
    content.sidecars.push_back({"mbc/record.json", checkpoint.recordJson, ""});
  content.sidecars.push_back({"mbc/hf/config.json", configText, ""});
  if (originals)
    if (Result<void> carried =
            carryOriginals(checkpoint, firstOriginal, target, content);
        !carried)
      return carried;
  return addHfSidecars(content, "mbc/hf/");
}

/// Whether config.json says already how the target is quantised: weights leave
/// as they came, or the same ones by the same method.
bool Compilation::quantizationStays() const {
  if (options.quant.empty() || !facts.quantization)
    return options.quant == "keep";
  if (options.quant == "keep")
    return true;
  if (options.quant == "nvfp4") // without the scales of activations
    return false;
  bool isFp8 = options.quant == "fp8-block";
  return hasRecord && record.hasQuantized() &&
         (facts.quantization->method == "fp8") == isFp8 &&
         std::ranges::all_of(record.tensors, [&](const auto &tensor) {
           return !record.isQuantized(tensor) ||
                  (isFp8
                       ? tensor.dtype == DType::F8_E4M3
                       : tensor.dtype == DType::U8 && !record.isNvfp4(tensor));
         });
}

/// The options with the forms that were taken, whoever chose them.
Options Compilation::chosenOptions() const {
  Options chosen = options;
  chosen.forms.clear();
  for (const dsl::Choice &choice : model.choices)
    chosen.forms.push_back(choice.form);
  return chosen;
}

Result<flatbuffers::DetachedBuffer> Compilation::plan() {
  Result<TensorProgram> program;
  std::string recordText;
  auto compile = [&] {
    program =
        compileClasses(ruleClasses(), direction, shardLayout(), diagnostics);
  };
  auto record = [&] {
    if (direction == Direction::Import)
      recordText = writeRecord(bindInput(layout), binding,
                               dsl::header(*spec).name, dsl::bundle(*spec));
  };
  tbb::parallel_invoke(compile, record);
  if (!program)
    return std::unexpected(program.error());
  if (originals)
    firstOriginal = appendOriginals(*originals, checkpoint);
  Result<Target> target = placeTarget(*program);
  if (!target)
    return std::unexpected(target.error());
  PlanContent content;
  content.direction = direction;
  content.family = model.name;
  content.specText = dsl::bundle(*spec);
  content.configJson = configText;
  content.optionsJson = writeOptions(chosenOptions(), checkpoint);
  content.notes = notes;
  content.notes.insert(content.notes.end(), target->notes.begin(),
                       target->notes.end());
  if (direction == Direction::Import)
    content.inputs.push_back("config.json");
  else if (checkpoint.format == Format::TorchDist)
    content.inputs.push_back(".metadata");
  Result<void> added;
  if (direction == Direction::Export) {
    content.format = Format::Safetensors;
    content.summary = "Hugging Face safetensors";
    added = addExportSidecars(content, *target);
  } else if (direction == Direction::Reshard) {
    added = addReshardSidecars(content, *target);
  } else {
    addImportSidecars(content, std::move(recordText));
    if (options.quant == "keep")
      added = keepOriginals(content, *target);
  }
  if (added && direction != Direction::Export)
    added = addMegatronFiles(content);
  if (!added)
    return std::unexpected(added.error());
  return writePlan(content, checkpoint, binding, *program, *target);
}

/// What a Megatron target holds beside its tensors, and where it is published.
Result<void> Compilation::addMegatronFiles(PlanContent &content) const {
  const bool ranks = options.format == "torch";
  content.format = ranks ? Format::TorchRanks : Format::TorchDist;
  content.iteration = options.iteration;
  content.summary = fmt::format(
      "Megatron {}, {}", ranks ? "torch" : "torch_dist", layout.toString());
  if (ranks)
    return {};
  const Json state = commonState();
  const std::string common = state.dump();
  Result<std::string> file = commonFile(common), object = commonObject(common);
  if (!file || !object)
    return std::unexpected(!file ? file.error() : object.error());
  content.sidecars.push_back({"common.pt", std::move(*file), ""});
  content.sidecars.push_back(
      {"__0_1.distcp", std::move(*object), "common_state/shard_0_1"});
  content.sidecars.push_back(
      {"metadata.json", std::string(torchDistMarker()), ""});
  if (std::string config = runConfig(model, state["args"]); !config.empty())
    content.sidecars.push_back({"run_config.yaml", std::move(config), ""});
  if (options.iteration != 0)
    content.sidecars.push_back(
        {std::string(trainStateName), trainState(options.iteration), ""});
  return {};
}

} // namespace mbc::compiler
