#include "compiler/Binding/Layout.h"

#include "compiler/Binding/PipelineLayout.h"

#include <fmt/format.h>
#include <numeric>

namespace mbc::compiler {

int64_t ParallelLayout::chunkOfLayer(int64_t layer) const {
  int64_t chunk = 0;
  for (int64_t end = 0; chunk + 1 < chunks(); ++chunk) {
    end += chunkLayers[chunk];
    if (layer < end)
      break;
  }
  return chunk;
}

int64_t ParallelLayout::chunkOf(const MegatronName &name,
                                dsl::Stage where) const {
  bool byName = where == dsl::Stage::ByName;
  if (where == dsl::Stage::Last || (byName && (name.mtp || name.draft)))
    return chunks() - 1;
  return byName && name.layer ? chunkOfLayer(*name.layer) : 0;
}

int64_t ParallelLayout::stageOf(const MegatronName &name,
                                dsl::Stage where) const {
  return chunkOf(name, where) % pp;
}

bool ParallelLayout::holds(int64_t chunk, const MegatronName &name,
                           dsl::Stage where) const {
  return chunk == chunkOf(name, where) ||
         (where == dsl::Stage::FirstAndLast && chunk == chunks() - 1);
}

int64_t ParallelLayout::firstLayer(int64_t chunk) const {
  return std::accumulate(chunkLayers.begin(), chunkLayers.begin() + chunk,
                         int64_t{0});
}

int64_t ParallelLayout::denseRank(int64_t stage, int64_t tpRank) const {
  return stage * stageRanks(*this) + tpRank;
}

int64_t ParallelLayout::expertRank(int64_t stage, int64_t epRank,
                                   int64_t etpRank) const {
  return stage * stageRanks(*this) + epRank * etp + etpRank;
}

std::string ParallelLayout::toString() const {
  std::string text = fmt::format("TP {}, PP {}, ", tp, pp);
  if (vpp != 1)
    text += fmt::format("VPP {}, ", vpp);
  text += fmt::format("EP {}", ep);
  if (etp != tp)
    text += fmt::format(", ETP {}", etp);
  return text;
}

ExpertCounts expertCounts(const dsl::Model &model) {
  ExpertCounts counts{model.experts, 0};
  for (const dsl::RuleInstance &instance : model.instances)
    for (const std::string &text : instance.megatron)
      if (isDraftName(text))
        counts.note(parseMegatronName(text));
  return counts;
}

int64_t shardRanks(const dsl::Shard &shard, const ParallelSizes &sizes) {
  return shard.kind == dsl::ShardKind::ExpertRows ? sizes.ep
         : shard.expert                           ? sizes.etp
                                                  : sizes.tp;
}

int64_t shardRank(const dsl::Shard &shard, const RankPlace &place) {
  return shard.kind == dsl::ShardKind::ExpertRows ? place.ep
         : shard.expert                           ? place.etp
                                                  : place.tp;
}

std::string joinNumbers(const std::vector<int64_t> &numbers) {
  if (numbers.size() == 1)
    return std::to_string(numbers.front());
  std::string text;
  for (size_t i = 0; i != numbers.size(); ++i) {
    if (i != 0)
      text += i + 1 == numbers.size() ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

static void checkExperts(const Options &options, const dsl::Model &model,
                         const ExpertCounts &experts,
                         dsl::Diagnostics &diagnostics) {
  if (options.ep == 1)
    return;
  if (model.experts == 0) {
    diagnostics.error({}, fmt::format("--ep {}: {} has no routed experts to "
                                      "distribute; leave --ep out",
                                      options.ep, model.name));
    return;
  }
  // Each of both numbers has to divide; what divides one of them alone is no
  // legal value.
  const int64_t both = std::gcd(experts.model, experts.draft);
  for (auto [count, whose] : {std::pair{experts.model, ""},
                              std::pair{experts.draft, " of the draft module"}})
    if (count % options.ep != 0)
      diagnostics.error(
          {}, fmt::format("{} experts{} do not divide by {} (--ep); legal "
                          "values are {}",
                          count, whose, options.ep,
                          legalValues(both, [](int64_t) { return true; })));
}

ParallelLayout makeLayout(const Options &options, const dsl::Model &model,
                          dsl::Diagnostics &diagnostics) {
  ParallelLayout layout;
  layout.tp = options.tp;
  layout.pp = options.pp;
  layout.vpp = options.vpp;
  layout.ep = options.ep;
  layout.etp = options.etp != 0 ? options.etp : options.tp;
  layout.experts = expertCounts(model);
  checkExperts(options, model, layout.experts, diagnostics);
  if (options.format == "torch" && layout.tp % layout.etp != 0)
    diagnostics.error(
        {}, fmt::format("--tp {} is not a multiple of --etp {}: the directory "
                        "names of per-rank checkpoints cannot tell those "
                        "ranks apart; use --format torch_dist",
                        layout.tp, layout.etp));
  if (layout.vpp > 1 && layout.pp == 1)
    diagnostics.error({}, fmt::format("--vpp {}: virtual stages need more than "
                                      "one pipeline stage (--pp)",
                                      layout.vpp));
  cutPipeline(options, model, layout, diagnostics);
  return layout;
}

} // namespace mbc::compiler
