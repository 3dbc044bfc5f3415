#include "tests/end-to-end/PublishedForm.h"
#include "tests/end-to-end/RankConversion.h"

// A Megatron checkpoint of somebody else's has no record of the tensors that it
// came from: names and dtypes of Hugging Face are those that the spec and
// config.json say, and have to be those that are published.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

class WithoutRecord : public testing::TestWithParam<std::string> {};

// `exportOf` knows the exceptions: what is quantised leaves as BF16.
TEST_P(WithoutRecord, TheExportIsWhatIsPublished) {
  const Scratch scratch;
  const HfModel model = fixture(GetParam());
  model.write(scratch / "hf");
  std::vector<std::string> in{"convert", scratch / "hf", scratch / "mg"},
      out{"convert", scratch / "mg", scratch / "back", "--hf-config",
          scratch / "hf"};
  for (const std::string &option : importOptions(GetParam()))
    in.push_back(option);
  for (const std::string &option : publishedForm(GetParam()))
    out.push_back(option);
  Outcome outcome = mbc(in);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_NE(fs::remove_all(scratch / "mg/release/mbc"), 0u);
  outcome = mbc(out);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(
      difference(withOneForm(GetParam(), exportOf(model)),
                 withOneForm(GetParam(), readSafetensors(scratch / "back"))),
      "");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, WithoutRecord,
                         testing::ValuesIn(allFixtures()),
                         [](const auto &info) { return info.param; });

std::string littleEndian(float value) {
  return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

/// What training leaves in float32 need not fit Hugging Face's dtype.
class TrainedNorm : public RankConversion {
protected:
  void SetUp() override {
    model_ = fixture("qwen3_next");
    ASSERT_EQ(import().status, 0);
    // Hugging Face has 1 more: 1.005, between 1 and 1 + 2^-7.
    change("tp0.pp0.ep0", "decoder.layers.0.self_attention.out_norm.weight", 0,
           littleEndian(0.005f));
  }
  void expectRounding(const std::vector<std::string> &options) {
    Outcome outcome = exportBack(options);
    EXPECT_EQ(outcome.status, 1);
    for (const char *word :
         {"model.layers.0.linear_attn.norm.weight", "element 0", "--dtype"})
      EXPECT_TRUE(outcome.err.contains(word)) << outcome.err;
    std::vector<std::string> rounding = options;
    rounding.insert(rounding.end(), {"--dtype", "bf16"});
    outcome = exportBack(rounding);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Tensor norm = readSafetensors(scratch_ / "back")
                            .at("model.layers.0.linear_attn.norm.weight");
    EXPECT_EQ(norm.dtype, "BF16");
    EXPECT_EQ(norm.bytes.at(0), std::byte{0x81}); // 1 + 2^-7
    EXPECT_EQ(norm.bytes.at(1), std::byte{0x3f});
  }
};

TEST_F(TrainedNorm, IsRoundedOnlyOnRequest) { expectRounding({}); }

TEST_F(TrainedNorm, IsRoundedOnlyOnRequestWithoutARecord) {
  fs::remove_all(scratch_ / "mg/release/mbc");
  expectRounding({"--hf-config", scratch_ / "hf"});
}

// --dtype is not for what Hugging Face, too, has in the pinned dtype.
TEST_F(TrainedNorm, LeavesTheRoutersBiasInFloat32) {
  model_ = fixture("glm4_moe");
  ASSERT_EQ(import({"--copies", "drop"}).status, 0);
  fs::remove_all(scratch_ / "mg/release/mbc");
  const Outcome outcome =
      exportBack({"--hf-config", scratch_ / "hf", "--dtype", "bf16"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(difference(exportOf(model_), readSafetensors(scratch_ / "back")),
            "");
}

} // namespace
} // namespace mbc::test
