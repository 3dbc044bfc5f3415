#include "compiler/Binding/BindCommon.h"

#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/NameGroups.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace mbc::compiler {

TensorsByName::TensorsByName(const Checkpoint &checkpoint)
    : next_(checkpoint.tensors.size(), none) {
  first_.reserve(checkpoint.tensors.size() * 2);
  // Backwards, so that a name's entries are found in the files' order.
  for (uint32_t i = checkpoint.tensors.size(); i-- != 0;) {
    auto [it, isNew] = first_.try_emplace(checkpoint.tensors[i].name, i);
    if (!isNew) {
      next_[i] = it->second;
      it->second = i;
    }
  }
}

uint32_t TensorsByName::find(std::string_view name) const {
  auto it = first_.find(name);
  return it == first_.end() ? none : it->second;
}

void ruleError(const dsl::Mapping &mapping, std::string text,
               dsl::Diagnostics &diagnostics) {
  diagnostics.error(mapping.where, std::move(text), mapping.expansion);
}

void NameUses::use(std::string_view name, uint32_t instance,
                   std::string_view what) {
  auto [it, isNew] = users.try_emplace(name, instance);
  if (isNew)
    return;
  const dsl::Mapping &first =
      model.mappings[model.instances[it->second].mapping];
  const dsl::Mapping &second =
      model.mappings[model.instances[instance].mapping];
  std::vector<dsl::Note> notes = second.expansion;
  notes.push_back(
      {first.where, fmt::format("the other use of {} is here", name)});
  diagnostics.error(
      second.where,
      fmt::format("{} is {} two rules; a tensor belongs to exactly "
                  "one rule, a second use must say `tied`",
                  name, what),
      std::move(notes));
}

static uint64_t hashOf(uint32_t mapping,
                       const std::vector<OperandType> &types) {
  uint64_t hash = mapping;
  auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  };
  for (const OperandType &type : types) {
    mix(static_cast<uint64_t>(type.dtype));
    for (int64_t extent : type.shape)
      mix(extent);
    mix(type.parts.size() * 2 + type.scale.has_value());
  }
  return hash;
}

std::optional<uint32_t>
ClassTable::find(uint32_t mapping,
                 const std::vector<OperandType> &types) const {
  auto it = entries.find(hashOf(mapping, types));
  if (it == entries.end())
    return std::nullopt;
  for (const Entry &entry : it->second)
    if (entry.mapping == mapping && entry.types == types)
      return entry.index;
  return std::nullopt;
}

void ClassTable::insert(uint32_t mapping, std::vector<OperandType> types,
                        uint32_t index) {
  uint64_t hash = hashOf(mapping, types);
  entries[hash].push_back({mapping, std::move(types), index});
}

std::optional<DType> dtypeOption(std::string_view text) {
  if (text == "bf16")
    return DType::BF16;
  if (text == "f16")
    return DType::F16;
  if (text == "f32")
    return DType::F32;
  return std::nullopt;
}

bool isFloat(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 ||
         dtype == DType::BF16;
}

bool inferSections(RuleClass &type, std::span<const std::string> hfNames,
                   dsl::Diagnostics &diagnostics) {
  const dsl::Mapping &mapping = *type.mapping;
  dsl::ShardKind kind = mapping.shard.kind;
  type.sections.assign(type.megatron.size(), {});
  if (kind == dsl::ShardKind::Gated) {
    for (size_t k = 0; k != type.megatron.size(); ++k) {
      int64_t rows =
          type.megatron[k].shape.empty() ? 0 : type.megatron[k].shape[0];
      if (rows % 2 != 0) {
        ruleError(mapping,
                  fmt::format("shard=gated wants equal gate and up halves, "
                              "but dimension 0 is {}",
                              rows),
                  diagnostics);
        return false;
      }
      type.sections[k] = {rows / 2, rows / 2};
    }
    return true;
  }
  if (kind != dsl::ShardKind::Section)
    return true;
  std::vector<Shape> leaves;
  for (const OperandType &operand : type.hf)
    leaves.push_back(operand.shape);
  std::vector<int64_t> extents = pieceExtents(mapping.hf, leaves, hfNames);
  const std::vector<std::string> &names = mapping.shard.sections;
  if (type.megatron.size() != 1 || extents.empty() ||
      (!names.empty() && names.size() != extents.size())) {
    ruleError(
        mapping,
        fmt::format("shard=section wants one tensor on the left and a concat "
                    "along dimension 0 on the right; it names {} sections and "
                    "the right side has {} pieces",
                    names.size(), extents.size()),
        diagnostics);
    return false;
  }
  type.sections[0] = extents;
  return true;
}

// --- divisions ---

/// An extent that has to divide, and what it is called.
static void checkExtent(const dsl::Mapping &mapping, int64_t extent,
                        int64_t ranks, std::string_view what,
                        std::string_view name, std::string_view option,
                        dsl::Diagnostics &diagnostics) {
  if (extent % ranks != 0)
    ruleError(
        mapping,
        fmt::format("{}: {} {} do not divide by {} ({}); legal values are {}",
                    name, extent, what, ranks, option,
                    legalValues(extent, [](int64_t) { return true; })),
        diagnostics);
}

static bool headsFit(const std::vector<int64_t> &heads, int64_t ranks) {
  if (heads.empty())
    return true;
  if (heads[0] % ranks != 0)
    return false;
  return std::all_of(heads.begin() + 1, heads.end(), [&](int64_t groups) {
    return groups % ranks == 0 || ranks % groups == 0;
  });
}

static void checkHeads(const dsl::Mapping &mapping, int64_t ranks,
                       std::string_view name, std::string_view option,
                       dsl::Diagnostics &diagnostics) {
  const std::vector<int64_t> &heads = mapping.shard.heads;
  if (headsFit(heads, ranks))
    return;
  std::string legal =
      legalValues(heads[0], [&](int64_t t) { return headsFit(heads, t); });
  if (heads[0] % ranks != 0) {
    ruleError(mapping,
              fmt::format("{}: {} query heads do not divide by {} ({}); legal "
                          "values are {}",
                          name, heads[0], ranks, option, legal),
              diagnostics);
    return;
  }
  for (int64_t groups : std::span(heads).subspan(1))
    if (groups % ranks != 0 && ranks % groups != 0)
      ruleError(mapping,
                fmt::format("{}: {} key-value heads and {} ranks ({}): neither "
                            "divides the other; legal values are {}",
                            name, groups, ranks, option, legal),
                diagnostics);
}

void checkDivisions(const RuleClass &type, std::span<const std::string> names,
                    const ParallelLayout &layout,
                    dsl::Diagnostics &diagnostics) {
  const dsl::Mapping &mapping = *type.mapping;
  const dsl::Shard &shard = mapping.shard;
  int64_t ranks = shard.expert ? layout.etp : layout.tp;
  std::string_view option = shard.expert ? "--etp" : "--tp";
  if (ranks == 1)
    return;
  size_t errors = diagnostics.all().size();
  for (size_t k = 0; k != type.megatron.size(); ++k) {
    const Shape &shape = type.megatron[k].shape;
    switch (shard.kind) {
    case dsl::ShardKind::Replicated:
    case dsl::ShardKind::Vocab: // padded to a multiple
      break;
    case dsl::ShardKind::Column:
      checkHeads(mapping, ranks, names[k], option, diagnostics);
      if (diagnostics.all().size() == errors && !shape.empty())
        checkExtent(mapping, shape[0], ranks, "rows", names[k], option,
                    diagnostics);
      break;
    case dsl::ShardKind::Row:
      if (shape.rank() > 1)
        checkExtent(mapping, shape[1], ranks, "columns", names[k], option,
                    diagnostics);
      break;
    case dsl::ShardKind::Dim:
      if (static_cast<size_t>(shard.dim) < shape.rank())
        checkExtent(mapping, shape[shard.dim], ranks,
                    fmt::format("elements along dimension {}", shard.dim),
                    names[k], option, diagnostics);
      else
        ruleError(mapping,
                  fmt::format("shard=dim={}, but {} has shape {}", shard.dim,
                              names[k], toString(shape)),
                  diagnostics);
      break;
    case dsl::ShardKind::Gated:
      if (!type.sections[k].empty())
        checkExtent(mapping, type.sections[k][0], ranks, "gate rows", names[k],
                    option, diagnostics);
      break;
    case dsl::ShardKind::Section:
      for (size_t i = 0; i != type.sections[k].size(); ++i)
        checkExtent(mapping, type.sections[k][i], ranks,
                    shard.sections.empty()
                        ? fmt::format("rows of section {}", i)
                        : fmt::format("{} rows", shard.sections[i]),
                    names[k], option, diagnostics);
      break;
    }
    if (diagnostics.all().size() != errors)
      return; // operands of one rule fail alike
  }
}

// --- names that are missing or left over ---

static std::string layersHint(const std::vector<std::string> &names) {
  static constexpr std::string_view marker = ".layers.";
  std::set<long long> layers;
  for (const std::string &name : names) {
    size_t at = name.find(marker);
    if (at == std::string::npos)
      return {};
    layers.insert(std::strtoll(name.c_str() + at + marker.size(), nullptr, 10));
  }
  if (layers.size() < 2)
    return {};
  return fmt::format(
      "; all of them are in layers {} to {}: config.json and the "
      "files may belong to different models",
      *layers.begin(), *layers.rbegin());
}

static std::string suggestion(const std::string &name,
                              const std::vector<std::string> &candidates) {
  if (candidates.empty() || candidates.size() > 500)
    return {};
  std::string near = dsl::didYouMean(name, candidates);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

void reportMissing(const std::vector<std::pair<std::string, uint32_t>> &missing,
                   const std::vector<std::string> &leftOver,
                   const dsl::Model &model, const Checkpoint &checkpoint,
                   dsl::Diagnostics &diagnostics) {
  std::vector<std::string> names;
  for (const auto &[name, instance] : missing)
    names.push_back(name);
  std::string hint = layersHint(names);
  for (const NameGroup &group : groupNames(names)) {
    const dsl::RuleInstance &instance =
        model.instances[missing[group.first].second];
    const dsl::Mapping &mapping = model.mappings[instance.mapping];
    bool readsHf = checkpoint.format == Format::Safetensors;
    const std::vector<std::string> &made =
        readsHf ? instance.megatron : instance.hf;
    std::string text =
        fmt::format("{} is not in {}", group.text, checkpoint.root);
    if (!made.empty())
      text += fmt::format("; {} {} has no source", made.front(),
                          group.count > 1 ? "(and its like)" : "therefore");
    ruleError(mapping, text + suggestion(names[group.first], leftOver) + hint,
              diagnostics);
  }
}

void reportLeftOver(
    const std::vector<std::string> &leftOver,
    const std::vector<std::pair<std::string, uint32_t>> &missing,
    const dsl::Model &model, dsl::Diagnostics &diagnostics) {
  std::vector<std::string> candidates;
  for (const auto &[name, instance] : missing)
    candidates.push_back(name);
  std::string hint = leftOver.size() > 1 ? layersHint(leftOver) : "";
  for (const NameGroup &group : groupNames(leftOver))
    diagnostics.error(
        {}, fmt::format("{} is read by no rule of {}; map it, or name it "
                        "after `ignore`{}{}",
                        group.text, model.name,
                        suggestion(leftOver[group.first], candidates), hint));
}

} // namespace mbc::compiler
