
#include "tests/end-to-end/RankConversion.h"
#include <bit>
#include <filesystem>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

// Models of text and vision: nothing goes from one part into another, and names
// come from the files.

namespace mbc::test {
namespace {

/// BF16 elements, by row-major index. The values need no more than 8 bits.
std::vector<std::byte> shorts(uint64_t count,
                              const std::function<float(uint64_t)> &element) {
  std::vector<std::byte> bytes;
  for (uint64_t i = 0; i != count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(element(i)) >> 16;
    bytes.push_back(static_cast<std::byte>(bits & 0xFF));
    bytes.push_back(static_cast<std::byte>(bits >> 8));
  }
  return bytes;
}

std::string textOf(const std::vector<std::byte> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

using VisionLanguage = RankConversion;

/// Which part a name belongs to, as the constant that fills it.
float partOf(const std::string &name, const std::string &tower,
             const std::string &blocks) {
  if (!name.starts_with(tower))
    return 4;
  const std::string rest = name.substr(tower.size());
  return rest.starts_with(blocks)                           ? 1
         : rest.starts_with("merger.")                      ? 2
         : rest.find("deepstack_merger_list.") != rest.npos ? 3
                                                            : 5;
}

TEST_F(VisionLanguage, EachPartKeepsItsConstant) {
  model_ = fixture("qwen3_vl");
  for (const auto &[name, tensor] : model_.tensors())
    model_.contents[name] = shorts(tensor.bytes.size() / 2, [&](uint64_t) {
      return partOf(name, "model.visual.", "blocks.");
    });
  // 500 tokens need no padding here.
  const Outcome done = import({"--tp", "2", "--pp", "2", "--first-stage-layers",
                               "1", "--last-stage-layers", "2",
                               "--make-vocab-size-divisible-by", "250"});
  ASSERT_EQ(done.status, 0) << done.err;
  size_t towers = 0;
  for (const Json &row : listing()) {
    const std::string name = row["name"], rank = row["rank"],
                      bytes = stored(scratch_ / "mg", row);
    const float part = partOf(name, "vision_model.", "decoder.layers.");
    EXPECT_EQ(bytes, textOf(shorts(bytes.size() / 2,
                                   [part](uint64_t) { return part; })))
        << rank << " " << name;
    if (part == 4)
      continue;
    ++towers;
    EXPECT_NE(rank.find(".pp0."), rank.npos) << rank << " " << name;
  }
  // 4 blocks of 12 parameters, 3 mergers of 6, 3 others, on 2 tensor ranks.
  EXPECT_EQ(towers, 2U * (4 * 12 + 3 * 6 + 3));
  expectSourceBack();
}

TEST_F(VisionLanguage, QueriesKeysAndValuesOfATowerGoHeadByHead) {
  model_ = fixture("qwen3_vl"); // 4 heads of 12
  model_.contents["model.visual.blocks.0.attn.qkv.bias"] =
      shorts(144, [](uint64_t row) { return static_cast<float>(row); });
  const Outcome done = import({"--tp", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (uint64_t rank : {0, 1})
    EXPECT_EQ(parameter(fmt::format("tp{}.pp0.ep0", rank),
                        "vision_model.decoder.layers.0.self_attention."
                        "linear_qkv.bias"),
              textOf(shorts(72,
                            [rank](uint64_t row) {
                              const uint64_t head = 2 * rank + row / 36,
                                             kind = row % 36 / 12;
                              return static_cast<float>(48 * kind + 12 * head +
                                                        row % 12);
                            })))
        << rank;
  expectSourceBack();
}

/// Experts of width 40 at a hidden size of 80: gate and up together are square.
class SquareGateUp : public VisionLanguage {
protected:
  SquareGateUp() {
    model_ = fixture("qwen3_vl_moe");
    model_.config["text_config"]["moe_intermediate_size"] = 40;
    for (int64_t i = 0; i != 4; ++i) {
      model_.at(experts(i) + "gate_up_proj").shape = {4, 80, 80};
      model_.at(experts(i) + "down_proj").shape = {4, 40, 80};
    }
  }

  static std::string experts(int64_t layer) {
    return fmt::format("model.language_model.layers.{}.mlp.experts.", layer);
  }
};

TEST_F(SquareGateUp, IsTurnedAsDownIs) {
  const Outcome done = import({"--ep", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Tensors source = model_.tensors();
  const std::string name =
      "language_model.decoder.layers.2.mlp.experts.linear_fc";
  for (int64_t e = 0; e != 4; ++e)
    for (const auto &[linear, from] :
         {std::pair{1, "gate_up_proj"}, {2, "down_proj"}})
      EXPECT_EQ(parameter(fmt::format("tp0.pp0.ep{}", e / 2),
                          fmt::format("{}{}.weight{}", name, linear, e)),
                textOf(transposed(pick(source.at(experts(2) + from), e)).bytes))
          << e << " " << from;
  expectSourceBack();
}

TEST_F(SquareGateUp, StaysWhereDownLiesTheOtherWayRound) {
  for (int64_t i = 0; i != 4; ++i)
    model_.at(experts(i) + "down_proj").shape = {4, 80, 40};
  const Outcome done = import({"--ep", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Tensors source = model_.tensors();
  for (int64_t e = 0; e != 4; ++e)
    for (const auto &[linear, from] :
         {std::pair{1, "gate_up_proj"}, {2, "down_proj"}})
      EXPECT_EQ(
          parameter(fmt::format("tp0.pp0.ep{}", e / 2),
                    fmt::format("language_model.decoder.layers.2.mlp.experts."
                                "linear_fc{}.weight{}",
                                linear, e)),
          textOf(pick(source.at(experts(2) + from), e).bytes))
          << e << " " << from;
  expectSourceBack();
}

TEST_F(SquareGateUp, IsRefusedWhereOneLayerIsTurned) {
  model_.at(experts(0) + "down_proj").shape = {4, 80, 40};
  const Outcome refused = import();
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(refused.err.contains("mixed layouts: '" + experts(0)))
      << refused.err;
}

/// Gemma 3, whose tower stands under one name or two.
class TwoPrefixes : public VisionLanguage {
protected:
  TwoPrefixes() { model_ = fixture("gemma3_vl"); }

  static std::string wrapped(const std::string &name) {
    const std::string tower = "vision_tower.";
    return tower + "vision_model." + name.substr(tower.size());
  }

  /// Both spellings import to the same names; each comes back as it was.
  std::set<std::string> namesInMegatron() {
    const Outcome done = import();
    EXPECT_EQ(done.status, 0) << done.err;
    expectSourceBack();
    return names();
  }
};

TEST_F(TwoPrefixes, AreTheSameInMegatron) {
  const std::set<std::string> plain = namesInMegatron();
  for (auto &file : model_.files)
    for (auto &tensor : file.tensors)
      if (tensor.name.starts_with("vision_tower."))
        tensor.name = wrapped(tensor.name);
  for (const char *folder : {"hf", "mg", "back"})
    std::filesystem::remove_all(scratch_ / folder);
  EXPECT_EQ(namesInMegatron(), plain);
}

// As files are published, and as the Hugging Face library names the modules.
TEST_F(TwoPrefixes, OfPublicationAndLibraryAreTheSameInMegatron) {
  using Prefixes = std::vector<std::pair<std::string, std::string>>;
  const std::pair<const char *, Prefixes> cases[] = {
      {"ernie4_5_vl_moe", {{"vision_model.", "model.vision_model."}}},
      {"qwen2_5_vl",
       {{"model.", "model.language_model."}, {"visual.", "model.visual."}}},
      {"llava_onevision1_5",
       {{"model.language_model.", "model."}, {"model.visual.", "visual."}}}};
  for (const auto &[name, prefixes] : cases) {
    SCOPED_TRACE(name);
    auto clean = [&] {
      for (const char *folder : {"hf", "mg", "back"})
        std::filesystem::remove_all(scratch_ / folder);
    };
    clean();
    model_ = fixture(name);
    const std::set<std::string> published = namesInMegatron();
    size_t renamed = 0;
    for (auto &file : model_.files)
      for (auto &tensor : file.tensors)
        for (const auto &[from, to] : prefixes)
          if (tensor.name.starts_with(from)) {
            tensor.name = to + tensor.name.substr(from.size());
            ++renamed;
            break;
          }
    EXPECT_GT(renamed, 0u);
    clean();
    EXPECT_EQ(namesInMegatron(), published);
  }
}

TEST_F(TwoPrefixes, AreRefusedInOneFile) {
  const std::string name = "vision_tower.embeddings.patch_embedding.weight";
  model_.add(wrapped(name), "BF16", model_.at(name).shape);
  const Outcome refused = import();
  EXPECT_EQ(refused.status, 1);
  for (const std::string &part : {name, wrapped(name)})
    EXPECT_NE(refused.err.find("'" + part + "'"), std::string::npos)
        << refused.err;
}

} // namespace
} // namespace mbc::test
