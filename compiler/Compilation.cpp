#include "compiler/Compilation.h"

#include "compiler/Binding/BindCommon.h"
#include "compiler/Binding/Numbering.h"
#include "compiler/Binding/QuantizedTensors.h"
#include "compiler/ProofText.h"
#include "compiler/Target/ImportRecord.h"
#include "compiler/Target/MegatronArgs.h"
#include "compiler/Target/Originals.h"
#include "compiler/Target/PlanReader.h"
#include "compiler/Target/Target.h"
#include "runtime/File.h"
#include "runtime/HfDirectory.h"
#include "runtime/Json.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mbc::compiler {

bool Compilation::fail(Error error) {
  diagnostics.error({}, std::move(error.message));
  return false;
}

bool Compilation::prepare() {
  return open() && openConfig() && openQuantized() && evaluateSpec() && bind();
}

bool Compilation::open() {
  Result<Checkpoint> opened = openCheckpoint(options.source);
  if (!opened)
    return fail(opened.error());
  checkpoint = std::move(*opened);
  if (checkpoint.format == Format::Safetensors)
    nameValues(checkpoint);
  notes = checkpoint.notes;
  if (!chooseDirection() || !optionsApply())
    return false;
  if (checkpoint.recordJson.empty())
    return true;
  Result<Record> read = readRecord(checkpoint.recordJson);
  if (!read)
    return fail(read.error());
  record = std::move(*read);
  hasRecord = true;
  return true;
}

/// Hugging Face goes to Megatron; Megatron to Hugging Face, or on request to
/// Megatron again.
bool Compilation::chooseDirection() {
  const bool fromHf = checkpoint.format == Format::Safetensors;
  direction = fromHf                     ? Direction::Import
              : options.to == "megatron" ? Direction::Reshard
                                         : Direction::Export;
  if (fromHf && options.to == "hf")
    return fail({fmt::format("--to hf: {} is a Hugging Face checkpoint already",
                             options.source)});
  const bool toHf = direction == Direction::Export;
  if (options.format.empty() || (options.format == "hf") == toHf)
    return true;
  return fail({fmt::format(
      "--format {}: {} is a {} checkpoint, which goes to {}", options.format,
      options.source, fromHf ? "Hugging Face" : "Megatron",
      toHf ? "Hugging Face (hf); with --to megatron it goes to Megatron"
           : "Megatron (torch_dist or torch)")});
}

/// An option that says nothing for this direction is a misunderstanding.
bool Compilation::optionsApply() {
  std::vector<std::string> others;
  auto given = [&](bool isGiven, std::string name) {
    if (isGiven)
      others.push_back(std::move(name));
  };
  if (direction == Direction::Export) {
    given(options.tp != 1, "--tp");
    given(options.pp != 1, "--pp");
    given(options.vpp != 1, "--vpp");
    given(options.ep != 1, "--ep");
    given(options.etp != 0, "--etp");
    given(options.firstStageLayers != 0, "--first-stage-layers");
    given(options.lastStageLayers != 0, "--last-stage-layers");
    given(!options.pipelineLayout.empty(), "--pipeline-layout");
    given(options.vocabDivisor != 0, "--make-vocab-size-divisible-by");
    given(options.iteration != 0, "--iteration");
    given(!options.experts.empty(), "--experts");
  } else {
    given(options.maxShardSize != 0, "--max-shard-size");
    given(!options.hfExperts.empty(), "--hf-experts");
    given(direction == Direction::Import && !options.hfConfig.empty(),
          "--hf-config");
    given(!options.quant.empty() && options.quant != "keep",
          fmt::format("--quant {}", options.quant));
  }
  if (options.iteration != 0 && options.format == "torch")
    return fail({"--iteration applies to a torch_dist target; per-rank files "
                 "are a release"});
  for (const std::string &name : others)
    fail({fmt::format(
        "{} applies to a {} target, and {} goes to {}", name,
        direction == Direction::Export ? "Megatron" : "Hugging Face",
        options.source,
        direction == Direction::Export ? "Hugging Face" : "Megatron")});
  return others.empty();
}

bool Compilation::openConfig() {
  configText = checkpoint.configJson;
  configOrigin = checkpoint.root + "/config.json";
  if (!options.hfConfig.empty()) {
    configOrigin = options.hfConfig + "/config.json";
    Result<std::string> text = readWholeFile(configOrigin);
    if (!text)
      return fail(text.error());
    configText = std::move(*text);
    hfSidecarRoot = options.hfConfig;
    Result<std::vector<std::string>> sidecars = listSidecars(options.hfConfig);
    if (!sidecars)
      return fail(sidecars.error());
    hfSidecars = std::move(*sidecars);
  }
  if (configText.empty() && direction == Direction::Import)
    return fail({fmt::format("{} has no config.json", checkpoint.root)});
  if (configText.empty())
    return mayMakeConfig();
  Result<ConfigFacts> read = readConfigFacts(configText, configOrigin);
  if (!read)
    return fail(read.error());
  facts = std::move(*read);
  return direction != Direction::Import || readsQuantization();
}

/// Without a config.json, the spec makes one of Megatron's arguments.
bool Compilation::mayMakeConfig() {
  if (!options.spec.empty() && sourceArgs().is_object())
    return true;
  return fail({fmt::format(
      "{} has no record of its Hugging Face config; name a folder with "
      "config.json by --hf-config DIR{}",
      checkpoint.root,
      sourceArgs().is_object()
          ? ", or the model's family by --spec NAME, which makes one of the "
            "checkpoint's arguments (`mbc specs` lists the families)"
          : "")});
}

/// Packings that no formula of QuantizedTensors.h undoes.
bool Compilation::readsQuantization() {
  static constexpr std::array<std::string_view, 7> unread = {
      "awq", "gptq", "bitsandbytes", "aqlm", "hqq", "eetq", "quanto"};
  if (!facts.quantization ||
      std::ranges::find(unread, facts.quantization->method) == unread.end())
    return true;
  return fail({fmt::format(
      "{}: quant_method is {}, which mbc does not read; it reads fp8, mxfp4, "
      "modelopt (FP8, NVFP4) and compressed-tensors (FP8, MXFP4, NVFP4, INT4). "
      "Take the checkpoint that is not quantised, or one of these",
      configOrigin, facts.quantization->method)});
}

/// What an export with --quant writes: originals, or by a rule.
bool Compilation::openQuantized() {
  if (direction == Direction::Import ||
      (direction == Direction::Export && options.quant.empty()))
    return true;
  Result<std::optional<Checkpoint>> opened = openOriginals(checkpoint);
  if (!opened)
    return fail(opened.error());
  if (direction == Direction::Reshard) {
    originals = std::move(*opened); // they go along
    return true;
  }
  Quantization declared = facts.quantization.value_or(Quantization());
  Result<QuantizedTargets> targets = QuantizedTargets();
  if (options.quant != "keep") {
    targets = QuantizedTargets::fresh(options.quant,
                                      hasRecord ? &record : nullptr, declared);
  } else if (*opened) {
    originals = std::move(*opened);
    targets = QuantizedTargets::kept(*originals, declared);
  } else if (!hasRecord || record.hasQuantized()) {
    return fail({fmt::format(
        "--quant keep: {} has no {}, where an import with --quant keep leaves "
        "quantised tensors as they were: import again with --quant keep, or "
        "quantise anew with --quant fp8-block, mxfp4 or nvfp4",
        checkpoint.root, originalsFolder)});
  }
  if (!targets)
    return fail(targets.error());
  quantized = std::move(*targets);
  return true;
}

bool Compilation::preparePlan(const std::string &path) {
  Result<PlanSource> source = readPlanSource(path);
  if (!source)
    return fail(source.error());
  options = std::move(source->options);
  checkpoint = std::move(source->checkpoint);
  if (checkpoint.format == Format::Safetensors)
    nameValues(checkpoint);
  configText = std::move(source->configJson);
  record = std::move(source->record);
  hasRecord = !record.tensors.empty();
  if (!chooseDirection())
    return false;
  Result<ConfigFacts> read = readConfigFacts(configText, path);
  if (!read)
    return fail(read.error());
  facts = std::move(*read);
  spec = dsl::parseText(source->specText, path, {}, diagnostics);
  if (!spec)
    return false;
  // A plan holds what its rules read; tensors that a spec ignores are missing
  // from it, and were accounted for when it was made.
  dsl::Diagnostics findings;
  std::swap(findings, diagnostics);
  evaluateModel();
  bind();
  std::swap(findings, diagnostics);
  return !binding.classes.empty() ||
         fail({fmt::format("{}: the plan has no rules", path)});
}

BindInput Compilation::bindInput(const ParallelLayout &megatron) const {
  return {model,
          checkpoint,
          options,
          megatron,
          facts.dtype,
          facts.quantization.value_or(Quantization()),
          hasRecord ? &record : nullptr,
          &quantized};
}

/// The layout of a Megatron source; it says something in per-rank files.
Result<ParallelLayout> Compilation::sourceLayout() const {
  ParallelLayout source;
  if (checkpoint.format != Format::TorchRanks)
    return source;
  Result<Json> common = parseJson(checkpoint.argsJson, checkpoint.root);
  if (!common)
    return std::unexpected(common.error());
  Result<RankSizes> sizes = readRankSizes(*common, checkpoint.root);
  if (!sizes)
    return std::unexpected(sizes.error());
  static_cast<ParallelSizes &>(source) = *sizes;
  return source;
}

bool Compilation::bindFromMegatron() {
  Result<ParallelLayout> source = sourceLayout();
  if (!source)
    return fail(source.error());
  if (auto halves = requireWholeHalves(sourceArgs(), checkpoint.root); !halves)
    return fail(halves.error());
  if (direction == Direction::Export) {
    layout = *source;
    if (!configIsMade)
      checkSourceArgs(model, sourceArgs(), checkpoint.root, diagnostics);
    binding = bindExport(bindInput(layout), diagnostics);
    return true;
  }
  layout = makeLayout(options, model, diagnostics);
  Reshard reshard = bindReshard(bindInput(*source), layout, diagnostics);
  model = std::move(reshard.model);
  binding = std::move(reshard.binding);
  return true;
}

bool Compilation::bind() {
  checkNumbering(model, diagnostics);
  if (direction == Direction::Import) {
    layout = makeLayout(options, model, diagnostics);
    binding = bindImport(bindInput(layout), diagnostics);
  } else if (!bindFromMegatron()) {
    return false;
  }
  if (direction != Direction::Export && options.format != "torch")
    checkStackedDTypes(model, binding, diagnostics);
  notes.insert(notes.end(), binding.notes.begin(), binding.notes.end());
  if (diagnostics.hasErrors())
    return false;
  if (direction == Direction::Import) {
    roundTrips = checkRoundTrip(ruleClasses(), proofSizes(), diagnostics);
    requireZeros(checkpoint, roundTrips, binding, diagnostics);
  }
  return !diagnostics.hasErrors();
}

/// At TP 1, 2 and what is asked for: an inverse may hold at the first only. EP
/// makes no difference but to rows that are dealt out over its ranks.
std::vector<ShardLayout> Compilation::proofSizes() const {
  bool deals = std::ranges::any_of(model.mappings, [](const auto &mapping) {
    return mapping.shard.kind == dsl::ShardKind::ExpertRows;
  });
  std::vector<ShardLayout> sizes{{1, 1, 1}, {2, 2, deals ? 2 : 1}};
  int64_t ep = deals ? layout.ep : 1;
  if (layout.tp != layout.etp || layout.tp > 2 || ep > 2)
    sizes.push_back({layout.tp, layout.etp, ep});
  return sizes;
}

Result<std::string> Compilation::proof(bool json) const {
  if (direction != Direction::Import)
    return mbc::fail("--proof shows the way to Megatron and back: name the "
                     "Hugging Face checkpoint");
  return (json ? proofJson : proofText)(model, binding, roundTrips,
                                        proofSizes());
}

std::vector<RuleClass> Compilation::ruleClasses() const {
  std::vector<RuleClass> classes;
  for (const BoundClass &bound : binding.classes)
    classes.push_back(bound.type);
  return classes;
}

ShardLayout Compilation::shardLayout() const {
  return {layout.tp, layout.etp, layout.ep, options.format == "torch"};
}

Result<std::string> Compilation::graph(const std::string &stage,
                                       const std::string &format) {
  return graphText(ruleClasses(), direction, shardLayout(), stage, format);
}

std::string Compilation::mappingText() const {
  std::string text;
  for (const BoundClass &bound : binding.classes) {
    const dsl::Mapping &mapping = *bound.type.mapping;
    const dsl::RuleInstance &first = model.instances[bound.instances.front()];
    text += fmt::format("{:5} x  {}  <-", bound.instances.size(),
                        first.megatron.front());
    for (size_t k = 0; k != std::min<size_t>(first.hf.size(), 4); ++k)
      text += fmt::format("  {} {} {}", first.hf[k],
                          safetensorsName(bound.type.hf[k].dtype),
                          toString(bound.type.hf[k].shape));
    if (first.hf.size() > 4)
      text += fmt::format("  and {} more", first.hf.size() - 4);
    if (mapping.where.file)
      text += fmt::format("    [line {}]", mapping.where.line);
    text += '\n';
  }
  return text;
}

std::string Compilation::summary() const {
  size_t instances = 0;
  for (const BoundClass &bound : binding.classes)
    instances += bound.instances.size();
  return fmt::format(
      "{}: {} tensors in {} files, {} rules in {} classes; names, shapes, "
      "dtypes, divisions{} hold{}\n",
      model.name, checkpoint.tensors.size(), checkpoint.files.size(), instances,
      binding.classes.size(),
      direction == Direction::Reshard ? "" : " and the round trip",
      direction == Direction::Export ? "" : " at " + layout.toString());
}

} // namespace mbc::compiler
