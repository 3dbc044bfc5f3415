#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

namespace mbc::dsl {
namespace {

TEST(Evaluate, TheOneLineRuleIsValidInsideABlock) {
  Evaluated result =
      evaluateText(withModel("block kda {\n"
                             "    in_proj <- concat(q,k,v) shard=section\n"
                             "}\n"
                             "decoder.layers.0 <- layers.0 { kda }\n"));
  ASSERT_EQ(result.text, "");
  EXPECT_EQ(rulesOf(result.model),
            "decoder.layers.0.in_proj <- layers.0.q layers.0.k layers.0.v\n");
  const Mapping &mapping = result.model.mappings.at(0);
  EXPECT_EQ(mapping.shard.kind, ShardKind::Section);
  ASSERT_EQ(mapping.hf.size(), 4U);
  EXPECT_EQ(mapping.hf.back().kind, OpKind::Concat);
  EXPECT_EQ(mapping.hf.back().children, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Evaluate, ScopesMoveBothSidesAndTheRootIsReachable) {
  Evaluated result = evaluateText(withModel("a <- x {\n"
                                            "  b <- . { c <- y }\n"
                                            "  d <- ^z.w\n"
                                            "}\n"));
  EXPECT_EQ(rulesOf(result.model), "a.b.c <- x.y\na.d <- z.w\n");
}

TEST(Evaluate, RulesOfAllLayersShareAMappingUntilANumberDiffers) {
  Evaluated result =
      evaluateText(withModel("block fc(n) { w <- concat(g:n, u:n) }\n"
                             "for i in 0..4 {\n"
                             "  l.{2*i} <- l.{i} { fc(i < 3 ? 5 : 6) }\n"
                             "}\n"));
  ASSERT_EQ(result.text, "");
  EXPECT_EQ(rulesOf(result.model),
            "l.0.w <- l.0.g l.0.u\nl.2.w <- l.1.g l.1.u\n"
            "l.4.w <- l.2.g l.2.u\nl.6.w <- l.3.g l.3.u\n");
  ASSERT_EQ(result.model.mappings.size(), 2U);
  EXPECT_EQ(result.model.mappings[0].hf[1].extent, 5);
  EXPECT_EQ(result.model.mappings[1].hf[1].extent, 6);
  EXPECT_EQ(result.model.mappings[0].label, "l.{2*i}.w");
}

TEST(Evaluate, EachPlaceThatUsesABlockHasItsOwnMappings) {
  Evaluated result = evaluateText(withModel("block norm { w <- n }\n"
                                            "block layer { norm }\n"
                                            "for i in 0..2 {\n"
                                            "  l.{i} <- l.{i} { layer }\n"
                                            "}\n"
                                            "mtp.{1-1} <- l.2 { layer }\n"));
  ASSERT_EQ(result.text, "");
  ASSERT_EQ(rulesOf(result.model),
            "l.0.w <- l.0.n\nl.1.w <- l.1.n\nmtp.0.w <- l.2.n\n");
  ASSERT_EQ(result.model.mappings.size(), 2U);
  const Mapping &layers = result.model.mappings[0],
                &mtp = result.model.mappings[1];
  EXPECT_EQ(layers.label, "l.{i}.w");
  EXPECT_EQ(mtp.label, "mtp.{1-1}.w");
  ASSERT_EQ(mtp.expansion.size(), 2U);
  EXPECT_EQ(layers.expansion.at(1).where.line, 6U);
  EXPECT_EQ(mtp.expansion[0].where.line, 4U);
  EXPECT_EQ(mtp.expansion[1].where.line, 8U);
  EXPECT_EQ(result.model.instances[1].mapping, 0U);
  EXPECT_EQ(result.model.instances[2].mapping, 1U);
}

TEST(Evaluate, ADefBecomesPrimitiveOperations) {
  Evaluated result = evaluateText(
      withModel("def pair(a, b, G, n) = reshape(concat(reshape(a:G*n, [G, n, "
                "...]), b, dim=1), "
                "[2*G*n, ...])\n"
                "w <- pair(x, y, 2, 3) shard=column(4, 2) dtype=f32\n"));
  ASSERT_EQ(result.text, "");
  const Mapping &mapping = result.model.mappings.at(0);
  ASSERT_EQ(mapping.hf.size(), 5U); // x, reshape, y, concat, reshape
  EXPECT_EQ(mapping.hf[0].extent, 6);
  EXPECT_EQ(mapping.hf[1].kind, OpKind::Reshape);
  EXPECT_EQ(mapping.hf[1].ints, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(mapping.hf[1].rest);
  EXPECT_EQ(mapping.hf[3].dim, 1);
  EXPECT_EQ(mapping.hf[3].children, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(mapping.hf[4].ints, (std::vector<int64_t>{12}));
  EXPECT_EQ(mapping.shard.heads, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(mapping.dtype, "f32");
}

TEST(Evaluate, SlicesOfATensorReadItTogether) {
  Evaluated result = evaluateText(
      withModel("def swapped(x, n) = concat(slice(x:2*n, n, n, dim=1), "
                "slice(x:2*n, 0, n, dim=1), dim=1)\n"
                "w <- swapped(y, 3)\n"));
  ASSERT_EQ(result.text, "");
  EXPECT_EQ(rulesOf(result.model), "w <- y\n");
  const Mapping &mapping = result.model.mappings.at(0);
  ASSERT_EQ(mapping.hf.size(), 5U); // y, slice, y, slice, concat
  EXPECT_EQ(mapping.hf[0].operand, 0U);
  EXPECT_EQ(mapping.hf[2].operand, 0U);
  EXPECT_EQ(mapping.hf[0].extent, 6);
  EXPECT_EQ(mapping.hf[1].kind, OpKind::Slice);
  EXPECT_EQ(mapping.hf[1].dim, 1);
  EXPECT_EQ(mapping.hf[1].ints, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(mapping.hf[3].ints, (std::vector<int64_t>{0, 3}));
}

TEST(Evaluate, R22_ASideHasABoundedNumberOfSlices) {
  EXPECT_EQ(evaluateText(withModel("w <- concat(e in 0..1024: slice(y:1024, e, "
                                   "1))\n"))
                .text,
            "");
  EXPECT_TRUE(evaluateText(withModel("w <- concat(e in 0..1025: slice(y:1025, "
                                     "e, 1))\n"))
                  .text.contains("a side of a rule has at most 1024 slices"));
}

TEST(Evaluate, AListOfExtentsIsTheTensorsFirstAxes) {
  Evaluated result = evaluateText(
      withModel("def split(a) = reshape(a:[3, 8], [3, 4, 2, ...])\n"
                "w <- split(x)\nv <- split(y:[3, 8])\n"));
  ASSERT_EQ(result.text, "");
  for (const Mapping &mapping : result.model.mappings) {
    ASSERT_EQ(mapping.hf.size(), 2U);
    EXPECT_EQ(mapping.hf[0].kind, OpKind::Tensor);
    EXPECT_EQ(mapping.hf[0].ints, (std::vector<int64_t>{3, 8}));
    EXPECT_FALSE(mapping.hf[0].extent);
  }
}

TEST(Evaluate, ListsOfExtentsThatDisagreeAreAnError) {
  EXPECT_EQ(evaluateText(
                withModel("def split(a) = reshape(a:[3, 8], [3, 4, 2, ...])\n"
                          "w <- split(x:[3, 6])\n"))
                .text,
            "t.mbspec:3:26: error: this piece is [3, 8] here, but [3, 6] where "
            "it is passed\n"
            "  def split(a) = reshape(a:[3, 8], [3, 4, 2, ...])\n"
            "                           ^~~~~~\n"
            "t.mbspec:4:6: note: def 'split' is used here\n"
            "  w <- split(x:[3, 6])\n"
            "       ^~~~~\n");
}

TEST(Evaluate, AnOperationHasNoListOfExtents) {
  EXPECT_TRUE(
      evaluateText(withModel("w <- reshape(concat(x:2, y:2):[4], [2, 2])\n"))
          .text.contains("a list of extents belongs to a tensor"));
}

TEST(Evaluate, AnErrorInsideADefShowsTheLinesThatUsedIt) {
  EXPECT_EQ(evaluateText(withModel("def half(x, n) = concat(x:n/2)\n"
                                   "block b(n) { w <- half(y, n) }\n"
                                   "b(5)\n"))
                .text,
            "t.mbspec:3:27: error: 5 does not divide by 2: 1 is left over\n"
            "  def half(x, n) = concat(x:n/2)\n"
            "                            ^~~\n"
            "t.mbspec:4:19: note: def 'half' is used here\n"
            "  block b(n) { w <- half(y, n) }\n"
            "                    ^~~~\n"
            "t.mbspec:5:1: note: block 'b' is used here\n"
            "  b(5)\n"
            "  ^\n");
}

TEST(Evaluate, R15_MatchTakesNoWordItDoesNotList) {
  EXPECT_EQ(evaluateText(withModel("match hf.kind { \"dense\": a <- b }\n"),
                         R"({"kind": "sparse"})")
                .text,
            "t.mbspec:3:7: error: hf.kind (\"sparse\") is not one of the words "
            "listed "
            "here: \"dense\"\n"
            "  match hf.kind { \"dense\": a <- b }\n"
            "        ^~~~~~~\n");
}

TEST(Evaluate, R17_AnOptionalRuleIsDroppedWhereItsTensorIsAbsent) {
  std::string spec = withModel("a <- x?\nb <- y?\n");
  EXPECT_EQ(rulesOf(evaluateText(spec, "{}", {"y"}).model), "b <- y\n");
  EXPECT_EQ(rulesOf(evaluateText(spec, "{}", {"a"}, Side::Megatron).model),
            "a <- x\n");
}

TEST(Evaluate, WhatTheSourceDoesNotHaveCountsAsNone) {
  std::string spec = withModel("for t in 0..present(hf.n, \"m.0\", "
                               "join([\"x.\", 1+1])) { m.{t} <- x.{t+2} }\n");
  auto at = [&](const std::set<std::string> &names, Side known) {
    return evaluateText(spec, R"({"n": 2})", names, known).model;
  };
  const std::string both = "m.0 <- x.2\nm.1 <- x.3\n";
  EXPECT_EQ(rulesOf(at({"x.2.w"}, Side::Hf)), both);
  EXPECT_EQ(rulesOf(at({"m.0.w"}, Side::Megatron)), both);
  // Neither a name that begins alike nor one of the other side counts.
  for (const char *name : {"x.20.w", "m.0.w", "x.2"}) {
    const Model model = at({name}, Side::Hf);
    EXPECT_EQ(rulesOf(model), "") << name;
    EXPECT_EQ(model.configNotes,
              std::vector<std::string>{
                  "n is 2, but the source has no tensor below x.2 (Megatron: "
                  "m.0): converted without"});
  }
  EXPECT_EQ(at({}, Side::Megatron).configNotes.at(0),
            "n is 2, but the source has no tensor below m.0 (Hugging Face: "
            "x.2): converted without");
}

TEST(Evaluate, OnlyWhatConfigJsonCountsIsMissed) {
  std::string spec = withModel(
      "for t in 0..present(hf.n ?? 1, \"m\", \"x\") { m.{t} <- x.{t} }\n");
  for (const char *config : {"{}", R"({"n": 0})"}) {
    const Model model = evaluateText(spec, config, {"y"}).model;
    EXPECT_EQ(rulesOf(model), "");
    EXPECT_TRUE(model.configNotes.empty()) << config;
  }
  EXPECT_EQ(rulesOf(evaluateText(spec, "{}", {"x.0"}).model), "m.0 <- x.0\n");
  EXPECT_TRUE(evaluateText(withModel("for t in 0..present(1, 2, \"x\") { }\n"))
                  .text.starts_with(
                      "t.mbspec:3:13: error: present needs an integer and two "
                      "names as strings, Megatron's and Hugging Face's, not 1, "
                      "2 and \"x\"\n"));
}

TEST(Evaluate, AValueThatMegatronDoesNotHaveIsANote) {
  std::string spec = withModel(
      "config { a = expected(hf.p.f ?? true, [true, \"x\"], \"it is so\") }\n");
  const std::pair<const char *, std::vector<std::string>> cases[] = {
      {"{}", {}},
      {R"({"p": {"f": true}})", {}},
      {R"({"p": {"f": "x"}})", {}},
      {R"({"p": {"f": false}})", {"p.f is false, but it is so"}},
      {R"({"p": {"f": "y"}})", {"p.f is \"y\", but it is so"}},
      {R"({"p": {"f": 1}})", {"p.f is 1, but it is so"}}};
  for (const auto &[config, notes] : cases) {
    const Evaluated result = evaluateText(spec, config);
    EXPECT_EQ(result.text, "") << config;
    EXPECT_EQ(result.model.configNotes, notes) << config;
  }
  EXPECT_TRUE(evaluateText(withModel("config { a = expected(1, 2, 3) }\n"))
                  .text.starts_with("t.mbspec:3:14: error: expected needs a "
                                    "value, a list of those that Megatron can "
                                    "have, and a string that says what it does "
                                    "instead, not 1, 2 and 3\n"));
}

TEST(Evaluate, AlternatingSectionsHaveGroupsAndRows) {
  Evaluated result = evaluateText(
      withModel("a <- deinterleave(x, 2, [3, 1+4]) shard=section(p, q)\n"
                "b <- y shard=column(4)\n"));
  ASSERT_EQ(result.text, "");
  const Node &node = result.model.mappings.at(0).hf.at(1);
  EXPECT_EQ(node.kind, OpKind::Deinterleave);
  EXPECT_EQ(node.ints, (std::vector<int64_t>{2, 3, 5}));
  EXPECT_EQ(result.model.mappings.at(1).shard.heads, (std::vector<int64_t>{4}));
  for (const char *wrong : {"0, [1]", "2, []", "2, [1, 0]"})
    EXPECT_TRUE(evaluateText(withModel("a <- deinterleave(x, " +
                                       std::string(wrong) + ")\n"))
                    .text.contains("a positive number of groups"))
        << wrong;
}

TEST(Evaluate, CopiesAreCounted) {
  Evaluated result = evaluateText(withModel("a <- repeat(x, 1+1)\n"));
  ASSERT_EQ(result.text, "");
  const Node &node = result.model.mappings.at(0).hf.at(1);
  EXPECT_EQ(node.kind, OpKind::Repeat);
  EXPECT_EQ(node.ints, (std::vector<int64_t>{2}));
  EXPECT_TRUE(evaluateText(withModel("a <- repeat(x, 0)\n"))
                  .text.contains("repeat needs a positive number of times"));
}

TEST(Evaluate, R18_ASubtreeHasARuleForEachName) {
  std::string spec = withModel("visual.** <- model.visual.** stage=first\n");
  std::set<std::string> names{"model.visual.a.weight", "model.visual.b.weight",
                              "model.visualizer"};
  Evaluated result = evaluateText(spec, "{}", names);
  EXPECT_EQ(rulesOf(result.model),
            "visual.a.weight <- model.visual.a.weight\n"
            "visual.b.weight <- model.visual.b.weight\n");
  EXPECT_EQ(result.model.mappings.at(0).stage, Stage::First);
  EXPECT_EQ(evaluateText(spec).text,
            "t.mbspec:3:14: error: no tensor's name starts with "
            "'model.visual.'; mark the pattern "
            "with ? if that may be\n"
            "  visual.** <- model.visual.** stage=first\n"
            "               ^~~~~~~~~~~~~~~\n");
}

TEST(Evaluate, InitGivesValuesToWhatHasNoSource) {
  Evaluated result = evaluateText(withModel(
      "bias <- concat(init(-log(3), [4]), init(0, [20])) dtype=f32\n"));
  ASSERT_EQ(result.text, "");
  const std::vector<Node> &nodes = result.model.mappings.at(0).hf;
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].kind, OpKind::Fill);
  EXPECT_NEAR(nodes[0].value, -1.0986122886681098, 1e-15); // log(1/3)
  EXPECT_EQ(nodes[0].ints, (std::vector<int64_t>{4}));
  EXPECT_TRUE(result.model.instances.at(0).hf.empty());
}

TEST(Evaluate, StackRepeatsOverARange) {
  Evaluated result = evaluateText(withModel(
      "stack(e in 0..3: fc1.weight{e}) <- fused shard=expert(gated)\n"));
  EXPECT_EQ(rulesOf(result.model),
            "fc1.weight0 fc1.weight1 fc1.weight2 <- fused\n");
  const Mapping &mapping = result.model.mappings.at(0);
  EXPECT_EQ(mapping.megatron.back().kind, OpKind::Stack);
  EXPECT_TRUE(mapping.shard.expert);
  EXPECT_EQ(mapping.shard.kind, ShardKind::Gated);
}

TEST(Evaluate, TiesIgnoresAndExtraStateFollowTheScopes) {
  Evaluated result =
      evaluateText(withModel("m <- h {\n"
                             "  tied hf copy? to ^owner\n"
                             "  tied megatron out to embedding stage=last\n"
                             "  ignore layers.*.inv_freq?\n"
                             "  extra_state fc1, fc2 per expert(8)\n"
                             "}\n"),
                   "{}", {"h.copy"});
  ASSERT_EQ(result.text, "");
  ASSERT_EQ(result.model.ties.size(), 2U);
  EXPECT_EQ(result.model.ties[0].copy, "h.copy");
  EXPECT_EQ(result.model.ties[0].owner, "owner");
  EXPECT_TRUE(result.model.ties[0].optional);
  EXPECT_EQ(result.model.ties[1].copy, "m.out");
  EXPECT_EQ(result.model.ties[1].side, Side::Megatron);
  EXPECT_EQ(result.model.ties[1].stage, Stage::Last);
  EXPECT_EQ(result.model.ignores.at(0).pattern, "h.layers.*.inv_freq");
  EXPECT_EQ(result.model.extraStates.at(1).module, "m.fc2");
  EXPECT_EQ(result.model.extraStates.at(1).experts, 8);
}

TEST(Evaluate, AnAttributeMayDependOnACondition) {
  std::string spec =
      withModel("e <- x stage=(hf.mtp > 0 ? first_and_last : first)\n");
  EXPECT_EQ(evaluateText(spec, R"({"mtp": 1})").model.mappings.at(0).stage,
            Stage::FirstAndLast);
  EXPECT_EQ(evaluateText(spec, R"({"mtp": 0})").model.mappings.at(0).stage,
            Stage::First);
}

TEST(Evaluate, TheTwoSidesHaveDTypesOfTheirOwn) {
  const std::string spec =
      withModel("w <- x  dtype=f32  hf_dtype=(hf.mtp > 0 ? bf16 : config)\n");
  const Mapping with = evaluateText(spec, R"({"mtp": 1})").model.mappings.at(0);
  EXPECT_EQ(with.dtype, "f32");
  EXPECT_EQ(with.hfDType, "bf16");
  EXPECT_EQ(evaluateText(spec, R"({"mtp": 0})").model.mappings.at(0).hfDType,
            "config");
}

TEST(Evaluate, R19_ExtentsOfOnePieceAgree) {
  std::string text = evaluateText(withModel("def first(x, n) = concat(x:n, y)\n"
                                            "w <- first(a:3, 4)\n"))
                         .text;
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "t.mbspec:3:28: error: this piece is 4 here, but 3 where it is "
            "passed");
}

TEST(Evaluate, R20_ThereIsSomethingToStack) {
  EXPECT_EQ(evaluateText(withModel("w <- stack(e in 2..2: a{e})\n")).text,
            "t.mbspec:3:6: error: nothing to stack: the range 2..2 is empty\n"
            "  w <- stack(e in 2..2: a{e})\n"
            "       ^~~~~\n");
}

} // namespace
} // namespace mbc::dsl
