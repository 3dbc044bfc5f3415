#include "compiler/Binding/MegatronFacts.h"
#include "runtime/MegatronNames.h"
#include "runtime/MegatronShards.h"

#include <algorithm>
#include <fmt/format.h>

namespace mbc::compiler {
namespace {

std::string_view wordFor(Cut cut) {
  switch (cut) {
  case Cut::None:
    return "whole on every rank";
  case Cut::Rows:
    return "cut by rows";
  case Cut::Columns:
    return "cut by columns";
  case Cut::Gated:
    return "cut as gate and up";
  case Cut::Sections:
    return "cut by sections";
  case Cut::ExpertRows:
    return "dealt out by rows over the expert ranks";
  }
  return "";
}

Cut cutOf(const dsl::Shard &shard, size_t rank) {
  switch (shard.kind) {
  case dsl::ShardKind::Replicated:
    return Cut::None;
  case dsl::ShardKind::Column:
  case dsl::ShardKind::Vocab:
    return Cut::Rows;
  case dsl::ShardKind::Row:
    return rank == 2 ? Cut::Columns : Cut::None;
  case dsl::ShardKind::Gated:
    return Cut::Gated;
  case dsl::ShardKind::Section:
    return Cut::Sections;
  case dsl::ShardKind::Dim:
    return shard.dim == 0 ? Cut::Rows : Cut::Columns;
  case dsl::ShardKind::ExpertRows:
    return Cut::ExpertRows;
  }
  return Cut::None;
}

class PlacementCheck {
public:
  PlacementCheck(const dsl::Model &model, dsl::Diagnostics &diagnostics)
      : arguments(model), diagnostics(diagnostics) {
    for (const dsl::RuleInstance &instance : model.instances)
      for (const std::string &name : instance.megatron) {
        hasMtp |= parseMegatronName(name).mtp.has_value();
        cutsRouters |= name.contains(".engram.");
        hasLabels |= name.ends_with("output_layer.bias");
      }
  }

  void check(const dsl::Mapping &mapping, const std::string &name,
             const Shape &shape) {
    for (const std::string &problem :
         {shardProblem(mapping.shard, name, shape),
          stageProblem(mapping.stage, name), dtypeProblem(mapping, name)})
      if (!problem.empty())
        diagnostics.warning(mapping.where,
                            fmt::format("{} is {}", name, problem),
                            mapping.expansion);
  }

private:
  /// A head of labels has a bias, and is whole on every rank.
  bool isOfLabels(std::string_view name) const {
    return hasLabels && name.contains("output_layer.");
  }

  /// Embedding and head, whose rows Megatron pads.
  bool holdsVocabulary(std::string_view name) const {
    return name.ends_with("word_embeddings.weight") ||
           (name.ends_with("output_layer.weight") && !isOfLabels(name));
  }

  std::string shardProblem(const dsl::Shard &shard, const std::string &name,
                           const Shape &shape) const {
    if (holdsVocabulary(name))
      return shard.kind == dsl::ShardKind::Vocab
                 ? ""
                 : "not shard=vocab here: Megatron pads its rows to a multiple "
                   "that every rank can hold";
    ShardRule known =
        isOfLabels(name) ? ShardRule{} : shardRule(name, shape.rank());
    Cut given = cutOf(shard, shape.rank());
    // The arguments are the language model's; a tower's feed-forward has a gate
    // or not, whatever they say.
    bool gateless =
        isTowerName(name) ? given == Cut::Rows : arguments.gates() == 1;
    if (known.cut == Cut::Gated && gateless)
      known.cut = Cut::Rows;
    if (known.cut == Cut::None && given == Cut::Rows &&
        isNormOfHeads(name, shape))
      return "";
    if (given == Cut::Rows && cutsRouters && name.ends_with("router.weight"))
      return "";
    // Early versions of miles hold the module whole, later ones cut it.
    if (given == Cut::None && name.find(".kda.") != name.npos)
      return "";
    if (given != known.cut)
      return fmt::format(
          "{} here, and {} by the name of its module in Megatron "
          "(runtime/MegatronShards.cpp)",
          wordFor(given), wordFor(known.cut));
    if (shard.expert != known.expert)
      return shard.expert
                 ? "expert(...) here, and belongs to no routed expert by name"
                 : "one of a routed expert by name, and not expert(...) here";
    return "";
  }

  /// Over all heads at once, and cut as they are.
  bool isNormOfHeads(const std::string &name, const Shape &shape) const {
    bool isNorm = name.ends_with(".q_layernorm.weight") ||
                  name.ends_with(".k_layernorm.weight");
    return isNorm && shape[0] > arguments.integer("kv_channels").value_or(0);
  }

  std::string stageProblem(dsl::Stage stage, const std::string &name) const {
    static constexpr std::string_view words[] = {
        "on its layer's stage", "on the first stage", "on the last stage",
        "on the first and the last stage"};
    dsl::Stage known = knownStage(name), given = stage;
    if (given == dsl::Stage::ByName)
      given = stageByName(name);
    if (given == known)
      return "";
    return fmt::format("{} here; Megatron holds it {}",
                       words[static_cast<size_t>(given)],
                       words[static_cast<size_t>(known)]);
  }

  /// Without an attribute.
  static dsl::Stage stageByName(const std::string &name) {
    MegatronName parsed = parseMegatronName(name);
    return parsed.layer                 ? dsl::Stage::ByName
           : parsed.mtp || parsed.draft ? dsl::Stage::Last
                                        : dsl::Stage::First;
  }

  dsl::Stage knownStage(const std::string &name) const {
    if (name.ends_with("embedding.word_embeddings.weight"))
      return hasMtp ? dsl::Stage::FirstAndLast : dsl::Stage::First;
    dsl::Stage byName = stageByName(name);
    bool end = byName == dsl::Stage::First && !isTowerName(name) &&
               (name.find("decoder.") != name.npos ||
                name.find("output_layer.") != name.npos);
    return end ? dsl::Stage::Last : byName;
  }

  static std::string dtypeProblem(const dsl::Mapping &mapping,
                                  const std::string &name) {
    bool isFloat = name.ends_with("router.expert_bias") ||
                   name.find(".hyper_connection.") != name.npos;
    return !isFloat || mapping.dtype == "f32"
               ? ""
               : "float32 in every Megatron model; write dtype=f32";
  }

  MegatronArguments arguments;
  dsl::Diagnostics &diagnostics;
  bool hasMtp = false;
  bool cutsRouters = false; ///< DeepSeek-V4.1 has one of its own
  bool hasLabels = false;   ///< the head has a row a label, not a token
};

} // namespace

void checkPlacement(const dsl::Model &model, const Binding &binding,
                    dsl::Diagnostics &diagnostics) {
  PlacementCheck placement(model, diagnostics);
  for (const BoundClass &bound : binding.classes)
    placement.check(*bound.type.mapping,
                    model.instances[bound.instances.front()].megatron.front(),
                    bound.type.megatron.front().shape);
}

void checkMegatronFacts(const dsl::Model &model, const Binding &binding,
                        dsl::Diagnostics &diagnostics) {
  checkArgumentKinds(model, diagnostics);
  if (diagnostics.hasErrors()) // shapes by such numbers would be reported again
    return;
  checkPlacement(model, binding, diagnostics);
  checkParameters(model, binding, diagnostics);
  checkArguments(model, diagnostics);
}

} // namespace mbc::compiler
