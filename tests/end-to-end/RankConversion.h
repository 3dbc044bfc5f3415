#pragma once

#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace mbc::test {

/// One model, taken to per-rank files and back.
class RankConversion : public testing::Test {
protected:
  Outcome import(const std::vector<std::string> &options = {}) {
    model_.write(scratch_ / "hf");
    std::filesystem::remove_all(scratch_ / "mg");
    std::vector<std::string> call = {"convert", scratch_ / "hf",
                                     scratch_ / "mg", "--format", "torch"};
    call.insert(call.end(), options.begin(), options.end());
    return mbc(call);
  }

  Json listing() const {
    return Json::parse(mbc({"ls", scratch_ / "mg", "--json"}).out, nullptr,
                       false);
  }

  /// The bytes of a parameter of one rank, by the file and offset that `ls`
  /// reports.
  std::string parameter(const std::string &rank,
                        const std::string &name) const {
    for (const Json &row : listing())
      if (row["name"] == name && row["rank"] == rank)
        return stored(scratch_ / "mg", row);
    ADD_FAILURE() << rank << " has no " << name;
    return {};
  }

  void expectSourceBack() {
    std::filesystem::remove_all(scratch_ / "back");
    ASSERT_EQ(mbc({"convert", scratch_ / "mg", scratch_ / "back"}).status, 0);
    EXPECT_EQ(difference(model_.tensors(), readSafetensors(scratch_ / "back")),
              "");
  }

  HfModel model_;
  Scratch scratch_;
};

} // namespace mbc::test
