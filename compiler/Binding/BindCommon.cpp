#include "compiler/Binding/BindCommon.h"

#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/NameGroups.h"
#include "dsl/Expression.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace mbc::compiler {

void ruleError(const dsl::Mapping &mapping, std::string text,
               dsl::Diagnostics &diagnostics) {
  diagnostics.error(mapping.where, std::move(text), mapping.expansion);
}

static void secondUse(const dsl::Model &model, std::string_view name,
                      uint32_t firstUser, uint32_t secondUser,
                      std::string_view what, dsl::Diagnostics &diagnostics) {
  const dsl::Mapping &first =
      model.mappings[model.instances[firstUser].mapping];
  const dsl::Mapping &second =
      model.mappings[model.instances[secondUser].mapping];
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

static size_t countNames(const dsl::Model &model, dsl::Side side) {
  size_t count = 0;
  for (const dsl::RuleInstance &instance : model.instances)
    count +=
        side == dsl::Side::Hf ? instance.hf.size() : instance.megatron.size();
  return count;
}

NameUses::NameUses(const dsl::Model &model, dsl::Side side,
                   dsl::Diagnostics &diagnostics)
    : model(model), diagnostics(diagnostics), table(countNames(model, side)) {}

void NameUses::use(std::string_view name, uint32_t instance,
                   std::string_view what) {
  auto nameOf = [this](uint32_t i) { return names[i]; };
  names.push_back(name);
  users.push_back(instance);
  uint32_t before = table.put(names.size() - 1, nameOf);
  if (before == NameTable::none)
    return;
  table.put(before, nameOf); // the first use stands
  secondUse(model, name, users[before], instance, what, diagnostics);
}

bool NameUses::contains(std::string_view name) const {
  return table.find(name, [this](uint32_t i) { return names[i]; }) !=
         NameTable::none;
}

void TensorUses::use(uint32_t tensor, uint32_t instance,
                     std::string_view what) {
  uint32_t &user = users[tensor];
  if (user == noUser)
    user = instance;
  else
    secondUse(model, checkpoint.tensors[tensor].name, user, instance, what,
              diagnostics);
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
    for (const Shape &shape : {type.shape, type.order})
      for (int64_t extent : shape)
        mix(extent);
    mix(type.parts.size() * 4 + type.scale.has_value() * 2 +
        type.encoding.has_value());
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

uint32_t ClassTable::add(uint32_t mapping, std::vector<OperandType> types,
                         std::optional<RuleClass> type) {
  uint32_t index = type ? binding.classes.size() : rejected;
  uint64_t hash = hashOf(mapping, types);
  entries[hash].push_back({mapping, std::move(types), index});
  if (type)
    binding.classes.emplace_back().type = std::move(*type);
  return index;
}

void ClassTable::addInstance(uint32_t index, uint32_t instance,
                             const std::vector<SourceRef> &refs) {
  if (index == rejected)
    return;
  BoundClass &bound = binding.classes[index];
  bound.instances.push_back(instance);
  bound.refsPerInstance = refs.size();
  bound.refs.insert(bound.refs.end(), refs.begin(), refs.end());
}

void shapeError(const dsl::Mapping &mapping, const ShapeError &error,
                dsl::Diagnostics &diagnostics) {
  dsl::SourceRange where = error.where.file ? error.where : mapping.where;
  diagnostics.error(where, error.text + dsl::correction(mapping.configFields),
                    mapping.expansion);
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

std::string nameWithRank(const StoredTensor &tensor) {
  return tensor.rank.empty() ? std::string(tensor.name)
                             : fmt::format("{} ({})", tensor.name, tensor.rank);
}

BoundComparison wholeComparison(const Checkpoint &checkpoint, uint32_t copy,
                                uint32_t owner) {
  const StoredTensor &tensor = checkpoint.tensors[copy];
  BoundComparison comparison;
  comparison.copy = {copy, 0};
  comparison.hasOwner = true;
  comparison.owner = {owner, 0};
  comparison.bytes = tensor.shape->elements() * byteSize(tensor.dtype);
  int64_t rows = tensor.shape->empty() ? 1 : (*tensor.shape)[0];
  comparison.rowBytes = comparison.bytes / std::max<int64_t>(rows, 1);
  comparison.copyName = nameWithRank(tensor);
  comparison.ownerName = nameWithRank(checkpoint.tensors[owner]);
  return comparison;
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
  std::vector<int64_t> extents = sectionExtents(mapping.hf, leaves, hfNames);
  const std::vector<std::string> &names = mapping.shard.sections;
  if (type.megatron.size() != 1 || extents.empty() ||
      (!names.empty() && names.size() != extents.size())) {
    ruleError(mapping,
              fmt::format(
                  "shard=section wants one tensor on the left and a concat "
                  "along dimension 0 or a deinterleave on the right; it names "
                  "{} sections and "
                  "the right side has {} pieces",
                  names.size(), extents.size()),
              diagnostics);
    return false;
  }
  type.sections[0] = extents;
  return true;
}

// --- names that are missing or left over ---

/// Whether names lack (or are) whole layers: then config.json is suspect.
static std::string layersHint(const std::vector<std::string> &names) {
  static constexpr std::string_view marker = ".layers.";
  std::set<long long> layers;
  for (const std::string &name : names) {
    size_t at = name.find(marker);
    if (at == std::string::npos)
      return {};
    layers.insert(std::strtoll(name.c_str() + at + marker.size(), nullptr, 10));
  }
  if (layers.empty() || names.size() < 6 * layers.size())
    return {};
  std::string range =
      layers.size() == 1
          ? fmt::format("layer {}", *layers.begin())
          : fmt::format("layers {} to {}", *layers.begin(), *layers.rbegin());
  return fmt::format("; all of them are in {}: config.json and the files may "
                     "belong to different models",
                     range);
}

static std::string suggestion(const std::string &name,
                              const std::vector<std::string> &candidates) {
  // The distance of very long names costs more than a hint is worth.
  auto isLong = [](const std::string &text) { return text.size() > 500; };
  if (candidates.empty() || candidates.size() > 500 || isLong(name) ||
      std::any_of(candidates.begin(), candidates.end(), isLong))
    return {};
  std::string near = dsl::didYouMean(name, candidates);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

/// With more groups than this, each is one line of a list.
static constexpr size_t maxPlacedGroups = 4, maxListedGroups = 20;

static std::string placeOf(const dsl::Mapping &mapping) {
  if (!mapping.where.file)
    return {};
  const std::string &path = mapping.where.file->path;
  return fmt::format("  ({}:{})", path.substr(path.rfind('/') + 1),
                     mapping.where.line);
}

std::string listOf(const std::vector<NameGroup> &groups) {
  constexpr size_t most = 4;
  std::string text;
  for (size_t i = 0; i != std::min(groups.size(), most); ++i)
    text += (i ? ", " : "") + groups[i].text;
  if (groups.size() > most)
    text += fmt::format(" and {} more kinds", groups.size() - most);
  return text;
}

void reportMissing(const std::vector<std::pair<std::string, uint32_t>> &missing,
                   const std::vector<std::string> &leftOver,
                   const dsl::Model &model, const Checkpoint &checkpoint,
                   dsl::Diagnostics &diagnostics) {
  std::vector<std::string> names;
  for (const auto &[name, instance] : missing)
    names.push_back(name);
  std::string hint = layersHint(names);
  std::vector<NameGroup> groups = groupNames(names);
  auto mappingOf = [&](const NameGroup &group) -> const dsl::Mapping & {
    return model.mappings[model.instances[missing[group.first].second].mapping];
  };
  if (groups.size() > maxPlacedGroups) {
    std::string text = fmt::format("{} tensors that rules read are not in {}{}",
                                   names.size(), checkpoint.root, hint);
    for (size_t i = 0; i != std::min(groups.size(), maxListedGroups); ++i)
      text += "\n  " + groups[i].text + placeOf(mappingOf(groups[i]));
    if (groups.size() > maxListedGroups)
      text +=
          fmt::format("\n  and {} more kinds", groups.size() - maxListedGroups);
    diagnostics.error({}, std::move(text));
    return;
  }
  bool readsHf = checkpoint.format == Format::Safetensors;
  for (const NameGroup &group : groups) {
    const dsl::Mapping &mapping = mappingOf(group);
    std::string text =
        fmt::format("{} is not in {}", group.text, checkpoint.root);
    std::vector<std::string> made;
    std::set<uint32_t> instances; // one may miss several names
    for (size_t i = group.first; i != missing.size(); ++i) {
      const dsl::RuleInstance &instance = model.instances[missing[i].second];
      if (&model.mappings[instance.mapping] == &mapping &&
          instances.insert(missing[i].second).second)
        for (const std::string &name :
             readsHf ? instance.megatron : instance.hf)
          made.push_back(name);
    }
    if (!made.empty())
      text += fmt::format("; {} {} no source", listOf(groupNames(made)),
                          made.size() > 1 ? "have" : "has");
    std::vector<dsl::Note> notes = mapping.expansion;
    notes.insert(notes.end(), mapping.conditions.begin(),
                 mapping.conditions.end());
    diagnostics.error(mapping.where,
                      text + suggestion(names[group.first], leftOver) + hint,
                      std::move(notes));
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
