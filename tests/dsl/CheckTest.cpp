#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

namespace mbc::dsl {
namespace {

TEST(Check, AMisspeltOperationGetsASuggestion) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "in_proj <- conact(q, k, v) shard=section\n"),
            "t.mbspec:2:12: error: 'conact' is neither an operation nor a def; "
            "did you mean "
            "'concat'?\n"
            "  in_proj <- conact(q, k, v) shard=section\n"
            "             ^~~~~~\n");
}

TEST(Check, ArityPointsAtTheCallAndAtTheDef) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "def glu(gate, up, n) = concat(gate:n, up:n)\n"
                          "fc1 <- glu(g, u)\n"),
            "t.mbspec:3:8: error: 'glu' takes 3 arguments, 2 are given\n"
            "  fc1 <- glu(g, u)\n"
            "         ^~~\n"
            "t.mbspec:2:5: note: def 'glu' is declared here\n"
            "  def glu(gate, up, n) = concat(gate:n, up:n)\n"
            "      ^~~\n");
}

TEST(Check, AnUnknownVariableIsFoundWithoutAnyConfig) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "let layers_count = 4\n"
                          "for i in 0..layer_count { a.{j} <- b }\n"),
            "t.mbspec:3:13: error: 'layer_count' is neither a let, nor a "
            "parameter, nor a loop "
            "variable; did you mean 'layers_count'?\n"
            "  for i in 0..layer_count { a.{j} <- b }\n"
            "              ^~~~~~~~~~~\n"
            "t.mbspec:3:30: error: 'j' is neither a let, nor a parameter, nor "
            "a loop variable\n"
            "  for i in 0..layer_count { a.{j} <- b }\n"
            "                               ^\n");
}

TEST(Check, BlocksThatUseEachOtherAreRefused) {
  std::string text = parseMessages("mbspec 1\n"
                                   "block a { b }\n"
                                   "block b { a }\n");
  EXPECT_NE(text.find("uses itself; recursion is not part of the language"),
            std::string::npos)
      << text;
}

TEST(Check, ADefThatUsesItselfIsRefused) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "def twice(x) = twice(x) + 1\n"),
            "t.mbspec:2:16: error: def 'twice' uses itself; recursion is not "
            "part of the "
            "language\n"
            "  def twice(x) = twice(x) + 1\n"
            "                 ^~~~~\n"
            "t.mbspec:2:5: note: it is declared here\n"
            "  def twice(x) = twice(x) + 1\n"
            "      ^~~~~\n");
}

TEST(Check, AttributesKnowTheirWords) {
  EXPECT_EQ(
      parseMessages("mbspec 1\n"
                    "a <- b shard=colum\n"
                    "c <- d stage=middle\n"
                    "e <- f shard=row shard=column\n"),
      "t.mbspec:2:14: error: 'colum' is no shard; did you mean 'column'?\n"
      "  a <- b shard=colum\n"
      "               ^~~~~\n"
      "t.mbspec:3:14: error: 'middle' is no stage; known are first, last, "
      "first_and_last\n"
      "  c <- d stage=middle\n"
      "               ^~~~~~\n"
      "t.mbspec:4:18: error: 'shard' is given twice\n"
      "  e <- f shard=row shard=column\n"
      "                   ^~~~~\n"
      "t.mbspec:4:8: note: the other one\n"
      "  e <- f shard=row shard=column\n"
      "         ^~~~~\n");
}

TEST(Check, ABlockHasToExist) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "block attention { a <- b }\n"
                          "atention\n"),
            "t.mbspec:3:1: error: there is no block 'atention'; did you mean "
            "'attention'?\n"
            "  atention\n"
            "  ^~~~~~~~\n");
}

} // namespace
} // namespace mbc::dsl
