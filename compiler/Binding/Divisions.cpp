#include "compiler/Binding/Divisions.h"

#include "compiler/Binding/BindCommon.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>

namespace mbc::compiler {

/// What a size does not divide: "14 query heads".
static std::optional<std::string> indivisible(int64_t extent, int64_t ranks,
                                              std::string_view what) {
  if (extent % ranks == 0)
    return std::nullopt;
  return fmt::format("{} {} do not divide by {}", extent, what, ranks);
}

/// The first of `heads` has to divide by the ranks; of each other one and the
/// ranks, one has to divide the other. One alone is a number of things that a
/// rank holds whole, of whatever kind.
static std::optional<std::string>
headsObstacle(const std::vector<int64_t> &heads, int64_t ranks) {
  for (size_t i = 0; i != heads.size(); ++i) {
    if (i == 0) {
      if (auto text = indivisible(heads[0], ranks,
                                  heads.size() == 1 ? "heads or groups"
                                                    : "query heads"))
        return text;
    } else if (heads[i] % ranks != 0 && ranks % heads[i] != 0) {
      return fmt::format(
          "{} key-value heads and {} ranks do not divide each other", heads[i],
          ranks);
    }
  }
  return std::nullopt;
}

static std::optional<std::string>
operandObstacle(const dsl::Shard &shard, const Shape &shape,
                const std::vector<int64_t> &sections, int64_t ranks) {
  switch (shard.kind) {
  case dsl::ShardKind::Replicated:
  case dsl::ShardKind::Vocab:      // padded to a multiple
  case dsl::ShardKind::ExpertRows: // as evenly as they go
    return std::nullopt;
  case dsl::ShardKind::Column:
    if (auto heads = headsObstacle(shard.heads, ranks))
      return heads;
    return shape.empty() ? std::nullopt : indivisible(shape[0], ranks, "rows");
  case dsl::ShardKind::Row: // a bias is not cut
    return shape.rank() < 2 ? std::nullopt
                            : indivisible(shape[1], ranks, "columns");
  case dsl::ShardKind::Dim:
    if (static_cast<size_t>(shard.dim) >= shape.rank())
      return fmt::format("shape {} has no dimension {}", toString(shape),
                         shard.dim);
    return indivisible(shape[shard.dim], ranks,
                       fmt::format("elements along dimension {}", shard.dim));
  case dsl::ShardKind::Gated:
    return sections.empty() ? std::nullopt
                            : indivisible(sections[0], ranks, "gate rows");
  case dsl::ShardKind::Section:
    for (size_t i = 0; i != sections.size(); ++i)
      if (auto text =
              indivisible(sections[i], ranks,
                          shard.sections.empty()
                              ? fmt::format("rows of section {}", i)
                              : fmt::format("{} rows", shard.sections[i])))
        return text;
    return std::nullopt;
  }
  return std::nullopt;
}

/// Why a class does not divide by `ranks`, if it does not.
static std::optional<std::string> obstacle(const RuleClass &type,
                                           int64_t ranks) {
  for (size_t k = 0; k != type.megatron.size(); ++k)
    if (auto text = operandObstacle(type.mapping->shard, type.megatron[k].shape,
                                    type.sections[k], ranks))
      return text;
  return std::nullopt;
}

/// The sizes up to 1,024 at which all classes of a kind divide.
static std::string legalSizes(const Binding &binding, bool expert) {
  std::vector<int64_t> legal;
  for (int64_t ranks = 1; ranks <= 1024; ++ranks)
    if (std::none_of(binding.classes.begin(), binding.classes.end(),
                     [&](const BoundClass &bound) {
                       return bound.type.mapping->shard.expert == expert &&
                              obstacle(bound.type, ranks);
                     }))
      legal.push_back(ranks);
  return joinNumbers(legal);
}

static void checkKind(const dsl::Model &model, const Binding &binding,
                      bool expert, int64_t ranks,
                      dsl::Diagnostics &diagnostics) {
  std::set<std::string> reported;
  for (const BoundClass &bound : binding.classes) {
    if (bound.type.mapping->shard.expert != expert)
      continue;
    std::optional<std::string> text = obstacle(bound.type, ranks);
    if (!text || !reported.insert(*text).second)
      continue;
    const dsl::RuleInstance &instance =
        model.instances[bound.instances.front()];
    ruleError(*bound.type.mapping,
              fmt::format("{}: {} ({}); legal values are {}",
                          instance.megatron.front(), *text,
                          expert ? "--etp" : "--tp",
                          legalSizes(binding, expert)),
              diagnostics);
  }
}

void checkDivisions(const dsl::Model &model, const Binding &binding,
                    const ParallelLayout &layout,
                    dsl::Diagnostics &diagnostics) {
  checkKind(model, binding, false, layout.tp, diagnostics);
  checkKind(model, binding, true, layout.etp, diagnostics);
}

} // namespace mbc::compiler
