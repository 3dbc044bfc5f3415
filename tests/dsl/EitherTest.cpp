#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

#include <map>

namespace mbc::dsl {
namespace {

const std::string spec =
    withModel("for i in 0..2 { m.{i} <- h.{i} {\n"
              "  either per_expert { either grouped { w0 <- e.0 w1 <- e.1 }\n"
              "    or sequential { l.0.w <- e.0 l.1.w <- e.1 } }\n"
              "  or fused { stack(w0, w1) <- all }\n"
              "} }\n");

std::string choicesOf(const Model &model) {
  std::string text;
  for (const Choice &choice : model.choices)
    text +=
        (choice.side == Side::Hf ? "hf " : "megatron ") + choice.form + "\n";
  return text;
}

TEST(Either, TheNamesDecideOnTheSideThatIsKnown) {
  Evaluated result = evaluateText(spec, "{}", {"h.0.all", "h.1.all"});
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(rulesOf(result.model),
            "m.0.w0 m.0.w1 <- h.0.all\nm.1.w0 m.1.w1 <- h.1.all\n");
  EXPECT_EQ(choicesOf(result.model), "hf fused\n");
}

TEST(Either, ThePreferenceDecidesOnTheTarget) {
  std::set<std::string> names{"h.0.e.0", "h.0.e.1", "h.1.e.0", "h.1.e.1"};
  Evaluated first = evaluateText(spec, "{}", names);
  EXPECT_EQ(choicesOf(first.model), "hf per_expert\nmegatron grouped\n");
  Evaluated asked = evaluateText(spec, "{}", names, Side::Hf, {"sequential"});
  EXPECT_EQ(choicesOf(asked.model), "hf per_expert\nmegatron sequential\n");
  EXPECT_EQ(rulesOf(asked.model).substr(0, 19), "m.0.l.0.w <- h.0.e.");
}

/// Matrices that are stored in one order of axes or the other.
const std::string oriented =
    withModel("either by_input { w <- transpose(u:[2, 6, 4], [0, 2, 1])\n"
              "                  v <- transpose(d:[2, 3, 6], [0, 2, 1]) }\n"
              "or by_output { w <- transpose(u:[2, 4, 6], [0, 1, 2])\n"
              "               v <- transpose(d:[2, 6, 3], [0, 1, 2]) }\n");

Evaluated evaluateShapes(const std::string &text,
                         std::map<std::string, std::vector<int64_t>> shapes) {
  Diagnostics diagnostics;
  ParseResult parsed = parseText(text, "t.mbspec", {}, diagnostics);
  EXPECT_TRUE(parsed) << messages(diagnostics);
  NameOracle oracle;
  oracle.exists = [&](std::string_view name) {
    return shapes.contains(std::string(name));
  };
  oracle.extentsOf = [&](std::string_view name) {
    auto found = shapes.find(std::string(name));
    return found == shapes.end() ? std::vector<int64_t>{} : found->second;
  };
  Evaluated result;
  result.model = evaluate(*parsed, "{}", oracle, diagnostics);
  result.text = messages(diagnostics);
  return result;
}

TEST(Either, R16_ExtentsDecideWhereTheNamesAreAlike) {
  Evaluated first =
      evaluateShapes(oriented, {{"u", {2, 6, 4}}, {"d", {2, 3, 6}}});
  EXPECT_EQ(first.text, "");
  EXPECT_EQ(choicesOf(first.model), "hf by_input\n");
  Evaluated second =
      evaluateShapes(oriented, {{"u", {2, 4, 6}}, {"d", {2, 6, 3}}});
  EXPECT_EQ(choicesOf(second.model), "hf by_output\n");
  EXPECT_EQ(rulesOf(second.model), "w <- u\nv <- d\n");
}

TEST(Either, R16_ASquareMatrixGoesWithTheOneThatIsNot) {
  const std::string square =
      withModel("either by_input { w <- transpose(u:[2, 6, 6], [0, 2, 1])\n"
                "                  v <- transpose(d:[2, 3, 6], [0, 2, 1]) }\n"
                "or by_output { w <- transpose(u:[2, 6, 6], [0, 1, 2])\n"
                "               v <- transpose(d:[2, 6, 3], [0, 1, 2]) }\n");
  Evaluated result =
      evaluateShapes(square, {{"u", {2, 6, 6}}, {"d", {2, 6, 3}}});
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(choicesOf(result.model), "hf by_output\n");
}

TEST(Either, R16_ExtentsThatFitTwoFormsAreRefused) {
  const std::string square =
      withModel("either by_input { w <- transpose(u:[6, 6], [0, 1]) }\n"
                "or by_output { w <- transpose(u:[6], [1, 0]) }\n");
  Evaluated result = evaluateShapes(square, {{"u", {6, 6}}});
  EXPECT_TRUE(result.text.contains("forms by_input and by_output both fit the "
                                   "shape [6, 6] of 'u'"))
      << result.text;
}

TEST(Either, OnTheWayBackTheRecordedFormIsTaken) {
  Diagnostics diagnostics;
  ParseResult parsed = parseText(oriented, "t.mbspec", {}, diagnostics);
  NameOracle oracle;
  oracle.known = Side::Megatron;
  oracle.exists = [](std::string_view) { return true; };
  oracle.recorded = [](std::string_view) { return true; };
  EXPECT_EQ(choicesOf(evaluate(*parsed, "{}", oracle, diagnostics)),
            "hf by_input\n");
  oracle.recordedForms = {"by_output"};
  EXPECT_EQ(choicesOf(evaluate(*parsed, "{}", oracle, diagnostics)),
            "hf by_output\n");
}

TEST(Either, OnTheWayBackTheSameRulesServe) {
  std::set<std::string> names{"m.0.w0", "m.0.w1", "m.1.w0", "m.1.w1"};
  EXPECT_EQ(choicesOf(evaluateText(spec, "{}", names, Side::Megatron).model),
            "hf per_expert\nmegatron grouped\n");
  EXPECT_EQ(
      choicesOf(
          evaluateText(spec, "{}", names, Side::Megatron, {"fused"}).model),
      "hf fused\n");
}

TEST(Either, WhatTheRecordHasDecidesUnlessAnOptionDoes) {
  std::set<std::string> names{"m.0.w0", "m.0.w1", "m.1.w0", "m.1.w1"},
      recorded{"h.0.all", "h.1.all"};
  EXPECT_EQ(
      choicesOf(
          evaluateText(spec, "{}", names, Side::Megatron, {}, recorded).model),
      "hf fused\n");
  EXPECT_EQ(choicesOf(evaluateText(spec, "{}", names, Side::Megatron,
                                   {"per_expert"}, recorded)
                          .model),
            "hf per_expert\nmegatron grouped\n");
}

TEST(Either, EachUseOfABlockDecidesForItself) {
  Evaluated result = evaluateText(
      withModel("block part { either one { w <- x } or two { w <- y } }\n"
                "for i in 0..2 { a.{i} <- a.{i} { part } }\n"
                "b <- b { part }\n"),
      "{}", {"a.0.x", "a.1.x", "b.y"});
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(rulesOf(result.model),
            "a.0.w <- a.0.x\na.1.w <- a.1.x\nb.w <- b.y\n");
}

TEST(Either, R16_MixedLayoutsAreRefusedWithTwoExamples) {
  EXPECT_EQ(evaluateText(spec, "{}", {"h.0.e.0", "h.0.e.1", "h.1.all"}).text,
            "t.mbspec:4:3: error: mixed layouts: 'h.0.e.0' is of form "
            "per_expert, 'h.1.all' is of "
            "form fused\n"
            "    either per_expert { either grouped { w0 <- e.0 w1 <- e.1 }\n"
            "    ^~~~~~\n");
}

TEST(Either, R16_TwoFormsThatFitAreRefused) {
  EXPECT_EQ(evaluateText(spec, "{}", {"h.0.e.0", "h.0.all", "h.1.e.0"}).text,
            "t.mbspec:4:3: error: two forms fit: 'h.0.e.0' is there, and so is "
            "'h.0.all'; exactly "
            "one of them may be\n"
            "    either per_expert { either grouped { w0 <- e.0 w1 <- e.1 }\n"
            "    ^~~~~~\n");
}

} // namespace
} // namespace mbc::dsl
