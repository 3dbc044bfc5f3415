#include "compiler/Binding/Numbering.h"

#include "compiler/Binding/BindCommon.h"
#include "runtime/MegatronNames.h"

#include <algorithm>
#include <array>
#include <compare>
#include <fmt/format.h>
#include <set>

namespace mbc::compiler {
namespace {

/// The first few numbers of a name: half a million names are looked at, so
/// there is no allocation for each.
struct Numbers {
  std::array<int64_t, 6> values{};
  size_t count = 0;

  void add(int64_t value) {
    if (count != values.size())
      values[count++] = value;
  }
  friend auto operator<=>(const Numbers &a, const Numbers &b) {
    return std::lexicographical_compare_three_way(
        a.values.begin(), a.values.begin() + a.count, b.values.begin(),
        b.values.begin() + b.count);
  }
  friend bool operator==(const Numbers &, const Numbers &) = default;
};

bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// The numbers that stand for layers and experts: whole segments, and those
/// behind `weight` or `bias`.
Numbers numbersOf(std::string_view name) {
  Numbers numbers;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    std::string_view segment = name.substr(begin, end - begin);
    for (std::string_view stem : {"weight", "bias"})
      if (segment.starts_with(stem))
        segment.remove_prefix(stem.size());
    if (!segment.empty() && std::ranges::all_of(segment, isDigit)) {
      int64_t value = 0;
      for (char digit : segment.substr(0, 18)) // more digits name nothing
        value = value * 10 + (digit - '0');
      numbers.add(value);
    }
    begin = end + 1;
  }
  return numbers;
}

class Numbering {
public:
  Numbering(const dsl::Model &model, dsl::Diagnostics &diagnostics)
      : model(model), diagnostics(diagnostics),
        instancesOf(model.mappings.size()), outside(model.mappings.size()) {}

  void check() {
    for (uint32_t i = 0; i != model.instances.size(); ++i) {
      const dsl::RuleInstance &instance = model.instances[i];
      instancesOf[instance.mapping].push_back(i);
      for (const std::string &name : instance.megatron)
        checkRange(instance, name);
    }
    reportAbsentLayers();
    reportAbsentMtpLayers();
    for (const std::vector<uint32_t> &instances : instancesOf)
      checkOrder(instances);
  }

private:
  const dsl::Mapping &mappingOf(const dsl::RuleInstance &instance) const {
    return model.mappings[instance.mapping];
  }

  void checkRange(const dsl::RuleInstance &instance, const std::string &name) {
    MegatronName parsed = parseMegatronName(name);
    if (parsed.layer)
      layers.insert(*parsed.layer);
    if (parsed.mtp)
      mtpLayers.insert(*parsed.mtp);
    for (auto [number, count, what] :
         {std::tuple{parsed.layer, model.layers, "decoder layers"},
          std::tuple{parsed.expert, model.experts, "experts"}})
      if (number && !parsed.draft && // a draft module has numbers of its own
          *number >= count && !outside[instance.mapping]) {
        outside[instance.mapping] = true;
        ruleError(mappingOf(instance),
                  fmt::format("{} is one of {} {}, numbered from 0: the model "
                              "declares no more",
                              name, count, what),
                  diagnostics);
      }
  }

  void reportAbsentLayers() {
    for (int64_t layer = 0; layer < model.layers; ++layer)
      if (!layers.empty() && !layers.contains(layer)) {
        diagnostics.error({}, fmt::format("{} declares {} decoder layers, and "
                                          "no rule gives layer {}",
                                          model.name, model.layers, layer));
        return;
      }
  }

  /// There is no count of MTP layers to compare with: they are the first ones.
  void reportAbsentMtpLayers() {
    int64_t next = 0;
    for (int64_t layer : mtpLayers)
      if (layer != next++) {
        diagnostics.error({}, fmt::format("a rule gives mtp.layers.{} of {}, "
                                          "and none mtp.layers.{}",
                                          layer, model.name, next - 1));
        return;
      }
  }

  /// The instances of a rule, by Megatron's numbers: each operand's numbers
  /// rise, and inside an instance those of a range do.
  void checkOrder(std::vector<uint32_t> instances) {
    std::vector<std::pair<Numbers, uint32_t>> sorted;
    for (uint32_t i : instances)
      if (const dsl::RuleInstance &instance = model.instances[i];
          !instance.megatron.empty() && !instance.hf.empty())
        sorted.emplace_back(numbersOf(instance.megatron.front()), i);
    std::ranges::sort(sorted);
    for (size_t at = 0; at != sorted.size(); ++at) {
      const dsl::RuleInstance &instance = model.instances[sorted[at].second];
      const dsl::RuleInstance *before =
          at == 0 ? nullptr : &model.instances[sorted[at - 1].second];
      if (!rises(instance, before, instance.hf, before ? &before->hf : nullptr))
        return;
      if (!rises(instance, before, instance.megatron,
                 before ? &before->megatron : nullptr))
        return;
    }
  }

  /// The operands of a side against those of the instance before, and those of
  /// a range against one another.
  bool rises(const dsl::RuleInstance &instance, const dsl::RuleInstance *before,
             const std::vector<std::string> &names,
             const std::vector<std::string> *namesBefore) {
    for (size_t k = 0; k != names.size(); ++k) {
      Numbers numbers = numbersOf(names[k]);
      if (namesBefore && k < namesBefore->size() &&
          numbers < numbersOf((*namesBefore)[k]))
        return turned(instance,
                      fmt::format("{} belongs to {}, and {} to {}",
                                  (*namesBefore)[k], before->megatron.front(),
                                  names[k], instance.megatron.front()));
      if (k != 0 && sameButNumbers(names[k], names[k - 1]) &&
          numbers < numbersOf(names[k - 1]))
        return turned(instance, fmt::format("{} stands behind {}", names[k],
                                            names[k - 1]));
    }
    return true;
  }

  static bool sameButNumbers(std::string_view a, std::string_view b) {
    auto nextLetter = [](std::string_view name, size_t at) {
      while (at != name.size() && isDigit(name[at]))
        ++at;
      return at;
    };
    size_t i = 0, j = 0;
    for (;; ++i, ++j) {
      i = nextLetter(a, i);
      j = nextLetter(b, j);
      if (i == a.size() || j == b.size())
        return i == a.size() && j == b.size();
      if (a[i] != b[j])
        return false;
    }
  }

  bool turned(const dsl::RuleInstance &instance, const std::string &example) {
    ruleError(
        mappingOf(instance),
        fmt::format("the order of layers or experts turns around: {}", example),
        diagnostics);
    return false;
  }

  const dsl::Model &model;
  dsl::Diagnostics &diagnostics;
  std::vector<std::vector<uint32_t>> instancesOf; ///< by mapping
  std::vector<bool> outside; ///< mappings with a reported number
  std::set<int64_t> layers, mtpLayers;
};

} // namespace

void checkNumbering(const dsl::Model &model, dsl::Diagnostics &diagnostics) {
  Numbering(model, diagnostics).check();
}

} // namespace mbc::compiler
