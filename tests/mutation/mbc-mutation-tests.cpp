#include "dsl/Parse.h"
#include "tests/end-to-end/Scratch.h"
#include "tests/mutation/Judge.h"
#include "tests/mutation/Mutant.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace mbc;
using namespace mbc::test;

namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string family; ///< one of specs/, all if empty
  std::string damage; ///< one kind, all if empty
  size_t every = 1;   ///< each so-manieth mutant only
  double atLeast = 0; ///< percent, below which the run fails
  bool list = false;  ///< what was not caught, one a line
};

struct Family {
  std::string name;
  std::vector<SpecFile> files;
  std::vector<std::string> architectures, modelTypes;
  bool hasExperts = false;
  std::vector<Fixture> fixtures;
};

using Counts = std::map<Verdict, size_t>;
using Table = std::map<std::string, Counts>;

[[noreturn]] void stop(const std::string &why) {
  fmt::print(stderr, "error: {}\n", why);
  std::exit(2);
}

bool contains(const std::vector<std::string> &words, const std::string &word) {
  return std::ranges::find(words, word) != words.end();
}

Family readFamily(const fs::path &path) {
  dsl::Diagnostics diagnostics;
  dsl::ParseResult spec = dsl::parseFile(path.string(), {}, diagnostics);
  if (!spec)
    stop(path.string() + " does not parse");
  Family family;
  family.name = path.stem();
  const auto header = dsl::header(*spec);
  family.architectures = header.architectures;
  family.modelTypes = header.modelTypes;
  family.hasExperts = spec->model->experts != nullptr;
  for (const auto &file : spec->files)
    family.files.push_back({file->name, file->text});
  return family;
}

/// The fixtures of a family, by the class and the type in their config.json.
void addFixtures(Family &family, const Scratch &scratch) {
  std::string spec = scratch / family.name + ".mbspec";
  writeText(spec, bundleOf(family.files));
  for (const auto &entry : fs::directory_iterator(MBC_TEST_DATA)) {
    fs::path config = entry.path() / "config.json";
    if (!fs::exists(config))
      continue;
    auto json = nlohmann::json::parse(readText(config));
    if (!contains(family.modelTypes, json.at("model_type")) ||
        !contains(family.architectures, json.at("architectures").at(0)))
      continue;
    std::string name = family.name + "-" + entry.path().filename().string();
    Result<Fixture> fixture =
        Fixture::make(entry.path(), scratch / name, spec, family.hasExperts);
    if (!fixture)
      stop(fixture.error().message);
    family.fixtures.push_back(std::move(*fixture));
  }
}

std::vector<Mutant> chosen(const Family &family, const Arguments &arguments) {
  std::vector<Mutant> mutants = mutantsOf(family.files), some;
  for (size_t i = 0; i < mutants.size(); i += arguments.every)
    if (arguments.damage.empty() || mutants[i].damage == arguments.damage)
      some.push_back(std::move(mutants[i]));
  return some;
}

std::vector<Judgement> judgeAll(const Family &family,
                                const std::vector<Mutant> &mutants,
                                const Scratch &scratch) {
  std::vector<Judgement> judgements(mutants.size());
  std::atomic<size_t> next = 0;
  auto work = [&](unsigned thread) {
    std::string folder = scratch / fmt::format("thread{}", thread);
    fs::create_directories(folder);
    std::string spec = folder + "/mutant.mbspec";
    for (size_t i; (i = next++) < mutants.size();) {
      writeText(spec, bundleOf(family.files, mutants[i]));
      for (const Fixture &fixture : family.fixtures) {
        judgements[i] = worst(judgements[i], fixture.judge(spec, folder));
        if (judgements[i].verdict == Verdict::Values)
          break; // nothing is worse
      }
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i != std::max(1U, std::thread::hardware_concurrency());
       ++i)
    threads.emplace_back(work, i);
  threads.clear();
  return judgements;
}

void print(const Table &table) {
  fmt::print("{:40} {:>7} {:>6} {:>6} {:>8} {:>7} {:>7} {:>7}\n", "", "mutants",
             "equal", "errors", "warnings", "values", "silent", "caught");
  for (const auto &[name, counts] : table) {
    auto of = [&](Verdict verdict) {
      auto found = counts.find(verdict);
      return found == counts.end() ? 0 : found->second;
    };
    size_t caught = of(Verdict::Error) + of(Verdict::Warning);
    size_t differ = caught + of(Verdict::Values) + of(Verdict::Silent);
    fmt::print("{:40} {:7} {:6} {:6} {:8} {:7} {:7} {:>7}\n", name,
               differ + of(Verdict::Equivalent), of(Verdict::Equivalent),
               of(Verdict::Error), of(Verdict::Warning), of(Verdict::Values),
               of(Verdict::Silent),
               differ == 0 ? ""
                           : fmt::format("{:.1f}%",
                                         100.0 * static_cast<double>(caught) /
                                             static_cast<double>(differ)));
  }
}

double share(const Counts &counts) {
  double caught = 0, differ = 0;
  for (auto [verdict, count] : counts) {
    auto number = static_cast<double>(count);
    caught +=
        verdict == Verdict::Error || verdict == Verdict::Warning ? number : 0;
    differ += verdict == Verdict::Equivalent ? 0 : number;
  }
  return differ == 0 ? 100 : 100 * caught / differ;
}

Arguments parse(int count, char **words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    std::string value = i + 1 < count ? words[i + 1] : "";
    if (word == "--list") {
      arguments.list = true;
      continue;
    }
    ++i;
    if (word == "--family")
      arguments.family = value;
    else if (word == "--damage")
      arguments.damage = value;
    else if (word == "--every")
      arguments.every = std::stoul(value);
    else if (word == "--at-least")
      arguments.atLeast = std::stod(value);
    else
      stop("usage: mbc-mutation-tests [--family NAME] [--damage KIND] "
           "[--every N] [--at-least PERCENT] [--list]");
  }
  return arguments;
}

} // namespace

int main(int count, char **words) {
  Arguments arguments = parse(count, words);
  Scratch scratch;
  Table byDamage, byFamily;
  Counts all;
  std::vector<fs::path> specs;
  for (const auto &entry : fs::directory_iterator(MBC_SPECS))
    if (entry.path().extension() == ".mbspec" &&
        (arguments.family.empty() || entry.path().stem() == arguments.family))
      specs.push_back(entry.path());
  std::ranges::sort(specs);
  for (const fs::path &path : specs) {
    Family family = readFamily(path);
    addFixtures(family, scratch);
    std::vector<Mutant> mutants = chosen(family, arguments);
    std::vector<Judgement> judgements = judgeAll(family, mutants, scratch);
    for (size_t i = 0; i != mutants.size(); ++i) {
      Verdict verdict = judgements[i].verdict;
      ++byDamage[mutants[i].damage][verdict];
      ++byFamily[family.name][verdict];
      ++all[verdict];
      if (arguments.list &&
          (verdict == Verdict::Values || verdict == Verdict::Silent))
        fmt::print("{} [{}] {} | {}\n", family.name, mutants[i].damage,
                   describe(family.files, mutants[i]), judgements[i].what);
    }
  }
  print(byDamage);
  fmt::print("\n");
  print(byFamily);
  fmt::print("\n");
  print({{"all", all}});
  return share(all) < arguments.atLeast ? 1 : 0;
}
