#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mbc::dsl {
namespace {

Value fieldOf(const std::string &expression, const std::string &config = "{}") {
  Evaluated result = evaluateText(
      withModel("config { field = " + expression + " }\n"), config);
  EXPECT_EQ(result.text, "");
  return result.model.config.empty() ? Value() : result.model.config[0].value;
}

std::string errorOf(const std::string &expression,
                    const std::string &config = "{}") {
  std::string text =
      evaluateText(withModel("config { field = " + expression + " }\n"), config)
          .text;
  return text.substr(0, text.find('\n'));
}

TEST(Config, IntegersStayExact) {
  EXPECT_EQ(std::get<int64_t>(fieldOf("hf.n", R"({"n": 100000000000000001})")),
            100000000000000001);
  EXPECT_EQ(std::get<double>(fieldOf("hf.eps", R"({"eps": 1e-05})")), 1e-05);
}

TEST(Config, R13_DivisionIsExactOrAnError) {
  EXPECT_EQ(std::get<int64_t>(fieldOf("12 / 4 * 2 + 7 % 4")), 9);
  EXPECT_EQ(errorOf("13 / 4"),
            "t.mbspec:3:18: error: 13 does not divide by 4: 1 is left over");
  EXPECT_EQ(errorOf("1 / 0"), "t.mbspec:3:18: error: 1 is divided by 0");
  EXPECT_EQ(errorOf("9223372036854775807 + 1"),
            "t.mbspec:3:18: error: the result of 9223372036854775807 and 1 "
            "does not fit in 64 "
            "bits");
}

TEST(Config, R12_OnlyTheDefaultOperatorForgivesAMissingField) {
  EXPECT_EQ(std::get<int64_t>(fieldOf("hf.a.b ?? hf.c ?? 7")), 7);
  EXPECT_EQ(std::get<int64_t>(fieldOf("hf.a ?? 7", R"({"a": null})")), 7);
  EXPECT_EQ(errorOf("hf.hiden_size", R"({"hidden_size": 4})"),
            "t.mbspec:3:18: error: config.json has no field 'hiden_size'; the "
            "nearest name there "
            "is 'hidden_size'");
}

TEST(Config, PythonsNumbersAndAByteOrderMarkAreRead) {
  EXPECT_TRUE(std::isnan(
      std::get<double>(fieldOf("hf.r", "\xEF\xBB\xBF{\"r\": NaN}"))));
  EXPECT_EQ(std::get<double>(fieldOf("hf.r", R"({"r": -Infinity})")),
            -HUGE_VAL);
}

TEST(Config, R13_NanIsNoInteger) {
  std::string text =
      evaluateText(
          "mbspec 1\n"
          "model m { megatron \"GPTModel\" layers hf.n vocab 8 multiple 1 }\n",
          R"({"n": NaN})")
          .text;
  EXPECT_EQ(
      text,
      "t.mbspec:2:38: error: an integer is needed here, not hf.n (NaN)\n"
      "  model m { megatron \"GPTModel\" layers hf.n vocab 8 multiple 1 }\n"
      "                                       ^~~~\n");
}

TEST(Config, BrokenJsonNamesLineAndColumn) {
  EXPECT_EQ(evaluateText(withModel(""), "{\n  \"a\": 1,\n}").text,
            "error: config.json, line 3, column 1: a field name in quotes was "
            "expected\n");
  EXPECT_EQ(
      evaluateText(withModel(""), R"({"a": 1, "a": 2})").text,
      "error: config.json, line 1, column 13: field \"a\" is there twice\n");
}

TEST(Config, R21_WhatNothingReadsIsListed) {
  Evaluated result = evaluateText(
      withModel(
          "config { field = hf.text.read\n ignore hf.**.bos_token_id }\n"),
      R"({"text": {"read": 1, "other": 2, "bos_token_id": 3}, "vision": {"x": 1, "y": 2},
          "model_type": "tiny"})");
  EXPECT_EQ(result.model.unreadConfigFields,
            (std::vector<std::string>{"text.other", "vision"}));
}

TEST(Config, ListsAndText) {
  EXPECT_EQ(std::get<std::string>(
                fieldOf("join([for i in 0..len(hf.kinds): hf.kinds[i] == "
                        "\"full\" ? \"D\" : \"K\"])",
                        R"({"kinds": ["linear", "full", "linear"]})")),
            "KDK");
  EXPECT_EQ(std::get<bool>(fieldOf("3 in [1, 2, 3] && !(4 in [1])")), true);
  EXPECT_EQ(errorOf("hf.kinds[3]", R"({"kinds": [1, 2, 3]})"),
            "t.mbspec:3:18: error: element 3 is asked of 3 elements");
}

TEST(Config, IntegersOutOfFloatsAndText) {
  EXPECT_EQ(std::get<int64_t>(fieldOf("floor(2.625 * 4)")), 10);
  EXPECT_EQ(std::get<int64_t>(fieldOf("floor(-0.5)")), -1);
  EXPECT_TRUE(errorOf("floor(1e300)").contains("no exact integer"));
  for (const char *config : {R"({"at": "3,4,15"})", R"({"at": [3, 4, 15]})"}) {
    EXPECT_TRUE(std::get<bool>(fieldOf("15 in integers(hf.at)", config)));
    EXPECT_FALSE(std::get<bool>(fieldOf("5 in integers(hf.at)", config)));
    EXPECT_EQ(std::get<int64_t>(fieldOf("len(integers(hf.at))", config)), 3);
  }
  EXPECT_EQ(errorOf("integers(hf.at)", R"({"at": "3,,4"})"),
            "t.mbspec:3:18: error: \"\" in \"3,,4\" is no integer");
}

TEST(Config, AStringHasElements) {
  EXPECT_EQ(std::get<std::string>(
                fieldOf("hf.pattern[2]", R"({"pattern": "M-M*E"})")),
            "M");
  EXPECT_EQ(errorOf("hf.pattern[5]", R"({"pattern": "M-M*E"})"),
            "t.mbspec:3:18: error: element 5 is asked of 5 elements");
  EXPECT_EQ(errorOf("hf.n[0]", R"({"n": 7})"),
            "t.mbspec:3:18: error: only a list or a string has elements, not "
            "hf.n (7)");
}

TEST(Config, R14_AConditionIsNeverZeroOrNull) {
  EXPECT_EQ(errorOf("hf.n ? 1 : 2", R"({"n": 0})"),
            "t.mbspec:3:18: error: a condition is true or false, not hf.n (0); "
            "compare "
            "it, or give a default with ??");
}

TEST(Config, R5_ALetThatNeedsItselfIsRefused) {
  std::string text =
      evaluateText(withModel("let a = b\nlet b = a\nconfig { field = a }\n"))
          .text;
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "t.mbspec:3:5: error: 'a' is defined by itself");
}

TEST(Config, R21_AFieldThatTwoLevelsGiveDifferentlyIsSaid) {
  const std::string config =
      R"({"width": 32, "depth": 2, "seen": 1, "same": 3,
          "text_config": {"width": 64, "depth": 4, "seen": 2, "same": 3}})";
  Evaluated result =
      evaluateText(withModel("let text = hf.text_config ?? hf\n"
                             "config { a = text.width  b = hf.depth\n"
                             "  c = hf.seen + text.seen  d = text.same }\n"),
                   config);
  EXPECT_EQ(result.model.configContradictions,
            (std::vector<std::string>{
                "width is 32, text_config.width is 64; the second is used",
                "depth is 2, text_config.depth is 4; the first is used"}));
}

} // namespace
} // namespace mbc::dsl
