#include "dsl/InvertConfig.h"

#include "tests/dsl/SpecText.h"

#include <fmt/ranges.h>

#include <gtest/gtest.h>

// Fields of config.json from arguments: what each kind of expression becomes
// when it is turned round. All values are by hand.

namespace mbc::dsl {
namespace {

Value list(std::initializer_list<Value> items) {
  return std::shared_ptr<const ValueList>(std::make_shared<ValueList>(items));
}

std::string spell(const ConfigNode &node) {
  using Kind = ConfigNode::Kind;
  std::vector<std::string> parts;
  switch (node.kind) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
    return node.integer != 0 ? "true" : "false";
  case Kind::Int:
    return fmt::format("{}", node.integer);
  case Kind::Double:
    return fmt::format("{:.1f}", node.number);
  case Kind::String:
    return node.text;
  case Kind::List:
    for (const ConfigNode &item : node.items)
      parts.push_back(spell(item));
    return fmt::format("[{}]", fmt::join(parts, " "));
  case Kind::Object:
    break;
  }
  for (const ConfigMember &member : node.members)
    parts.push_back(fmt::format("{} {}", member.name, spell(member.value)));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

using Arguments = std::vector<std::pair<std::string, Value>>;

/// The fields that are found for the `rest` of a spec, in their order.
std::string inverted(const std::string &rest, const Arguments &arguments,
                     const std::string &known = "{}") {
  Diagnostics diagnostics;
  ParseResult spec = parseText(withModel(rest), "t.mbspec", {}, diagnostics);
  if (!spec)
    return messages(diagnostics);
  std::vector<KnownArgument> all;
  for (const auto &[name, value] : arguments)
    all.push_back({name, {value}});
  const std::string found =
      spell(invertConfig(*spec, {}, *parseConfig(known), all, Value()));
  return found.substr(1, found.size() - 2);
}

TEST(InvertConfig, AFieldTakesTheValue) {
  EXPECT_EQ(inverted("config { a = hf.x b = hf.y.z c = hf.w }\n",
                     {{"a", int64_t{3}}, {"b", 2.5}, {"c", std::string("k")}}),
            "x 3, y {z 2.5}, w k");
}

TEST(InvertConfig, ArithmeticIsTurnedRound) {
  EXPECT_EQ(inverted("let E = hf.experts ?? 1\n"
                     "config { e = E shared = E * hf.shared left = hf.w - 1\n"
                     "  rest = hf.n + 2 half = hf.h / 2 less = 10 - hf.k }\n",
                     {{"e", int64_t{4}},
                      {"shared", int64_t{12}},
                      {"left", int64_t{3}},
                      {"rest", int64_t{9}},
                      {"half", int64_t{8}},
                      {"less", int64_t{3}}}),
            "experts 4, shared 3, w 4, n 7, h 16, k 7");
}

TEST(InvertConfig, ADefaultThatIsRightIsWrittenWhereItsObjectIs) {
  const std::string spec =
      "config { a = hf.x ?? 5 b = hf.o.y ?? 6 c = hf.o.z ?? 7 }\n";
  EXPECT_EQ(
      inverted(spec, {{"a", int64_t{5}}, {"b", int64_t{6}}, {"c", int64_t{7}}}),
      "x 5");
  EXPECT_EQ(
      inverted(spec, {{"a", int64_t{1}}, {"b", int64_t{6}}, {"c", int64_t{8}}}),
      "x 1, o {z 8, y 6}");
}

TEST(InvertConfig, OfFieldsThatSayTheSameTheWrittenOneTakesIt) {
  const std::string fields = "config { a = hf.x ?? hf.y ?? hf.z ?? 1";
  EXPECT_EQ(inverted(fields + " }\n", {{"a", int64_t{4}}}), "x 4");
  EXPECT_EQ(inverted(fields + " write hf.**.y }\n", {{"a", int64_t{4}}}),
            "y 4");
}

TEST(InvertConfig, WhatIsGivenStays) {
  EXPECT_EQ(inverted("config { a = hf.x b = hf.y ?? hf.z }\n",
                     {{"a", int64_t{4}}, {"b", int64_t{5}}},
                     R"({"x": 7, "z": 5})"),
            "x 7, z 5");
}

TEST(InvertConfig, AConditionFollowsFromItsBranch) {
  const std::string window = "let w = hf.window ?? 9\n"
                             "config { size = w == 0 ? null : [w - 1, 0] }\n";
  EXPECT_EQ(inverted(window, {{"size", Value()}}), "window 0");
  EXPECT_EQ(inverted(window, {{"size", list({int64_t{3}, int64_t{0}})}}),
            "window 4");
  const std::string shared =
      "config { size = 2 * (hf.n ?? 1) > 0 ? 2 * (hf.n ?? 1) : null }\n";
  EXPECT_EQ(inverted(shared, {{"size", Value()}}), "n 0");
  EXPECT_EQ(inverted(shared, {{"size", int64_t{6}}}), "n 3");
}

// An argument of what is switched off must not switch it on.
TEST(InvertConfig, WhatIsSolvedStaysSolved) {
  const std::string spec =
      "let kind = hf.rope.kind ?? \"default\"\n"
      "config { on = kind == \"scaled\"\n"
      "  factor = kind == \"scaled\" ? hf.rope.factor : null }\n";
  EXPECT_EQ(inverted(spec, {{"on", false}, {"factor", 8.0}}), "");
  EXPECT_EQ(inverted(spec, {{"on", true}, {"factor", 8.0}}),
            "rope {factor 8.0, kind scaled}");
}

TEST(InvertConfig, LetsDefsAndTruthValuesAreSeenThrough) {
  EXPECT_EQ(
      inverted("let head = hf.tied ?? false\n"
               "def twice(x) = 2 * x\n"
               "config { untied = !head width = twice(hf.w)\n"
               "  both = hf.p == 1 && hf.q }\n",
               {{"untied", false}, {"width", int64_t{10}}, {"both", true}}),
      "tied true, w 5, p 1, q true");
}

TEST(InvertConfig, AListOfLayersFollowsFromACount) {
  const std::string spec =
      "let kinds = hf.kinds ?? [for i in 0..hf.L: i < (hf.dense ?? 0) ? "
      "\"dense\" : \"sparse\"]\n"
      "config { freq = [for i in 0..hf.L: kinds[i] == \"dense\" ? 0 : 1]\n"
      "  layers = hf.L";
  const Arguments first{{"freq", list({int64_t{0}, int64_t{0}, int64_t{1}})},
                        {"layers", int64_t{3}}};
  EXPECT_EQ(inverted(spec + " }\n", first), "L 3, dense 2");
  EXPECT_EQ(inverted(spec + " write hf.kinds }\n", first),
            "L 3, kinds [dense dense sparse]");
  // No count of first layers says that.
  EXPECT_EQ(inverted(spec + " }\n",
                     {{"freq", list({int64_t{1}, int64_t{0}, int64_t{1}})},
                      {"layers", int64_t{3}}}),
            "L 3, kinds [sparse dense sparse]");
}

TEST(InvertConfig, AListOfLayersFollowsFromAPeriodOrTheirNumbers) {
  const std::string spec =
      "let step = hf.step ?? 1\n"
      "let dense = hf.dense ?? []\n"
      "def sparse(i) = !(i in dense) && (i + 1) % step == 0\n"
      "config { layers = hf.L freq = [for i in 0..hf.L: sparse(i) ? 1 : 0] }\n";
  EXPECT_EQ(inverted(spec, {{"freq", list({int64_t{0}, int64_t{1}, int64_t{0},
                                           int64_t{1}})},
                            {"layers", int64_t{4}}}),
            "L 4, step 2");
  EXPECT_EQ(inverted(spec, {{"freq", list({int64_t{0}, int64_t{1}, int64_t{1},
                                           int64_t{0}})},
                            {"layers", int64_t{4}}}),
            "L 4, dense [0 3]");
}

TEST(InvertConfig, NothingIsSaidWhereNothingFits) {
  EXPECT_EQ(inverted("config { a = 3 b = len(hf.x) c = log(hf.y) }\n",
                     {{"a", int64_t{4}}, {"b", int64_t{2}}, {"c", 1.0}}),
            "");
}

// Each layer of nested defs doubles the ways.
TEST(InvertConfig, ItsWorkHasAnEnd) {
  std::string spec = "def f0(x) = (x ?? 1) + (x ?? 1)\n";
  for (int i = 1; i != 30; ++i)
    spec += fmt::format("def f{0}(x) = f{1}(x) + f{1}(x)\n", i, i - 1);
  EXPECT_EQ(inverted(spec + "config { a = f29(hf.x) }\n", {{"a", int64_t{1}}}),
            "");
}

} // namespace
} // namespace mbc::dsl
