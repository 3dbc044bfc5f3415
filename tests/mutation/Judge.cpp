#include "tests/mutation/Judge.h"

#include "tests/fixtures/HfDirectory.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace mbc::test {
namespace {

/// The first entry that differs, or "".
template <typename Entries>
std::string firstDifference(const Entries &a, const Entries &b) {
  std::vector<typename Entries::value_type> differ;
  std::ranges::set_symmetric_difference(a, b, std::back_inserter(differ));
  if (differ.empty())
    return "";
  if constexpr (requires { differ[0].first; })
    return differ[0].first;
  else
    return differ[0];
}

Judgement compare(const Contents &a, const Contents &b, const char *side) {
  auto differs = [&](Verdict verdict, std::string_view what,
                     const std::string &which) {
    return Judgement{verdict, fmt::format("{} {} {}", side, what, which)};
  };
  if (auto which = firstDifference(a.tensors, b.tensors); !which.empty())
    return differs(Verdict::Values, "tensor", which);
  if (auto which = firstDifference(a.places, b.places); !which.empty())
    return differs(Verdict::Silent, "place of", which);
  if (auto which = firstDifference(a.objects, b.objects); !which.empty())
    return differs(Verdict::Silent, "byte object", which);
  if (a.args != b.args)
    return differs(Verdict::Silent, "args", "");
  if (a.config != b.config)
    return differs(Verdict::Silent, "config.json", "");
  return {};
}

bool isNew(const std::set<std::string> &remarks,
           const std::set<std::string> &known) {
  return !std::ranges::includes(known, remarks);
}

/// Fills in what the shipped spec gives; false if it does not fit the layout.
Result<bool> prepare(Scenario &scenario, const std::string &folder) {
  Findings findings = check(scenario.there);
  if (!findings.holds)
    return false;
  scenario.remarks = findings.remarks;
  std::vector<uint8_t> plan = compile(scenario.there);
  if (plan.empty())
    return false;
  scenario.planThere = essence(plan);
  scenario.back.source = folder + "/megatron";
  scenario.back.spec = scenario.there.spec;
  auto megatron = convert(scenario.there, plan, scenario.back.source);
  if (!megatron)
    return std::unexpected(megatron.error());
  scenario.megatron = std::move(*megatron);
  scenario.remarksBack = check(scenario.back).remarks;
  plan = compile(scenario.back);
  if (plan.empty())
    return fail("{} does not come back", scenario.there.source);
  scenario.planBack = essence(plan);
  auto hf = convert(scenario.back, plan, folder + "/hf");
  if (!hf)
    return std::unexpected(hf.error());
  scenario.hf = std::move(*hf);
  return true;
}

Conversion with(Conversion conversion, const std::string &spec) {
  conversion.spec = spec;
  return conversion;
}

} // namespace

Result<Fixture> Fixture::make(const std::string &data,
                              const std::string &folder,
                              const std::string &spec, bool hasExperts) {
  std::string source = folder + "/source";
  std::filesystem::create_directories(source);
  if (auto made = fixtures::makeHfDirectory(data, source, false); !made)
    return fail("{}", made.error().message);
  Fixture fixture;
  auto addFirst = [&](std::vector<Conversion> choices) -> Result<bool> {
    for (Conversion &choice : choices) {
      Scenario scenario;
      scenario.there = std::move(choice);
      scenario.there.source = source;
      scenario.there.spec = spec;
      auto fits = prepare(
          scenario, fmt::format("{}/{}", folder, fixture.scenarios.size()));
      if (!fits)
        return std::unexpected(fits.error());
      if (!*fits)
        continue;
      fixture.scenarios.push_back(std::move(scenario));
      return true;
    }
    return false;
  };
  // The number of layers decides how many stages there may be.
  auto cut = [&](const char *format, const char *experts) {
    std::vector<Conversion> choices;
    for (int64_t ep : {2, 1})
      for (int64_t pp : {2, 3, 1})
        if (hasExperts || ep == 1)
          choices.push_back({"", "", format, experts, 2, pp, ep});
    return choices;
  };
  std::vector<std::vector<Conversion>> all{
      {{"", "", "torch_dist", "", 1, 1, 1}}, cut("torch", "")};
  for (auto &choices : all) {
    auto fits = addFirst(std::move(choices));
    if (!fits)
      return std::unexpected(fits.error());
    if (!*fits)
      return fail("{} fits no layout", data);
  }
  // A family with experts may have models without, whose experts have no form.
  if (hasExperts)
    if (auto fits = addFirst(cut("torch_dist", "sequential")); !fits)
      return std::unexpected(fits.error());
  return fixture;
}

std::optional<Judgement> Fixture::fromHeaders(const std::string &spec) const {
  bool warns = false;
  for (const Scenario &scenario : scenarios) {
    Findings findings = check(with(scenario.there, spec));
    if (!findings.holds)
      return Judgement{Verdict::Error, ""};
    warns |= isNew(findings.remarks, scenario.remarks);
  }
  if (warns)
    return Judgement{Verdict::Warning, ""};
  return std::nullopt;
}

Judgement Fixture::fromValues(const Scenario &scenario, const std::string &spec,
                              const std::string &scratch) const {
  Conversion there = with(scenario.there, spec);
  std::vector<uint8_t> plan = compile(there);
  if (plan.empty())
    return {Verdict::Error, ""};
  if (essence(plan) != scenario.planThere) {
    auto megatron = convert(there, plan, scratch + "/megatron");
    if (!megatron)
      return {Verdict::Values, megatron.error().message};
    Judgement judgement = compare(scenario.megatron, *megatron, "Megatron");
    if (judgement.verdict != Verdict::Equivalent)
      return judgement;
  }
  Conversion back = with(scenario.back, spec);
  Findings findings = check(back);
  if (!findings.holds)
    return {Verdict::Error, ""};
  if (isNew(findings.remarks, scenario.remarksBack))
    return {Verdict::Warning, ""};
  plan = compile(back);
  if (plan.empty())
    return {Verdict::Error, ""};
  if (essence(plan) == scenario.planBack)
    return {};
  auto hf = convert(back, plan, scratch + "/hf");
  if (!hf)
    return {Verdict::Values, hf.error().message};
  return compare(scenario.hf, *hf, "HF");
}

Judgement Fixture::judge(const std::string &spec,
                         const std::string &scratch) const {
  if (auto found = fromHeaders(spec))
    return *found;
  Judgement result;
  for (const Scenario &scenario : scenarios) {
    Judgement judgement = fromValues(scenario, spec, scratch);
    if (judgement.verdict == Verdict::Error ||
        judgement.verdict == Verdict::Warning)
      return judgement;
    result = worst(result, judgement);
    if (result.verdict == Verdict::Values)
      break;
  }
  return result;
}

Judgement worst(const Judgement &a, const Judgement &b) {
  // Tests of values see what differs in any fixture.
  static constexpr Verdict order[] = {Verdict::Values, Verdict::Silent,
                                      Verdict::Warning, Verdict::Error};
  for (Verdict verdict : order)
    if (a.verdict == verdict || b.verdict == verdict)
      return a.verdict == verdict ? a : b;
  return a;
}

} // namespace mbc::test
