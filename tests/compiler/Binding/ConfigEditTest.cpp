#include "compiler/Binding/ConfigEdit.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

const std::string text = "{\n  \"a\": 1.0,\n  \"b\": [1, {\"x\": 2}] ,\n"
                         "  \"c\": NaN\n}\n";

TEST(ConfigEdit, AFieldGoesWithOneComma) {
  EXPECT_EQ(withoutField(text, "a"),
            "{\n  \"b\": [1, {\"x\": 2}] ,\n  \"c\": NaN\n}\n");
  EXPECT_EQ(withoutField(text, "b"), "{\n  \"a\": 1.0 ,\n  \"c\": NaN\n}\n");
  EXPECT_EQ(withoutField(text, "c"),
            "{\n  \"a\": 1.0,\n  \"b\": [1, {\"x\": 2}]\n}\n");
  EXPECT_EQ(withoutField("{ \"a\": {} }", "a"), "{ }");
  EXPECT_EQ(withoutField("{\"a\":1,\"b\":2}", "a"), "{\"b\":2}");
}

TEST(ConfigEdit, WhatIsNotThereChangesNothing) {
  EXPECT_EQ(withoutField(text, "x"), text); // only inside a list
  EXPECT_EQ(withString(text, "d", "v"), text);
  EXPECT_EQ(withString(text, "b.x", "v"), text);
  EXPECT_EQ(withString("{}", "a", "v"), "{}");
  EXPECT_EQ(withoutField("[1]", "a"), "[1]");
}

TEST(ConfigEdit, AStringReplacesAnyValue) {
  EXPECT_EQ(withString("{\"a\": \"x\", \"b\": 2}", "a", "y"),
            "{\"a\": \"y\", \"b\": 2}");
  EXPECT_EQ(withString("{\"a\": [1, 2], \"b\": 2}", "a", "y"),
            "{\"a\": \"y\", \"b\": 2}");
  EXPECT_EQ(withString("{\"a\": 1, \"b\":null}", "b", "y"),
            "{\"a\": 1, \"b\":\"y\"}");
  EXPECT_EQ(withString("{\"a\": 1}", "a", "q\"\\"), "{\"a\": \"q\\\"\\\\\"}");
}

TEST(ConfigEdit, APathLeadsIntoObjects) {
  const std::string nested =
      R"({"dtype": null, "t": {"u": {"dtype": "f16", "n": 1e5}}, "z": 1})";
  EXPECT_EQ(
      withString(nested, "t.u.dtype", "f32"),
      R"({"dtype": null, "t": {"u": {"dtype": "f32", "n": 1e5}}, "z": 1})");
  EXPECT_EQ(withoutField(nested, "t.u.dtype"),
            R"({"dtype": null, "t": {"u": { "n": 1e5}}, "z": 1})");
  EXPECT_EQ(withoutField(nested, "t.u"), R"({"dtype": null, "t": {}, "z": 1})");
}

TEST(ConfigEdit, MarksInsideStringsAreText) {
  const std::string tricky =
      R"({"k": "\"a\": 1, }{", "p\\": "\\", "a": "x,\"}", "NaN": "NaN"})";
  EXPECT_EQ(withoutField(tricky, "a"),
            R"({"k": "\"a\": 1, }{", "p\\": "\\", "NaN": "NaN"})");
  EXPECT_EQ(withString(tricky, "p\\", "v"),
            R"({"k": "\"a\": 1, }{", "p\\": "v", "a": "x,\"}", "NaN": "NaN"})");
}

TEST(ConfigEdit, NumbersAndAByteOrderMarkStayAsWritten) {
  const std::string numbers =
      "\xEF\xBB\xBF{\"n\": NaN, \"i\": -Infinity, \"one\": 1.0, \"e\": 1E-05, "
      "\"big\": 100000000000000001, \"s\": \"x\"}";
  EXPECT_EQ(withString(numbers, "s", "y"),
            numbers.substr(0, numbers.size() - 4) + "\"y\"}");
}

TEST(ConfigEdit, AFieldComesAfterTheOthers) {
  EXPECT_EQ(withField("{\n  \"a\": 1.0\n}\n", "b", "[2]"),
            "{\n  \"a\": 1.0,\n  \"b\": [2]\n}\n");
  EXPECT_EQ(withField("{}", "b", "{}"), "{\n  \"b\": {}\n}");
  EXPECT_EQ(withField("[1]", "b", "{}"), "[1]");
}

} // namespace
} // namespace mbc::compiler
