#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>
#include <map>

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
