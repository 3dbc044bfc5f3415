#pragma once

#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>
#include <set>

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

  /// Overwrites bytes of a parameter of one rank.
  void change(const std::string &rank, const std::string &name, uint64_t offset,
              const std::string &bytes) const {
    for (const Json &row : listing())
      if (row["name"] == name && row["rank"] == rank)
        return overwrite(scratch_ / "mg/release/" +
                             row["file"].get<std::string>(),
                         row["offset"].get<uint64_t>() + offset, bytes);
    ADD_FAILURE() << rank << " has no " << name;
  }

  /// Megatron's names that some rank holds.
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const Json &row : listing())
      found.insert(row["name"].get<std::string>());
    return found;
  }

  Outcome exportBack(const std::vector<std::string> &options = {}) const {
    std::filesystem::remove_all(scratch_ / "back");
    std::vector<std::string> call = {"convert", scratch_ / "mg",
                                     scratch_ / "back"};
    call.insert(call.end(), options.begin(), options.end());
    return mbc(call);
  }

  void expectSourceBack() {
    const Outcome done = exportBack();
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(difference(model_.tensors(), readSafetensors(scratch_ / "back")),
              "");
  }

  HfModel model_;
  Scratch scratch_;
};

} // namespace mbc::test
