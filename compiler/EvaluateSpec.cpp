#include "compiler/Compilation.h"

#include "compiler/Binding/BindCommon.h"
#include "compiler/Binding/CheckpointOracle.h"
#include "compiler/Binding/FindSpec.h"
#include "compiler/Target/ConfigFromArgs.h"
#include "compiler/Target/ImportRecord.h"
#include "runtime/File.h"
#include "runtime/HeaderStore.h"
#include "runtime/MegatronNames.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

/// Which spec a compilation takes, and what it means for the checkpoint.
namespace mbc::compiler {

/// `--hf-experts per-expert` is the form `per_expert` of the language.
static std::string formName(std::string option) {
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

/// --spec names a file, or a spec of the folder.
static std::string namedSpec(const std::string &spec,
                             const std::string &directory) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path shipped = fs::path(directory) / (spec + ".mbspec");
  const bool isName = !spec.empty() && !spec.contains('/') &&
                      !fs::exists(spec, ignored) &&
                      fs::exists(shipped, ignored);
  return isName ? shipped.string() : spec;
}

bool Compilation::evaluateSpec() {
  std::string directory = specDirectory(options.specPath);
  std::string path = namedSpec(options.spec, directory);
  if (path.empty() && direction != Direction::Import)
    path = specOfLayout(directory);
  if (path.empty())
    path = findSpec(facts, directory, notes, diagnostics);
  if (path.empty())
    return false;
  spec = dsl::parseFile(path, {directory}, diagnostics);
  if (!spec || !holdRecordedSpec() || !completeConfig())
    return false;
  return evaluateModel();
}

/// The dtype of most of the elements.
DType Compilation::storedDType() const {
  std::map<DType, int64_t> elements;
  for (const StoredTensor &tensor : checkpoint.tensors)
    elements[tensor.dtype] += tensor.shape->elements();
  auto most = std::ranges::max_element(
      elements, {}, [](const auto &entry) { return entry.second; });
  return most == elements.end() ? DType::BF16 : most->first;
}

/// A config.json that is not there, or that --hf-config gives in part, is made
/// of Megatron's arguments. One that says all that the spec asks stays as it
/// is.
bool Compilation::completeConfig() {
  const Json args = sourceArgs();
  if (direction == Direction::Import || !args.is_object() || !spec->model ||
      (!configText.empty() && options.hfConfig.empty()))
    return true;
  if (!configText.empty()) {
    dsl::Diagnostics findings;
    if (dsl::evaluate(*spec, configText, nameOracle(), findings)
            .missingConfigFields.empty())
      return true;
  }
  configText =
      configFromArgs(*spec, {checkpoint.root, configText, args, storedDType()},
                     nameOracle(), notes, diagnostics);
  if (configText.empty())
    return false;
  configIsMade = true;
  Result<ConfigFacts> read = readConfigFacts(configText, "config.json");
  if (!read)
    return fail(read.error());
  facts = std::move(*read);
  return true;
}

/// Of the specs of a family with several Megatron layouts, the one that the
/// record names, else the one whose parameters are there; empty if there are
/// not several.
std::string Compilation::specOfLayout(const std::string &directory) {
  std::error_code ignored;
  std::filesystem::path recorded =
      std::filesystem::path(directory) / (record.spec + ".mbspec");
  if (hasRecord) {
    const bool shipped = !record.spec.contains('/') &&
                         std::filesystem::exists(recorded, ignored);
    return shipped ? recorded.string() : std::string();
  }
  std::vector<std::string> paths = findSpecs(facts, directory);
  if (paths.size() < 2)
    return {};
  return *std::ranges::min_element(paths, {}, [&](const std::string &path) {
    return absentParameters(path, directory);
  });
}

/// How many parameters of a spec the checkpoint does not have.
size_t Compilation::absentParameters(const std::string &path,
                                     const std::string &directory) const {
  dsl::Diagnostics findings;
  dsl::ParseResult other = dsl::parseFile(path, {directory}, findings);
  if (!other)
    return SIZE_MAX;
  dsl::Model layout = dsl::evaluate(*other, configText, nameOracle(), findings);
  size_t absent = findings.hasErrors() ? SIZE_MAX / 2 : 0;
  for (const dsl::RuleInstance &instance : layout.instances)
    for (const std::string &name : instance.megatron)
      absent += checkpoint.find(name) == Checkpoint::none;
  return absent;
}

/// An export by another spec than the import's could change values where
/// names and shapes still fit.
bool Compilation::holdRecordedSpec() {
  if (!hasRecord || direction == Direction::Import || !options.spec.empty())
    return true;
  std::string name = dsl::header(*spec).name;
  if (record.spec != name)
    return fail(
        {fmt::format("{} was imported by the spec {}, config.json leads "
                     "to {}; name the spec with --spec FILE",
                     checkpoint.root, record.spec, name)});
  if (record.specSha256 != specHash(dsl::bundle(*spec)))
    notes.push_back(fmt::format("the spec {} has changed since this checkpoint "
                                "was imported",
                                name));
  return true;
}

/// A form that was asked for and not taken is a misunderstanding.
void Compilation::holdForms() {
  if (diagnostics.hasErrors())
    return;
  std::set<std::string> taken;
  for (const dsl::Choice &choice : model.choices)
    taken.insert(choice.form);
  for (const std::string &form : options.forms)
    if (!taken.contains(formName(form)))
      fail({fmt::format("--form {}: no `either` of {} takes that form for {}; "
                        "taken are {}",
                        form, model.name, options.source,
                        fmt::join(taken, ", "))});
  for (const auto &[option, layout] :
       {std::pair("--experts", &options.experts),
        std::pair("--hf-experts", &options.hfExperts)}) {
    if (layout->empty() || taken.contains(formName(*layout)))
      continue;
    if (model.experts == 0)
      fail({fmt::format("{} {}: {} in {} has no experts; leave the option out",
                        option, *layout, model.name, options.source)});
    else
      notes.push_back(fmt::format("{} {} changes nothing: {} has its experts "
                                  "in one layout there",
                                  option, *layout, model.name));
  }
}

dsl::NameOracle Compilation::nameOracle() const {
  dsl::NameOracle oracle = oracleOf(checkpoint);
  if (!options.experts.empty())
    oracle.preferredForms.push_back(formName(options.experts));
  if (!options.hfExperts.empty())
    oracle.preferredForms.push_back(formName(options.hfExperts));
  for (const std::string &form : options.forms)
    oracle.preferredForms.push_back(formName(form));
  if (direction != Direction::Import)
    oracle.recordedForms = record.forms;
  if (!options.quant.empty())
    oracle.recordedForms.insert(oracle.recordedForms.end(),
                                record.quantizedForms.begin(),
                                record.quantizedForms.end());
  if (hasRecord && direction != Direction::Import)
    oracle.recorded = [this](std::string_view name) {
      return record.find(name) != nullptr;
    };
  return oracle;
}

/// Lets the experts of the source bear the names of that layout.
void Compilation::spellExperts(bool sequential) {
  auto names = std::make_shared<HeaderStore>();
  for (StoredTensor &tensor : checkpoint.tensors)
    tensor.name = names->keep(respellExpert(tensor.name, sequential));
  for (StoredHole &hole : checkpoint.holes)
    hole.tensor = names->keep(respellExpert(hole.tensor, sequential));
  checkpoint.stores.push_back(std::move(names));
  checkpoint.indexNames();
}

/// From Megatron to Megatron, --experts is another name for what is there: the
/// source is read as if it had that layout, if the spec knows it.
void Compilation::chooseExperts() {
  if (direction != Direction::Reshard || options.experts.empty() ||
      diagnostics.hasErrors() || model.takes(options.experts))
    return;
  Checkpoint asStored = checkpoint;
  spellExperts(options.experts == "sequential");
  dsl::Diagnostics findings;
  dsl::Model other = dsl::evaluate(*spec, configText, nameOracle(), findings);
  if (!findings.hasErrors() && other.takes(options.experts))
    model = std::move(other);
  else
    checkpoint = std::move(asStored);
}

bool Compilation::evaluateModel() {
  model = dsl::evaluate(*spec, configText, nameOracle(), diagnostics);
  chooseExperts();
  holdForms();
  for (const dsl::ConfigField &field : model.config)
    if (auto *number = std::get_if<double>(&field.value);
        number && !std::isfinite(*number))
      notes.push_back(fmt::format("config.json gives Megatron's {} the value "
                                  "{}; its args say None",
                                  field.name, *number));
  for (const auto *texts : {&model.configContradictions, &model.configNotes})
    for (const std::string &text : *texts)
      notes.push_back(fmt::format("config.json: {}", text));
  if (const auto &unread = model.unreadConfigFields; !unread.empty())
    notes.push_back(fmt::format("config.json: {} {} read by nothing in {}",
                                fmt::join(unread, ", "),
                                unread.size() == 1 ? "is" : "are", model.name));
  return !diagnostics.hasErrors();
}

bool Compilation::prepareSpecAlone() {
  const std::string directory = specDirectory(options.specPath);
  spec = dsl::parseFile(namedSpec(options.spec, directory), {directory},
                        diagnostics);
  if (!spec || options.config.empty())
    return spec != nullptr;
  Result<std::string> config = readWholeFile(options.config);
  if (!config)
    return fail(config.error());
  configText = std::move(*config);
  // No checkpoint at hand: of each `either` the first form stands for all.
  dsl::NameOracle oracle;
  model = dsl::evaluate(*spec, configText, oracle, diagnostics);
  NameUses reads(model, dsl::Side::Hf, diagnostics),
      writes(model, dsl::Side::Megatron, diagnostics);
  for (uint32_t i = 0; i != model.instances.size(); ++i) {
    for (const std::string &name : model.instances[i].hf)
      reads.use(name, i, "read on import, and would be written on export, by");
    for (const std::string &name : model.instances[i].megatron)
      writes.use(name, i, "written by");
  }
  return !diagnostics.hasErrors();
}

} // namespace mbc::compiler
