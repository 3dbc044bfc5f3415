#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"
#include "tests/fixtures/Sha256.h"

#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

const std::string hfLayer = "model.layers.0.linear_attn.",
                  megatronLayer = "decoder.layers.0.self_attention.";

/// The one row of a listing with this name (and rank), if there is one.
Row only(const std::vector<Row> &listing, const std::string &name,
         const std::string &rank = {}) {
  std::vector<Row> found;
  std::ranges::copy_if(listing, std::back_inserter(found), [&](const Row &row) {
    return row.name == name && (rank.empty() || row.rank.starts_with(rank));
  });
  EXPECT_EQ(found.size(), 1u) << name;
  return found.empty() ? Row{} : found.front();
}

std::string hashOf(const Tensor &tensor) {
  return fixtures::sha256(tensor.bytes);
}

/// 4 key heads of width 3 and 8 value heads of width 2: a cut in the middle of
/// the packed projection lies inside a section.
HfModel oddWidths() {
  HfModel model = fixture("qwen3_next");
  model.config["linear_key_head_dim"] = 3;
  model.config["linear_value_head_dim"] = 2;
  for (const std::string layer : {"0", "1", "2"}) {
    const std::string hf = "model.layers." + layer + ".linear_attn.";
    model.at(hf + "in_proj_qkvz.weight").shape = {56, 88};
    model.at(hf + "conv1d.weight").shape = {40, 1, 4};
    model.at(hf + "norm.weight").shape = {2};
    model.at(hf + "out_proj.weight").shape = {88, 16};
  }
  return model;
}

Tensor rowsAt(const Tensor &tensor, const std::vector<int64_t> &indices) {
  std::vector<Tensor> parts;
  for (int64_t index : indices)
    parts.push_back(rows(tensor, index, index + 1));
  return joinRows(parts);
}

TEST(GatedDelta, FourKeyHeadsOnTwoRanks) {
  const HfModel model = oddWidths();
  const Scratch scratch;
  model.write(scratch / "hf");
  const Tensors hf = model.tensors();
  const Tensor &qkvz = hf.at(hfLayer + "in_proj_qkvz.weight"),
               &ba = hf.at(hfLayer + "in_proj_ba.weight"),
               &conv = hf.at(hfLayer + "conv1d.weight");
  Outcome outcome = mbc({"convert", scratch / "hf", scratch / "ranks", "--tp",
                         "2", "--etp", "1", "--format", "torch"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Row> ranks = list(scratch / "ranks");
  const Row inProj = only(ranks, megatronLayer + "in_proj.weight", "tp1");
  EXPECT_EQ(inProj.shape, (Extents{36, 88}));
  EXPECT_EQ(
      inProj.sha256,
      hashOf(joinRows({rowsAt(qkvz, {28, 29, 30, 42, 43, 44, 31, 32, 33, 45,
                                     46, 47, 34, 35, 36, 37, 48, 49, 50, 51,
                                     38, 39, 40, 41, 52, 53, 54, 55}),
                       rowsAt(ba, {8, 9, 12, 13, 10, 11, 14, 15})})));
  const Row conv1d = only(ranks, megatronLayer + "conv1d.weight", "tp1");
  EXPECT_EQ(conv1d.sha256,
            hashOf(rowsAt(conv, {6,  7,  8,  9,  10, 11, 18, 19, 20, 21,
                                 22, 23, 32, 33, 34, 35, 36, 37, 38, 39})));

  outcome = mbc(
      {"convert", scratch / "hf", scratch / "dist", "--tp", "2", "--etp", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Row query = only(list(scratch / "dist", {"--keys"}),
                         megatronLayer + "in_proj.weight.query");
  EXPECT_EQ(query.shape, (Extents{12, 88}));
  EXPECT_EQ(query.sha256, hashOf(rowsAt(qkvz, {0, 1, 2, 14, 15, 16, 28, 29, 30,
                                               42, 43, 44})));
}

TEST(GatedDelta, EightRanksDoNotShareFourKeyHeads) {
  HfModel model = oddWidths();
  const Scratch scratch;
  model.write(scratch / "hf");
  const Outcome outcome =
      mbc({"check", scratch / "hf", "--tp", "8", "--etp", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(
      "self_attention.A_log: 4 heads or groups do not divide by 8 (--tp); "
      "legal values are 1, 2 and 4"))
      << outcome.err;
}

TEST(GatedDelta, PackedRowsHaveTheWidthsOfTheConfig) {
  HfModel model = fixture("qwen3_next");
  model.config["linear_key_head_dim"] = 13;
  const Scratch scratch;
  model.write(scratch / "hf");
  const Outcome outcome = mbc({"check", scratch / "hf"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(
      hfLayer + "in_proj_qkvz.weight has shape [256, 88]; 4 groups of 66 need "
                "264 rows"))
      << outcome.err;
}

// 0.5, 0.75, 1, 1.5, 2, 0.010009765625, 3 and 0.25: in BF16 the sixth less one
// and plus one again is 0.01171875.
TEST(GatedDelta, TheZeroCentredNormComesBackFromEachExport) {
  HfModel model = fixture("qwen3_next");
  const std::vector<uint16_t> codes{0x3F00, 0x3F40, 0x3F80, 0x3FC0,
                                    0x4000, 0x3C24, 0x4040, 0x3E80};
  const std::vector<float> values{0.5F, 0.75F,           1.0F, 1.5F,
                                  2.0F, 0.010009765625F, 3.0F, 0.25F};
  const std::string norm = hfLayer + "norm.weight";
  model.config["linear_value_head_dim"] = 8;
  for (const std::string layer : {"0", "1", "2"}) {
    const std::string hf = "model.layers." + layer + ".linear_attn.";
    model.at(hf + "in_proj_qkvz.weight").shape = {224, 88};
    model.at(hf + "conv1d.weight").shape = {160, 1, 4};
    model.at(hf + "norm.weight").shape = {8};
    model.at(hf + "out_proj.weight").shape = {88, 64};
  }
  const auto *bytes = reinterpret_cast<const std::byte *>(codes.data());
  model.contents[norm].assign(bytes, bytes + 16);
  const Scratch scratch;
  model.write(scratch / "hf");
  ASSERT_EQ(mbc({"convert", scratch / "hf", scratch / "mg"}).status, 0);

  Tensor centred{"F32", {8}, {}};
  for (float value : values)
    for (uint32_t bits = std::bit_cast<uint32_t>(value - 1), at = 0; at != 4;
         ++at)
      centred.bytes.push_back(static_cast<std::byte>(bits >> 8 * at));
  const std::vector<Row> before = list(scratch / "mg");
  const Row outNorm = only(before, megatronLayer + "out_norm.weight");
  EXPECT_EQ(outNorm.dtype, "F32");
  EXPECT_EQ(outNorm.sha256, hashOf(centred));

  // The other norms are zero-centred on both sides.
  const Tensors hf = model.tensors();
  const std::pair<const char *, const char *> copied[] = {
      {"decoder.layers.0.self_attention.in_proj.layer_norm_weight",
       "model.layers.0.input_layernorm.weight"},
      {"decoder.layers.0.pre_mlp_layernorm.weight",
       "model.layers.0.post_attention_layernorm.weight"},
      {"decoder.layers.3.self_attention.q_layernorm.weight",
       "model.layers.3.self_attn.q_norm.weight"},
      {"decoder.layers.3.self_attention.k_layernorm.weight",
       "model.layers.3.self_attn.k_norm.weight"},
      {"decoder.final_layernorm.weight", "model.norm.weight"}};
  for (auto [megatron, source] : copied)
    EXPECT_EQ(only(before, megatron).sha256, hashOf(hf.at(source))) << megatron;

  for (const char *target : {"once", "twice"}) {
    ASSERT_EQ(mbc({"convert", scratch / "mg", scratch / target}).status, 0);
    EXPECT_EQ(difference(hf, readSafetensors(scratch / target)), "");
  }
  const std::vector<Row> after = list(scratch / "mg");
  ASSERT_EQ(after.size(), before.size());
  for (size_t at = 0; at != after.size(); ++at)
    EXPECT_EQ(after[at].sha256, before[at].sha256) << after[at].name;
}

} // namespace
} // namespace mbc::test
