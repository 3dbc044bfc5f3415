#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Binding/ConfigFacts.h"
#include "compiler/Binding/QuantizedTargets.h"
#include "compiler/Target/PlanWriter.h"
#include "dsl/Parse.h"
#include "runtime/Json.h"

#include <memory>
#include <optional>
#include <string>

namespace mbc::compiler {

/// One checkpoint, its spec and a layout, taken through the stages: opened,
/// evaluated, bound and checked by `prepare`; compiled to a plan by `plan`.
/// What goes wrong is in `diagnostics`. Not thread-safe.
class Compilation {
public:
  explicit Compilation(Options options) : options(std::move(options)) {}

  /// Everything that can be known without tensor data. False if there is an
  /// error.
  bool prepare();

  /// The checkpoint and its config.json, without a spec.
  bool openSource() { return open() && openConfig(); }

  /// What a spec alone, or a spec with a config.json, can be held to: it
  /// parses, every loop and condition evaluates, no name is used twice.
  bool prepareSpecAlone();

  /// The classes of a plan file, for its graph: recompiled from the spec's
  /// text, the headers and the options that the plan holds.
  bool preparePlan(const std::string &path);

  /// The plan; after a successful `prepare`.
  Result<flatbuffers::DetachedBuffer> plan();

  /// The graph's text at a stage; after a successful `prepare`.
  Result<std::string> graph(const std::string &stage,
                            const std::string &format);

  /// The mapping as understood: a line a rule, with its number of instances.
  std::string mappingText() const;
  /// What the round trip of each class was computed to be; after a successful
  /// `prepare` of an import.
  Result<std::string> proof(bool json) const;
  /// One line that says what was checked.
  std::string summary() const;

  // What has been found so far, whether or not it fits.
  const Checkpoint &source() const { return checkpoint; }
  const ConfigFacts &configFacts() const { return facts; }
  const dsl::Model &evaluated() const { return model; }
  const Binding &bound() const { return binding; }
  const std::string &specText() const { return spec->files.front()->text; }

  dsl::Diagnostics diagnostics;
  std::vector<std::string> notes;

private:
  bool open();
  bool chooseDirection();
  bool optionsApply();
  bool openConfig();
  bool mayMakeConfig();
  bool completeConfig();
  DType storedDType() const;
  bool readsQuantization();
  bool evaluateSpec();
  std::string specOfLayout(const std::string &directory);
  size_t absentParameters(const std::string &path,
                          const std::string &directory) const;
  dsl::NameOracle nameOracle() const;
  bool holdRecordedSpec();
  void holdForms();
  void spellExperts(bool sequential);
  void chooseExperts();
  bool evaluateModel();
  bool bind();
  bool fail(Error error);

  Result<ParallelLayout> sourceLayout() const;
  bool bindFromMegatron();
  BindInput bindInput(const ParallelLayout &megatron) const;
  ShardLayout shardLayout() const;
  std::vector<RuleClass> ruleClasses() const;
  std::vector<ShardLayout> proofSizes() const;
  Json sourceArgs() const;
  Json commonState() const;
  Options chosenOptions() const;
  bool openQuantized();
  bool quantizationStays() const;
  Result<void> keepOriginals(PlanContent &content, Target &target) const;
  Result<Target> placeTarget(const TensorProgram &program) const;
  void addImportSidecars(PlanContent &content, std::string recordText) const;
  Result<void> addReshardSidecars(PlanContent &content, Target &target) const;
  Result<void> addHfSidecars(PlanContent &content,
                             const std::string &folder) const;
  Result<void> addExportSidecars(PlanContent &content,
                                 const Target &target) const;
  Result<void> addMegatronFiles(PlanContent &content) const;
  std::vector<std::pair<std::string, std::string>> copiesToMake() const;

  Options options;
  Direction direction = Direction::Import;
  Checkpoint checkpoint;
  std::string configText, configOrigin;
  bool configIsMade = false; ///< of Megatron's arguments
  std::string hfSidecarRoot; ///< --hf-config: sidecars come from there
  std::vector<std::string> hfSidecars;
  ConfigFacts facts;
  std::unique_ptr<const dsl::Spec> spec;
  dsl::Model model;
  ParallelLayout layout;
  Record record;
  bool hasRecord = false;
  QuantizedTargets quantized;          ///< export: what --quant asks for
  std::optional<Checkpoint> originals; ///< of a Megatron source, if needed
  uint32_t firstOriginal = 0; ///< its tensors among the checkpoint's; in `plan`
  Binding binding;
  std::vector<RoundTrip> roundTrips; ///< import: one a class
};

} // namespace mbc::compiler
