#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <cctype>
#include <filesystem>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

std::map<std::string, Json> rows() {
  const Outcome outcome = mbc({"specs", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::map<std::string, Json> rows;
  for (const Json &row : Json::parse(outcome.out, nullptr, false))
    rows[row["name"]] = row;
  return rows;
}

TEST(SpecsCommand, EachFamilyHasARowWithWhatIsSupported) {
  const std::map<std::string, Json> all = rows();
  size_t files = 0;
  for (const auto &entry : fs::directory_iterator(MBC_SPECS))
    files += entry.path().extension() == ".mbspec";
  EXPECT_EQ(all.size(), files);
  const std::pair<const char *, Json> cases[] = {
      {"llama", Json::array()},
      {"mixtral", {"experts"}},
      {"qwen3", {"MTP"}},
      {"deepseek_v3", {"experts", "MTP"}},
      {"glm5_next", {"experts", "MTP", "vision"}},
      {"qwen2_audio", {"audio"}},
      {"qwen3_omni_moe", {"experts", "vision", "audio"}}};
  for (const auto &[name, parts] : cases)
    EXPECT_EQ(all.at(name)["supports"], parts) << name;
  EXPECT_EQ(all.at("glm5_next")["megatron"], "HybridModel");
  EXPECT_EQ(all.at("mixtral")["forms"],
            Json({"fused", "grouped", "per_expert", "sequential"}));
}

/// Rows of the tables of a README whose first cell is of names: what the other
/// cells say, by each name.
std::map<std::string, std::string> familyTable(const std::string &file) {
  std::map<std::string, std::string> table;
  std::istringstream lines(readText(file));
  for (std::string line; std::getline(lines, line);) {
    const size_t cell = line.find(" | ");
    if (!line.starts_with("| `") || cell == std::string::npos)
      continue;
    for (size_t at = line.find('`'); at < cell;) {
      const size_t end = line.find('`', at + 1);
      table[line.substr(at + 1, end - at - 1)] += line.substr(cell) + "\n";
      at = line.find('`', end + 1);
    }
  }
  return table;
}

/// Whether a text has a word that is not part of a longer one.
bool hasWord(const std::string &text, const std::string &word) {
  auto isLetter = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
            text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1))
    if (!isLetter(at - 1) && !isLetter(at + word.size()))
      return true;
  return false;
}

TEST(SpecsCommand, TheTablesOfFamiliesAreWhole) {
  const std::string specs = MBC_SPECS;
  const std::string families = readText(specs + "/../README.md");
  const auto classes = familyTable(specs + "/README.md");
  const std::map<std::string, Json> all = rows();
  for (const auto &[name, row] : all) {
    EXPECT_TRUE(families.contains("`" + name + "`"))
        << "README.md has no " << name;
    ASSERT_TRUE(classes.contains(name)) << "specs/README.md has no " << name;
    for (const Json &architecture : row["architectures"])
      EXPECT_TRUE(hasWord(classes.at(name), architecture))
          << "specs/README.md: " << name << " does not mention "
          << architecture;
  }
  for (const auto &[name, row] : classes)
    EXPECT_TRUE(all.contains(name)) << "specs/README.md has " << name;
}

// In the text a line below the row, in JSON a list.
TEST(SpecsCommand, WhatASpecIsNotSureOfIsSaid) {
  const std::map<std::string, Json> all = rows();
  EXPECT_EQ(all.at("exaone_moe")["uncertain"],
            Json({"its MTP layer is dense, as Megatron-Bridge has it."}));
  // Of a file that it uses.
  EXPECT_EQ(all.at("step3p7")["uncertain"], all.at("step3p5")["uncertain"]);
  EXPECT_EQ(all.at("step3p5")["uncertain"].size(), 2u);
  EXPECT_EQ(all.at("llama")["uncertain"], Json::array());
  const std::string text = mbc({"specs"}).out;
  for (const auto &[name, row] : all)
    for (const Json &uncertain : row["uncertain"])
      EXPECT_TRUE(
          text.contains("  uncertain: " + uncertain.get<std::string>() + "\n"))
          << name;
}

// No comment says it elsewhere than where it is found.
TEST(SpecsCommand, EveryMentionOfUncertaintyIsFound) {
  std::string found;
  for (const auto &[name, row] : rows())
    found += row["uncertain"].dump();
  for (const auto &entry : fs::recursive_directory_iterator(MBC_SPECS)) {
    if (entry.path().extension() != ".mbspec")
      continue;
    const std::string text = readText(entry.path());
    const std::string mark = "ncertain";
    for (size_t at = text.find(mark); at != std::string::npos;
         at = text.find(mark, at + 1)) {
      const std::string begin = text.substr(at + mark.size() + 2, 20);
      EXPECT_TRUE(found.contains(begin.substr(0, begin.find('\n'))))
          << entry.path() << ": " << begin;
    }
  }
}

} // namespace
} // namespace mbc::test
