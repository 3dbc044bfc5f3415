#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

/// A model of a known build under a name that no spec has.
class Draft : public testing::TestWithParam<const char *> {
protected:
  HfModel unknown() {
    HfModel model = fixture(GetParam());
    model.config["architectures"] = {"FooForCausalLM"};
    model.config["model_type"] = "foo-2";
    return model;
  }

  Scratch scratch_;
  const std::string source_ = scratch_ / "hf", spec_ = scratch_ / "foo.mbspec";
};

TEST_P(Draft, NeedsNoEditForAKnownBuild) {
  HfModel model = unknown();
  model.write(source_);
  Outcome draft = mbc({"spec", "new", source_, "-o", spec_});
  ASSERT_EQ(draft.status, 0) << draft.err;
  const std::string written = readText(spec_);
  EXPECT_TRUE(written.contains("model foo_2 {")) << written;
  const Outcome again = mbc({"spec", "new", source_, "-o", spec_});
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(again.err.contains(spec_ + " exists")) << again.err;
  EXPECT_EQ(readText(spec_), written);
  Outcome check = mbc({"check", source_, "--spec", spec_});
  EXPECT_EQ(check.status, 0) << check.err;

  // Nor does it differ from the spec that the family has.
  Outcome drafted =
      mbc({"convert", source_, scratch_ / "drafted", "--spec", spec_});
  ASSERT_EQ(drafted.status, 0) << drafted.err;
  fixture(GetParam()).write(scratch_ / "known");
  Outcome shipped = mbc({"convert", scratch_ / "known", scratch_ / "shipped"});
  ASSERT_EQ(shipped.status, 0) << shipped.err;
  EXPECT_EQ(mbc({"ls", "--sha256", scratch_ / "drafted"}).out,
            mbc({"ls", "--sha256", scratch_ / "shipped"}).out);
  // Megatron's arguments, of which no name tells.
  EXPECT_EQ(readText(scratch_ / "drafted/release/common.pt"),
            readText(scratch_ / "shipped/release/common.pt"));
}

INSTANTIATE_TEST_SUITE_P(Builds, Draft,
                         testing::Values("llama", "qwen2", "qwen3", "qwen3_moe",
                                         "mixtral", "glm_moe_dsa"));

using DraftOfOne = Draft;
TEST_P(DraftOfOne, ListsWhatItCannotPlace) {
  HfModel model = unknown();
  model.files.front().tensors.front().name = "model.layers.0.mystery.weight";
  model.write(source_);
  Outcome draft = mbc({"spec", "new", source_});
  EXPECT_EQ(draft.status, 0) << draft.err;
  EXPECT_TRUE(draft.out.contains("#   model.layers.0.mystery.weight"))
      << draft.out;
  EXPECT_TRUE(draft.out.contains("Looked for, and not there:")) << draft.out;
}

INSTANTIATE_TEST_SUITE_P(One, DraftOfOne, testing::Values("llama"));

} // namespace
} // namespace mbc::test
