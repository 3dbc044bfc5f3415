#include "compiler/ProofText.h"

#include "compiler/Binding/NameGroups.h"
#include "compiler/ValueLoss.h"
#include "runtime/Json.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <nlohmann/json.hpp>

namespace mbc::compiler {
namespace {

using At = RoundTrip::At;

/// Elements and values of a class that are not the same after there and back.
std::vector<std::string> losses(const RuleClass &rule, const RoundTrip &trip) {
  std::vector<std::string> found;
  if (trip.hfElements == 0)
    found.push_back(fmt::format("{} elements have no source and start as a "
                                "constant",
                                trip.filled));
  else if (trip.filled != 0)
    found.push_back(fmt::format("{} elements of padding are constants, and "
                                "are dropped on the way back",
                                trip.filled));
  if (trip.repeated != 0)
    found.push_back(fmt::format("{} Megatron elements repeat others; the way "
                                "back reads one of each",
                                trip.repeated));
  for (const ZeroRange &range : trip.zeros)
    found.push_back(fmt::format("{} elements of Hugging Face have no place in "
                                "Megatron and have to be zeros, which the "
                                "import checks",
                                range.count));
  for (std::string &loss : valueLosses(rule))
    found.push_back(std::move(loss));
  return found;
}

std::string sizeText(const ShardLayout &size) {
  std::string text = fmt::format("TP {}", size.tp);
  if (size.tp != size.etp)
    text += fmt::format(" ETP {}", size.etp);
  if (size.ep != 1)
    text += fmt::format(" EP {}", size.ep);
  return text;
}

std::string sizesText(const RoundTrip &trip, std::span<const ShardLayout> sizes,
                      At at) {
  std::vector<std::string> list;
  for (size_t i = 0; i != trip.at.size(); ++i)
    if (trip.at[i] == at)
      list.push_back(sizeText(sizes[i]));
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string place(const dsl::Mapping &mapping) {
  return mapping.where.file ? fmt::format("{}:{}",
                                          mapping.where.file->name.empty()
                                              ? mapping.where.file->path
                                              : mapping.where.file->name,
                                          mapping.where.line)
                            : "";
}

/// The Megatron tensors of a class, each kind once, with its numbers.
std::string tensorsText(const dsl::Model &model, const BoundClass &bound) {
  std::vector<std::string> all, kinds;
  for (uint32_t instance : bound.instances)
    std::ranges::copy(model.instances[instance].megatron,
                      std::back_inserter(all));
  for (NameGroup &group : groupNames(all))
    kinds.push_back(std::move(group.names));
  return fmt::format("{}", fmt::join(kinds, ", "));
}

} // namespace

std::string proofText(const dsl::Model &model, const Binding &binding,
                      std::span<const RoundTrip> trips,
                      std::span<const ShardLayout> sizes) {
  std::string text;
  size_t exact = 0, proven = 0;
  for (size_t i = 0; i != binding.classes.size(); ++i) {
    const BoundClass &bound = binding.classes[i];
    std::vector<std::string> lines = losses(bound.type, trips[i]);
    std::string lost = sizesText(trips[i], sizes, At::Lost);
    std::string refused = sizesText(trips[i], sizes, At::Indivisible);
    exact += lines.empty() && lost.empty();
    proven += lost.empty();
    text += fmt::format(
        "{:6} x  {:<60} {:>12} elements  {}  [{}]\n", bound.instances.size(),
        tensorsText(model, bound), trips[i].megatronElements,
        lost.empty() ? lines.empty() ? "exact" : "in place" : "NOT INVERSE",
        place(*bound.type.mapping));
    if (!lost.empty())
      text += fmt::format("          not inverse at {}\n", lost);
    if (!refused.empty())
      text += fmt::format("          does not divide at {}\n", refused);
    for (const std::string &line : lines)
      text += fmt::format("          {}\n", line);
  }
  std::vector<std::string> names;
  for (const ShardLayout &size : sizes)
    names.push_back(sizeText(size));
  return text + fmt::format("{}: {} of {} classes of rules come back element "
                            "by element at {}; {} of them bit by bit\n",
                            model.name, proven, binding.classes.size(),
                            fmt::join(names, ", "), exact);
}

std::string proofJson(const dsl::Model &model, const Binding &binding,
                      std::span<const RoundTrip> trips,
                      std::span<const ShardLayout> sizes) {
  Json rows = Json::array();
  for (size_t i = 0; i != binding.classes.size(); ++i) {
    const BoundClass &bound = binding.classes[i];
    Json results = Json::array();
    for (size_t k = 0; k != sizes.size(); ++k)
      results.push_back(
          {{"tp", sizes[k].tp},
           {"etp", sizes[k].etp},
           {"ep", sizes[k].ep},
           {"result", trips[i].at[k] == At::Proven ? "proven"
                      : trips[i].at[k] == At::Lost ? "lost"
                                                   : "indivisible"}});
    rows.push_back(
        {{"tensors", tensorsText(model, bound)},
         {"place", place(*bound.type.mapping)},
         {"first", model.instances[bound.instances.front()].megatron.front()},
         {"instances", bound.instances.size()},
         {"hf_elements", trips[i].hfElements},
         {"megatron_elements", trips[i].megatronElements},
         {"constants", trips[i].filled},
         {"repeated", trips[i].repeated},
         {"sizes", results},
         {"losses", losses(bound.type, trips[i])}});
  }
  return rows.dump(1) + "\n";
}

} // namespace mbc::compiler
