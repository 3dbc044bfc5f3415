#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

/// R22: whatever a file holds, reading it neither overflows the stack nor runs
/// for ever.
namespace mbc::dsl {
namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i != count; ++i)
    all += text;
  return all;
}

std::string letOf(const std::string &value) {
  return withModel(fmt::format("let a = {}\nm.{{a}} <- h\n", value));
}

/// What takes `count` levels, each in another construct.
std::vector<std::string> nestings(size_t count) {
  auto around = [&](const char *open, const char *middle, const char *close) {
    return repeated(open, count) + middle + repeated(close, count);
  };
  return {letOf(around("(", "1", ")")),
          letOf(around("[", "1", "]")),
          letOf(around("min(1, ", "1", ")")),
          letOf(repeated("-", count) + "1"),
          letOf(fmt::format("1{}", repeated(" + 1", count))),
          letOf(repeated("true ? 1 : ", count) + "1"),
          letOf(repeated("null ?? ", count) + "1"),
          letOf(fmt::format("x{}", repeated("[0]", count))),
          withModel(fmt::format("m <- {}", around("concat(", "h", ")"))),
          withModel(around("if true { ", "m <- h", " }")),
          withModel(fmt::format("m.{{{}}} <- h\n", around("(", "1", ")")))};
}

TEST(Nesting, R22_DepthIsBoundedInEveryConstruct) {
  for (const std::string &text : nestings(100'000))
    EXPECT_NE(parseMessages(text).find("nest more than 200 deep"),
              std::string::npos)
        << text.substr(0, 100);
}

TEST(Nesting, R22_WhatStaysBelowTheBoundIsRead) {
  for (const std::string &text : nestings(150))
    EXPECT_EQ(parseMessages(text).find("nest more than"), std::string::npos)
        << text.substr(0, 100);
}

TEST(Nesting, R22_WidthIsNotDepth) {
  std::string rules, pieces = "h0";
  for (int i = 0; i != 2000; ++i) {
    rules += fmt::format("if {0} > 1 && {0} < 3 {{ m{0} <- h{0}? }}\n", i);
    pieces += fmt::format(", h{}:2 * 2", i);
  }
  EXPECT_EQ(parseMessages(
                withModel(fmt::format("{}m <- concat({})\n", rules, pieces))),
            "");
}

/// f0(x) = START, f1(x) = STEP of f0, ...
std::string chain(size_t length, const char *step) {
  std::string text = "def f0(x) = concat(x, x)\n";
  for (size_t i = 1; i != length; ++i)
    text += fmt::format("def f{}(x) = {}\n", i,
                        fmt::format(fmt::runtime(step), i - 1));
  return withModel(text + fmt::format("m <- f{}(h)\n", length - 1));
}

TEST(Nesting, R22_ChainsOfDefsAndLetsAreBounded) {
  EXPECT_EQ(parseMessages(chain(40, "f{}(x)")), "");
  EXPECT_NE(parseMessages(chain(20'000, "f{}(x)"))
                .find("defs use one another more than 50 deep"),
            std::string::npos);
  std::string lets = "let a0 = 1\n";
  for (int i = 1; i != 20'000; ++i)
    lets += fmt::format("let a{} = a{} + 1\n", i, i - 1);
  EXPECT_NE(evaluateText(withModel(lets + "m.{a19999} <- h\n"), "{}", {"h"})
                .text.find("lets use one another more than 50 deep"),
            std::string::npos);
}

/// f1 to f39, each the sum of two of the one before.
std::string doubling() {
  std::string text;
  for (int i = 1; i != 40; ++i)
    text += fmt::format("def f{0}(x) = f{1}(x) + f{1}(x)\n", i, i - 1);
  return text;
}

TEST(Nesting, R22_DefsThatDoubleEachOtherEnd) {
  Evaluated result =
      evaluateText(chain(40, "concat(f{0}(x), f{0}(x))"), "{}", {"h"});
  EXPECT_NE(result.text.find("a rule joins at most 65536 tensors"),
            std::string::npos)
      << result.text;
  result =
      evaluateText(withModel(fmt::format(
                       "def f0(x) = x + x\n{}m.{{f39(1)}} <- h\n", doubling())),
                   "{}", {"h"});
  EXPECT_NE(result.text.find("the spec takes more than 20000000 steps"),
            std::string::npos)
      << result.text;
}

TEST(Nesting, R22_ValuesThatDoubleEachOtherEnd) {
  for (const char *start : {"\"x\"", "[1]"}) {
    std::string lets = fmt::format("let a0 = {}\n", start);
    for (int i = 1; i != 40; ++i)
      lets += fmt::format("let a{0} = a{1} + a{1}\n", i, i - 1);
    Evaluated result =
        evaluateText(withModel(lets + "m.{len(a39)} <- h\n"), "{}", {"h"});
    EXPECT_NE(result.text.find("the spec takes more than 20000000 steps"),
              std::string::npos)
        << result.text;
  }
}

} // namespace
} // namespace mbc::dsl
