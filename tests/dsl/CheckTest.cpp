#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

namespace mbc::dsl {
namespace {

TEST(Check, R4_AMisspeltOperationGetsASuggestion) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "in_proj <- conact(q, k, v) shard=section\n"),
            "t.mbspec:2:12: error: 'conact' is neither an operation nor a def; "
            "did you mean "
            "'concat'?\n"
            "  in_proj <- conact(q, k, v) shard=section\n"
            "             ^~~~~~\n");
}

TEST(Check, R4_ArityPointsAtTheCallAndAtTheDef) {
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

TEST(Check, R3_AnUnknownVariableIsFoundWithoutAnyConfig) {
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

TEST(Check, R5_BlocksThatUseEachOtherAreRefused) {
  std::string text = parseMessages("mbspec 1\n"
                                   "block a { b }\n"
                                   "block b { a }\n");
  EXPECT_NE(text.find("uses itself; recursion is not part of the language"),
            std::string::npos)
      << text;
}

TEST(Check, R5_ADefThatUsesItselfIsRefused) {
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

TEST(Check, R9_AttributesKnowTheirWords) {
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

TEST(Check, R4_ABlockHasToExist) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "block attention { a <- b }\n"
                          "atention\n"),
            "t.mbspec:3:1: error: there is no block 'atention'; did you mean "
            "'attention'?\n"
            "  atention\n"
            "  ^~~~~~~~\n");
}

/// The first line of each finding, without places.
std::string findings(const std::string &rest) {
  Diagnostics diagnostics;
  parseText("mbspec 1\n" + rest, "t.mbspec", {}, diagnostics);
  std::string text;
  for (const Diagnostic &entry : diagnostics.all())
    text += entry.text + "\n";
  return text;
}

TEST(Check, R6_ATensorIsNoValueAndAValueNoTensor) {
  EXPECT_EQ(findings("a <- concat(3, b)\n"),
            "a tensor is needed here: a name or an operation\n");
  EXPECT_EQ(findings("let a = 1\nlet x = concat(a)\n"),
            "'concat' gives a tensor; a value is needed here\n");
}

TEST(Check, R7_AWildcardStandsOnlyInSubtreesIgnoreAndConfig) {
  EXPECT_EQ(findings("a.** <- b.*.c\n"),
            "a subtree is written NAME.** on both sides, with no other "
            "wildcard\n");
  EXPECT_EQ(findings("tied hf a.* to b\n"),
            "a tie names one tensor; a wildcard cannot stand here\n");
  EXPECT_EQ(findings("ignore a.*.b, c.**\nx.** <- y.**\n"), "");
}

TEST(Check, R8_TheOtherAxesEndAShape) {
  EXPECT_EQ(findings("a <- reshape(b, [..., 2])\n"),
            "'...' stands at the end of a shape\n");
  EXPECT_EQ(findings("a <- transpose(b, [1, ...])\n"),
            "'...' stands only in the shape of a reshape\n");
}

TEST(Check, R4_AnOperationHasItsArguments) {
  EXPECT_EQ(findings("a <- reshape(b)\n"),
            "'reshape' takes 2 arguments, 1 is given\n");
  EXPECT_EQ(findings("a <- deinterleave(b, [1, 2])\n"),
            "'deinterleave' takes 3 arguments, 2 are given\n");
  EXPECT_EQ(findings("let x = present(\"a\")\nlet y = len(x)\n"),
            "'present' takes 3 arguments, 1 is given\n");
}

TEST(Check, R10_OnlyConcatAndStackRepeatAndHaveADim) {
  EXPECT_EQ(findings("a <- reshape(e in 0..2: b{e}, [2])\n"),
            "only 'stack' and 'concat' repeat over a range\n");
  EXPECT_EQ(findings("a <- transpose(b, [1, 0], dim=1)\n"),
            "'transpose' has no argument 'dim'\n");
}

TEST(Check, R11_AFieldIsSetOnceAndIgnoredFieldsAreThoseOfConfigJson) {
  EXPECT_EQ(findings("config { a = 1 b = 2 a = 3 ignore x.y }\n"),
            "field 'a' is set twice\n"
            "'x.y' is no field of config.json; write hf.NAME\n");
}

TEST(Check, R23_AnArgumentBearsNoOtherParametersName) {
  const std::string glu = "def glu(gate, up, n) = concat(gate:n, up:n)\n";
  EXPECT_EQ(findings(glu + "fc1 <- glu(up_proj.weight, gate_proj.weight, 4)\n"),
            "'up_proj.weight' is given as 'gate' here, and 'gate_proj.weight' "
            "as 'up': the names say the opposite; swap the arguments or rename "
            "the parameters\n");
  EXPECT_EQ(findings(glu + "fc1 <- glu(gate_proj.weight, up_proj.weight, 4)\n"),
            "");
  // w1 and w3 say nothing.
  EXPECT_EQ(findings(glu + "fc1 <- glu(w3.weight, w1.weight, 4)\n"), "");
}

TEST(Check, R23_NumbersAndWordsOfABlockAreArguments) {
  const std::string block = "let H = 4\nlet G = 2\n"
                            "block b(H, G, up, down) { a <- x.{up} }\n";
  EXPECT_NE(findings(block + "b(G, H, \"up_proj\", \"down_proj\")\n"), "");
  EXPECT_NE(findings(block + "b(H, G, \"down_proj\", \"up_proj\")\n"), "");
  EXPECT_EQ(findings(block + "b(H, G, \"up_proj\", \"down_proj\")\n"), "");
  // Twice the same number is no exchange.
  EXPECT_EQ(findings(block + "b(H, H, \"up_proj\", \"down_proj\")\n"), "");
}

TEST(Check, R23_PiecesStandAsTheirSections) {
  EXPECT_EQ(findings("in_proj <- concat(q.weight, v.weight, k.weight) "
                     "shard=section(query, key, value)\n"),
            "'v.weight' stands where shard=section(...) says 'key', and "
            "'k.weight' where it says 'value'; order the pieces as the "
            "sections\n");
  EXPECT_EQ(findings("in_proj <- concat(q.weight, k.weight, v.weight) "
                     "shard=section(query, key, value)\n"),
            "");
  EXPECT_EQ(findings("in_proj <- concat(q.weight, v.weight, k.weight) "
                     "shard=section(query, 8, value)\n"),
            "section(...) holds the names of the sections, such as "
            "section(query, key, value)\n");
}

TEST(Check, R24_ADefKeepsTheOrderOfItsParameters) {
  EXPECT_EQ(findings("def glu(gate, up, n) = concat(up:n, gate:n)\n"),
            "'gate' stands behind 'up' here, and before it among the "
            "parameters of 'glu'; keep one order\n");
}

TEST(Check, R25_SourcesThatHaveChangedPlaces) {
  EXPECT_EQ(findings("q_layernorm.weight <- k_norm.weight\n"
                     "k_layernorm.weight <- q_norm.weight\n"),
            "'q_layernorm.weight' is read from 'k_norm.weight', and "
            "'k_layernorm.weight' from 'q_norm.weight': the names say the "
            "opposite; is that meant?\n");
  EXPECT_NE(findings("embedding.weight <- lm_head.weight\n"
                     "if true { output.weight <- embed_tokens.weight }\n"),
            "");
  EXPECT_EQ(findings("q_layernorm.weight <- q_norm.weight\n"
                     "k_layernorm.weight <- k_norm.weight\n"
                     "down.weight <- a_proj.weight\n"
                     "up.weight <- b_proj.weight\n"),
            "");
}

TEST(Check, R26_NoNumberOfANameIsNegative) {
  EXPECT_TRUE(evaluateText(withModel("for i in 0..2 { a.{i} <- b.{i-1} }\n"))
                  .text.contains("-1 is no number for a name"));
}

TEST(Check, R27_RowsAreDealtOutWhereThereAreExperts) {
  const std::string rule = "a <- b  shard=expert_rows\n";
  EXPECT_TRUE(evaluateText(withModel(rule))
                  .text.contains("'expert_rows' deals rows out over the expert "
                                 "ranks, and the model "
                                 "declares no experts"));
  Evaluated good = evaluateText("mbspec 1\n"
                                "model tiny { megatron \"GPTModel\" layers 1 "
                                "experts 4 vocab 8 multiple 1 }\n" +
                                rule);
  EXPECT_EQ(good.text, "");
  EXPECT_EQ(good.model.mappings.at(0).shard.kind, ShardKind::ExpertRows);
  EXPECT_TRUE(parseMessages(withModel("a <- b  shard=expert_rows(4)\n"))
                  .contains("'expert_rows' takes no arguments"));
}

TEST(Check, R28_OnlyTensorsOfHuggingFaceHaveItsDType) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "a <- concat(b, init(0, [2]))  hf_dtype=f32\n"
                          "c <- concat(init(1, [2]), init(0, [2]))  "
                          "hf_dtype=f32\n"
                          "d <- e  hf_dtype=float\n"),
            "t.mbspec:3:42: error: 'hf_dtype' is the dtype of a Hugging Face "
            "tensor, and this rule has none\n"
            "  c <- concat(init(1, [2]), init(0, [2]))  hf_dtype=f32\n"
            "                                           ^~~~~~~~\n"
            "t.mbspec:4:18: error: 'float' is no hf_dtype; known are config, "
            "f32, bf16, f16\n"
            "  d <- e  hf_dtype=float\n"
            "                   ^~~~~\n");
}

} // namespace
} // namespace mbc::dsl
