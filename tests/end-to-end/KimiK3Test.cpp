#include "tests/end-to-end/RankConversion.h"

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

class KimiK3 : public RankConversion {
protected:
  KimiK3() { model_ = fixture("kimi_k3"); }

  static constexpr const char *decays =
      "language_model.model.layers.1.self_attn.A_log";
};

// Four heads of six channels: the last two numbers stand for no head.
TEST_F(KimiK3, ADecayOfNoHeadHasToBeZero) {
  std::vector<std::byte> bytes = model_.tensors().at(decays).bytes;
  bytes[5 * sizeof(float)] = std::byte{1};
  model_.contents[decays] = bytes;
  const Outcome refused = import();
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find(std::string("'") + decays +
                             "': row 5 is not zero, but rows 4 to 5 have no "
                             "place in Megatron"),
            std::string::npos)
      << refused.err;
}

TEST_F(KimiK3, AZeroOfTheOtherSignIsNoZero) {
  std::vector<std::byte> bytes = model_.tensors().at(decays).bytes;
  bytes[4 * sizeof(float) + 3] = std::byte{0x80};
  model_.contents[decays] = bytes;
  EXPECT_EQ(import().status, 1);
}

// As many heads as channels: nothing is left over.
TEST_F(KimiK3, WithoutPaddingEveryDecayCounts) {
  model_.config["text_config"]["linear_attn_config"]["head_dim"] = 4;
  for (auto &file : model_.files)
    for (auto &tensor : file.tensors) {
      if (tensor.name.ends_with("A_log")) {
        tensor.shape = {4};
        tensor.filled = UINT64_MAX;
      }
      for (int64_t &extent : tensor.shape)
        if (tensor.name.contains(".self_attn.") &&
            !tensor.name.contains("s.3."))
          extent = extent == 24 ? 16 : extent == 6 ? 4 : extent;
    }
  const Outcome done = import({"--tp", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  expectSourceBack();
}

// Without the zeros that stand for no head: the same values, and back without.
TEST_F(KimiK3, DecaysThatWereTrimmedStayTrimmed) {
  const Outcome padded = import({"--tp", "2"});
  ASSERT_EQ(padded.status, 0) << padded.err;
  const std::string name =
      "language_model.decoder.layers.1.self_attention.A_log";
  const std::string whole = parameter("tp1.pp0.ep0", name);
  EXPECT_EQ(whole.size(), 2 * sizeof(float));
  for (auto &file : model_.files)
    for (auto &tensor : file.tensors)
      if (tensor.name.ends_with("A_log")) {
        tensor.shape = {4};
        tensor.filled = UINT64_MAX;
      }
  const Outcome trimmed = import({"--tp", "2"});
  ASSERT_EQ(trimmed.status, 0) << trimmed.err;
  EXPECT_EQ(parameter("tp1.pp0.ep0", name), whole);
  expectSourceBack();
}

// Not of some layers only.
TEST_F(KimiK3, DecaysThatWereTrimmedInOneLayerAreRefused) {
  model_.at(decays).shape = {4};
  model_.at(decays).filled = UINT64_MAX;
  const Outcome refused = import();
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(refused.err.contains("mixed layouts: ")) << refused.err;
  EXPECT_TRUE(refused.err.contains(decays)) << refused.err;
}

// The text model's own names, without those of a model with vision.
TEST_F(KimiK3, TheDecoderAloneHasNoPrefixAndNoTower) {
  const Outcome done = import({"--form", "text_only"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (const Json &row : listing()) {
    const std::string name = row["name"];
    EXPECT_TRUE(name.starts_with("decoder.") ||
                name.starts_with("embedding.") ||
                name.starts_with("output_layer."))
        << name;
  }
  for (auto &file : model_.files)
    std::erase_if(file.tensors, [](const auto &tensor) {
      return tensor.name.starts_with("vision_tower.") ||
             tensor.name.starts_with("mm_projector.");
    });
  expectSourceBack();
}

} // namespace
} // namespace mbc::test
