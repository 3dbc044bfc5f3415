#include "dsl/Format.h"
#include "tests/dsl/FormatText.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mbc::dsl {
namespace {

/// Formats a spec's lines and compares with what they should become; the
/// result has to stay as it is.
void expectFormat(const std::string &lines, const std::string &expected) {
  EXPECT_EQ(formatted("mbspec 1\n" + lines), "mbspec 1\n" + expected);
  EXPECT_EQ(formatted("mbspec 1\n" + expected), "mbspec 1\n" + expected);
}

TEST(Format, BlanksWithinALine) {
  expectFormat("let  x=f( a,b ) [ 1 ]+-y *2%3\n",
               "let x = f(a, b)[1] + -y * 2 % 3\n");
  expectFormat("let x = ( H+2 * G )*d\n", "let x = (H + 2*G) * d\n");
  expectFormat("let x = hf.a/H + ! b??c\n", "let x = hf.a / H + !b ?? c\n");
  expectFormat("let x = a ?b:c\n", "let x = a ? b : c\n");
  expectFormat("let x = [for i in a - 1..2 * L + 1: i+1]\n",
               "let x = [for i in a-1..2*L+1: i + 1]\n");
  expectFormat("let x = [ for i in 0 .. 2 * L :i ]\n",
               "let x = [for i in 0..2*L: i]\n");
  expectFormat("a? <- reshape( b ? : n*2 , [ 1,... ] ) shard = dim( 1 )\n",
               "a? <- reshape(b?:n*2, [1, ...])  shard=dim(1)\n");
  expectFormat(
      "stack( e in 0..E :w{ e },dim = 1 )<-b stage =( m>0?last:first )\n",
      "stack(e in 0..E: w{ e }, dim=1) <- b  stage=(m > 0 ? last : first)\n");
  expectFormat("extra_state a ,b per expert ( E )\n"
               "tied hf a ? to b stage=last\n"
               "ignore a.** ? , b\n",
               "extra_state a, b per expert(E)\n"
               "tied hf a? to b  stage=last\n"
               "ignore a.**?, b\n");
}

TEST(Format, BodiesAreIndentedAndMayStayInTheirLine) {
  expectFormat("for i in 0..2 {\n a <- .\n {\n b{i} <- b{i} } }\n"
               "if c { x } else if d {\ny } else\n{ z }\n"
               "either p { x } or q { x y }\n"
               "match k { \"a\" :x \"b\" :\n{ y } }\n"
               "block nothing {\n}\n",
               "for i in 0..2 {\n"
               "  a <- . {\n"
               "    b{i} <- b{i}\n"
               "  }\n"
               "}\n"
               "if c { x } else if d {\n"
               "  y\n"
               "} else { z }\n"
               "either p { x } or q {\n"
               "  x\n"
               "  y\n"
               "}\n"
               "match k {\n"
               "  \"a\": x\n"
               "  \"b\": { y }\n"
               "}\n"
               "block nothing { }\n");
}

TEST(Format, RowsShareColumnsUpToABlankLine) {
  expectFormat("config {\nfield=1\nlonger_field=2\n"
               "a_field_that_stands_out_of_its_column=3\n\nz=4\n}\n",
               "config {\n"
               "  field        = 1\n"
               "  longer_field = 2\n"
               "  a_field_that_stands_out_of_its_column = 3\n"
               "\n"
               "  z = 4\n"
               "}\n");
  expectFormat("a.weight <- b.weight shard=row dtype=f32\n"
               "c <- d shard=column dtype=f32\n"
               "long.weight <- long.enough.weight\n",
               "a.weight    <- b.weight  shard=row     dtype=f32\n"
               "c           <- d         shard=column  dtype=f32\n"
               "long.weight <- long.enough.weight\n");
  expectFormat("model m { hf \"A\" megatron \"B\" layers L stacked if c }\n",
               "model m {\n"
               "  hf       \"A\"\n"
               "  megatron \"B\"\n"
               "  layers   L stacked if c\n"
               "}\n");
}

TEST(Format, CommentsAndBlankLinesStay) {
  EXPECT_EQ(formatted("# first\n\n\nmbspec 1#one\n\n\n\n"
                      "let x = [ 1, # of the list  \n\n2,\n # three\n3 ]\n"
                      "block b { # at the brace\n\n#inside\n\n}\n"
                      "if c { x }\n# between\nelse { y }\n\n# last"),
            "# first\n"
            "\n"
            "mbspec 1  #one\n"
            "\n"
            "let x = [1,  # of the list\n"
            "\n"
            "         2,\n"
            "         # three\n"
            "         3]\n"
            "block b {  # at the brace\n"
            "\n"
            "  #inside\n"
            "}\n"
            "if c { x }\n"
            "# between\n"
            "else { y }\n"
            "\n"
            "# last\n");
}

TEST(Format, CommentsBehindNeighbouringLinesShareAColumn) {
  expectFormat("let x = 1 # one\nlet name = \"\xc3\xa9\" # two\nlet z = 3\n",
               "let x = 1       # one\n"
               "let name = \"\xc3\xa9\"  # two\n"
               "let z = 3\n");
}

TEST(Format, TheAuthorsBreaksStayWhereBreaksAreNatural) {
  expectFormat(
      "def f(a, b) =\nreshape(\n  concat(a:1,\nb:2, dim\n=1\n),\n[3,\n...])\n",
      "def f(a, b) =\n"
      "    reshape(\n"
      "      concat(a:1,\n"
      "             b:2, dim=1),\n"
      "      [3,\n"
      "       ...])\n");
  expectFormat("let x = a\n?? b ??\nc\n", "let x = a\n"
                                          "    ?? b ?? c\n");
  expectFormat("a <- b\nshard=row\n", "a <- b\n    shard=row\n");
  expectFormat("a\n<-\nb shard=row\n", "a\n    <- b  shard=row\n");
  expectFormat("config { f\n=\n1 }\n", "config {\n  f\n      = 1\n}\n");
}

// 110 characters fit. Every expected line is counted by hand: `word` fills one
// up to a given column.
TEST(Format, LinesThatAreTooLongAreWrapped) {
  auto word = [](size_t length) { return std::string(length, 'w'); };
  std::string fits = "a <- " + word(94) + "  shard=row";
  expectFormat(fits + "\n", fits + "\n");
  expectFormat("a <- " + word(95) + " shard=row\n",
               "a <- " + word(95) + "\n    shard=row\n");
  expectFormat(word(20) + " <- f(" + word(45) + ", " + word(45) + ")\n",
               word(20) + "\n    <- f(" + word(45) + ", " + word(45) + ")\n");
  // The outer comma is better than the last one that fits.
  expectFormat("let x = f(g(" + word(40) + ", b), h(" + word(40) + ", c, " +
                   word(20) + "))\n",
               "let x = f(g(" + word(40) +
                   ", b),\n"
                   "          h(" +
                   word(40) + ", c, " + word(20) + "))\n");
  expectFormat("let x = " + word(60) + " ?? " + word(60) + "\n",
               "let x = " + word(60) + "\n    ?? " + word(60) + "\n");
  // Nothing else to break at, nor anything at all.
  expectFormat("let x = " + word(105) + "\n",
               "let x =\n    " + word(105) + "\n");
  expectFormat("let x = " + word(300) + "\n",
               "let x =\n    " + word(300) + "\n");
  expectFormat("use \"" + word(300) + "\"\n", "use \"" + word(300) + "\"\n");
  // A body that has no room in its line gets lines of its own.
  expectFormat("a <- " + word(50) + " { " + word(50) + " }\n",
               "a <- " + word(50) + " { " + word(50) + " }\n");
  expectFormat("a <- " + word(50) + " { " + word(51) + " }\n",
               "a <- " + word(50) + " {\n  " + word(51) + "\n}\n");
}

TEST(Format, AFileWithErrorsHasNoResult) {
  for (const char *text : {"mbspec 1\nlet x = ]\n", "", "mbspec 1\n# \xff\n"}) {
    Diagnostics diagnostics;
    EXPECT_EQ(format(text, "t.mbspec", diagnostics), std::nullopt) << text;
    EXPECT_TRUE(diagnostics.hasErrors()) << text;
  }
}

} // namespace
} // namespace mbc::dsl
