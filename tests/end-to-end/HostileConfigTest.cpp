#include "tests/end-to-end/MegatronArgs.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

// A config.json with one value that its author did not think of: every number
// and truth value of every fixture, each with values of all kinds and sizes.
// Nothing crashes; what is not refused gives Megatron arguments of the kinds
// that it had. A run takes a few of each fixture;
//
//     MBC_HOSTILE=all bin/mbc-end-to-end-tests --gtest_filter='*HostileConfig*'
//
// takes all, for half an hour, and MBC_HOSTILE=NUMBER those of a seed.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

struct Change {
  Json::json_pointer field;
  Json value;
};

/// Values of each kind, and those beside the one that is there.
std::vector<Json> hostileValues(const Json &old) {
  std::vector<Json> values = {0,
                              -1,
                              1,
                              3,
                              1.5,
                              "4",
                              true,
                              Json::array({1}),
                              nullptr,
                              int64_t{1'000'000'000},
                              int64_t{1} << 62,
                              Json::object()};
  if (old.is_number_integer())
    for (int64_t other : {old.get<int64_t>() + 1, old.get<int64_t>() - 1,
                          old.get<int64_t>() * 2})
      values.push_back(other);
  std::erase_if(values, [&](const Json &value) {
    return value == old && value.type() == old.type();
  });
  return values;
}

void addChanges(const Json &part, const Json::json_pointer &at,
                std::vector<Change> &changes) {
  for (const auto &[name, value] : part.items()) {
    const Json::json_pointer field = at / name;
    if (value.is_object())
      addChanges(value, field, changes);
    else if (value.is_number() || value.is_boolean() || value.is_null())
      for (Json &other : hostileValues(value))
        changes.push_back({field, std::move(other)});
  }
}

/// All changes, or a few.
std::vector<Change> changesOf(const HfModel &model, uint64_t salt) {
  std::vector<Change> changes;
  addChanges(model.config, Json::json_pointer(), changes);
  const char *wish = std::getenv("MBC_HOSTILE");
  if (wish && std::string(wish) == "all")
    return changes;
  const uint64_t seed =
      wish ? std::strtoull(wish, nullptr, 10)
           : 1;
  std::mt19937_64 random(seed + salt);
  std::ranges::shuffle(changes, random);
  constexpr size_t few = 2;
  changes.resize(std::min(changes.size(), few));
  return changes;
}

std::string kindOf(const Json &value) {
  return value.is_number()    ? "number"
         : value.is_boolean() ? "truth value"
         : value.is_string()  ? "word"
         : value.is_array()   ? "list"
                              : "null";
}

/// "" if Megatron reads both alike.
std::string otherKind(const std::string &name, const Json &before,
                      const Json &after) {
  // Numbers for all layers, or one for each; whole numbers by chance.
  static const std::set<std::string> eitherWay = {"moe_layer_freq",
                                                  "window_size", "rotary_base"};
  static const std::set<std::string> reals = {
      "rotary_base", "beta_fast", "beta_slow", "query_pre_attn_scalar"};
  if (before.is_null() || after.is_null())
    return "";
  if (kindOf(before) != kindOf(after))
    return eitherWay.contains(name)
               ? ""
               : fmt::format("{} is {}, a {}, and was a {}", name, after.dump(),
                             kindOf(after), kindOf(before));
  if (before.is_number_integer() && !after.is_number_integer() &&
      !reals.contains(name))
    return fmt::format("{} is {}, and was whole", name, after.dump());
  return "";
}

class HostileConfig : public testing::TestWithParam<std::string> {
protected:
  Outcome convert() const {
    fs::remove_all(scratch_ / "mg");
    return mbc(
        {"convert", scratch_ / "hf", scratch_ / "mg", "--copies", "drop"});
  }

  Scratch scratch_;
};

TEST_P(HostileConfig, IsRefusedOrKeepsTheKindsOfArguments) {
  HfModel model = fixture(GetParam());
  model.write(scratch_ / "hf");
  ASSERT_EQ(convert().status, 0);
  const Json before = megatronArgs(scratch_ / "mg");
  for (const Change &change :
       changesOf(model, std::hash<std::string>()(GetParam()))) {
    Json config = model.config;
    config[change.field] = change.value;
    writeText(scratch_ / "hf/config.json", config.dump(1));
    const Outcome outcome = convert();
    const std::string what =
        fmt::format("{} = {}", change.field.to_string(), change.value.dump());
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 1)
        << what << " ends with " << outcome.status << "\n"
        << outcome.err;
    if (outcome.status != 0)
      continue;
    const Json after = megatronArgs(scratch_ / "mg");
    for (const auto &[name, value] : before.items())
      EXPECT_EQ(otherKind(name, value, after.value(name, Json())), "") << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HostileConfig,
                         testing::ValuesIn(allFixtures()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace mbc::test
