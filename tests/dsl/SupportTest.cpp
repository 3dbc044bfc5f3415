#include "dsl/Support.h"
#include "dsl/Parse.h"
#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

namespace mbc::dsl {
namespace {

using Words = std::vector<std::string>;

SpecSupport supportOf(const std::string &text) {
  Diagnostics diagnostics;
  ParseResult spec = parseText(text, "t.mbspec", {}, diagnostics);
  EXPECT_TRUE(spec) << messages(diagnostics);
  return spec ? support(*spec) : SpecSupport{};
}

TEST(Support, PartsAreThoseOfTheRulesThatAreReached) {
  EXPECT_EQ(supportOf(withModel("a <- x\n")).parts, Words{});
  EXPECT_EQ(supportOf(withModel("block unused { mtp.a <- x }\na <- x\n")).parts,
            Words{});
  EXPECT_EQ(supportOf(withModel("block deep { mtp.layers.0.a <- y }\n"
                                "if hf.n > 0 { deep }\n"
                                "thinker.visual.** <- v.**\n"))
                .parts,
            (Words{"MTP", "vision"}));
  EXPECT_EQ(supportOf(withModel("audio_tower <- a { b <- c }\n")).parts,
            Words{"audio"});
  // A name of Hugging Face alone says nothing of what Megatron gets.
  EXPECT_EQ(supportOf(withModel("a <- mtp.x\n")).parts, Words{});
}

TEST(Support, FormsAreTheLabelsOfAlternatives) {
  EXPECT_EQ(
      supportOf(withModel("either two { either b { a <- x } or a { a <- y } }"
                          " or one { a <- z }\n"))
          .forms,
      (Words{"a", "b", "one", "two"}));
}

TEST(Support, UncertainIsWhatCommentsSay) {
  EXPECT_EQ(supportOf(withModel("# First.\n"
                                "# Uncertain: how wide\n"
                                "# it is.\n"
                                "# Uncertain: how high.\n"
                                "a <- x\n"
                                "# Uncertain: alone.\n"
                                "#\n"
                                "# Not this.\n"
                                "b <- y  # Uncertain: not this either.\n"))
                .uncertain,
            (Words{"how wide it is.", "how high.", "alone."}));
}

} // namespace
} // namespace mbc::dsl
