#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace mbc::dsl {
namespace {

TEST(Parse, AllSyntaxErrorsOfAFileAreReportedInOneRun) {
  EXPECT_EQ(
      parseMessages("mbspec 1\n"
                    "let x = ]\n"
                    "let y = 2\n"
                    "tied hf a b\n"),
      "t.mbspec:2:9: error: ']' cannot stand here\n"
      "  let x = ]\n"
      "          ^\n"
      "t.mbspec:4:11: error: 'b' cannot stand here; expected '?' or 'to'\n"
      "  tied hf a b\n"
      "            ^\n");
}

TEST(Parse, AnErrorInAHolePointsIntoTheName) {
  EXPECT_EQ(parseMessages("mbspec 1\n"
                          "for i in 0..2 { a.{i+}.b <- c }\n"),
            "t.mbspec:2:22: error: the text ends too early\n"
            "  for i in 0..2 { a.{i+}.b <- c }\n"
            "                       ^\n");
}

TEST(Parse, R1_AnotherVersionIsRefused) {
  EXPECT_EQ(parseMessages("mbspec 2\n"),
            "t.mbspec:1:8: error: this program reads version 1 of the "
            "language, the file says "
            "version 2\n"
            "  mbspec 2\n"
            "         ^\n");
}

TEST(Parse, R2_AMissingUsedFileIsNamedWithThePlacesSearched) {
  Diagnostics diagnostics;
  parseText("mbspec 1\nuse \"lib/absent.mbspec\"\n", "dir/t.mbspec",
            {"/nowhere"}, diagnostics);
  EXPECT_EQ(messages(diagnostics),
            "dir/t.mbspec:2:5: error: file \"lib/absent.mbspec\" was found "
            "neither beside "
            "dir/t.mbspec nor in the search path (/nowhere); check the "
            "spelling or give "
            "--spec-path\n"
            "  use \"lib/absent.mbspec\"\n"
            "      ^~~~~~~~~~~~~~~~~~~\n");
}

TEST(Parse, ABundleHoldsEverythingAndReadsBack) {
  Diagnostics diagnostics;
  ParseResult spec = parseFile(MBC_SPECS "/glm5_next.mbspec", {}, diagnostics);
  ASSERT_TRUE(spec) << messages(diagnostics);
  std::string text = bundle(*spec);
  ParseResult again = parseText(text, "plan", {}, diagnostics);
  ASSERT_TRUE(again) << messages(diagnostics);
  ASSERT_EQ(again->files.size(), spec->files.size());
  for (size_t i = 0; i != spec->files.size(); ++i) {
    EXPECT_EQ(again->files[i]->name, spec->files[i]->name);
    EXPECT_EQ(again->files[i]->text, spec->files[i]->text);
  }
}

TEST(Parse, ABundleSaysNothingAboutWhereItsFilesWere) {
  namespace fs = std::filesystem;
  fs::path root = fs::path(testing::TempDir()) / "mbc-bundle";
  auto write = [](const fs::path &path, std::string_view text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  // Once all in one folder, once the library in a search directory.
  std::string first = "mbspec 1\nuse \"lib/a.mbspec\"\na(2)\n";
  std::string a =
      "mbspec 1\nuse \"b.mbspec\"\nblock a(n) { w <- pair(x, n) }\n";
  std::string b = "mbspec 1\ndef pair(x, n) = concat(x:n, y)\n";
  write(root / "one/s.mbspec", first);
  write(root / "one/lib/a.mbspec", a);
  write(root / "one/lib/b.mbspec", b);
  write(root / "two/mine/s.mbspec", first);
  write(root / "two/specs/lib/a.mbspec", a);
  write(root / "two/specs/lib/b.mbspec", b);
  Diagnostics diagnostics;
  ParseResult one = parseFile(root / "one/s.mbspec", {}, diagnostics);
  ParseResult two =
      parseFile(root / "two/mine/s.mbspec", {root / "two/specs"}, diagnostics);
  fs::remove_all(root);
  ASSERT_TRUE(one && two) << messages(diagnostics);
  EXPECT_EQ(bundle(*one), "#file s.mbspec\n" + first + "#file lib/a.mbspec\n" +
                              a + "#file lib/b.mbspec\n" + b);
  EXPECT_EQ(bundle(*two), bundle(*one));
  ParseResult again = parseText(bundle(*two), "plan", {}, diagnostics);
  ASSERT_TRUE(again) << messages(diagnostics);
  EXPECT_EQ(bundle(*again), bundle(*one));
}

TEST(Parse, TheHeaderNeedsNoConfig) {
  Diagnostics diagnostics;
  ParseResult spec = parseFile(MBC_SPECS "/glm5_next.mbspec", {}, diagnostics);
  ASSERT_TRUE(spec) << messages(diagnostics);
  SpecHeader found = header(*spec);
  EXPECT_EQ(found.name, "glm5_next");
  EXPECT_EQ(found.architectures,
            std::vector<std::string>{"Glm5NextForConditionalGeneration"});
  EXPECT_EQ(found.modelType, "glm5_next");
  EXPECT_EQ(found.megatron, "HybridModel");
}

} // namespace
} // namespace mbc::dsl
