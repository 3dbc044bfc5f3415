#include "runtime/MegatronNames.h"

#include "runtime/MegatronShards.h"
#include "runtime/TorchDistNames.h"

#include <gtest/gtest.h>

namespace mbc {
namespace {

TEST(MegatronNames, GroupedExpert) {
  MegatronName name = parseMegatronName(
      "language_model.decoder.layers.7.mlp.experts.linear_fc1.weight12");
  EXPECT_EQ(name.layer, 7);
  EXPECT_EQ(name.expert, 12);
  EXPECT_FALSE(name.sequential);
  EXPECT_FALSE(name.mtp);
}

TEST(MegatronNames, SequentialExpert) {
  MegatronName name = parseMegatronName(
      "decoder.layers.7.mlp.experts.local_experts.12.linear_fc2.weight");
  EXPECT_EQ(name.layer, 7);
  EXPECT_EQ(name.expert, 12);
  EXPECT_TRUE(name.sequential);
}

TEST(MegatronNames, MtpLayersAreNoDecoderLayers) {
  MegatronName name =
      parseMegatronName("mtp.layers.0.mtp_model_layer.layers.1.inner_layer.mlp."
                        "experts.linear_fc2.weight5");
  EXPECT_FALSE(name.layer);
  EXPECT_EQ(name.mtp, 0);
  EXPECT_EQ(name.expert, 5);
}

TEST(MegatronNames, ADraftModuleNumbersItsOwnLayersAndExperts) {
  const std::string text =
      "dspark.decoder.layers.1.inner_layer.mlp.experts.linear_fc1.weight2";
  MegatronName name = parseMegatronName(text);
  EXPECT_TRUE(name.draft);
  EXPECT_FALSE(name.layer);
  EXPECT_EQ(name.expert, 2);
  EXPECT_FALSE(parseMegatronName("decoder.layers.1.dspark.weight").draft);
  EXPECT_EQ(renumber(text, 7, 0),
            "dspark.decoder.layers.1.inner_layer.mlp.experts.linear_fc1."
            "weight0");
  TensorKey key = torchDistKey(
      text, "", {.layersStacked = true, .layers = 8, .experts = {16, 4}});
  EXPECT_EQ(key.key, "dspark.decoder.layers.1.inner_layer.mlp.experts.experts."
                     "linear_fc1.weight");
  EXPECT_EQ(key.axes, (Shape{4}));
  EXPECT_EQ(key.index, (Shape{2}));
}

TEST(MegatronNames, ExpertsAreSpeltInTwoWays) {
  const std::string layer = "language_model.decoder.layers.7.mlp.experts.";
  for (const auto &[grouped, sequential] :
       {std::pair{layer + "linear_fc1.weight12",
                  layer + "local_experts.12.linear_fc1.weight"},
        {layer + "linear_fc2.bias0", layer + "local_experts.0.linear_fc2.bias"},
        {"dspark.decoder.layers.1.inner_layer.mlp.experts.linear_fc1.weight2",
         "dspark.decoder.layers.1.inner_layer.mlp.experts.local_experts.2."
         "linear_fc1.weight"}}) {
    EXPECT_EQ(respellExpert(grouped, true), sequential);
    EXPECT_EQ(respellExpert(sequential, false), grouped);
    EXPECT_EQ(respellExpert(grouped, false), grouped);
    EXPECT_EQ(respellExpert(sequential, true), sequential);
  }
  for (const char *other :
       {"decoder.layers.3.mlp.shared_experts.linear_fc1.weight",
        "decoder.layers.3.mlp.router.weight", "output_layer.weight"})
    for (bool sequential : {false, true})
      EXPECT_EQ(respellExpert(other, sequential), other);
}

TEST(MegatronNames, NumbersThatAreNoExperts) {
  for (const char *name :
       {"decoder.layers.3.mlp.linear_fc1.weight",
        "decoder.layers.3.mlp.shared_experts.linear_fc1.weight",
        "visual.blocks.1.attn.qkv.weight", "decoder.final_layernorm.weight"})
    EXPECT_FALSE(parseMegatronName(name).expert) << name;
  EXPECT_FALSE(parseMegatronName("visual.blocks.1.attn.qkv.weight").layer);
}

TEST(MegatronNames, TowersNumberTheirOwnLayers) {
  for (const char *name :
       {"vision_model.decoder.layers.1.mlp.linear_fc1.weight",
        "visual.blocks.1.norm1.weight", "audio_tower.layers.1.fc1.weight",
        "thinker.visual.blocks.1.norm1.weight",
        "thinker.audio_model.layers.1.fc1.weight"}) {
    EXPECT_TRUE(isTowerName(name)) << name;
    EXPECT_FALSE(parseMegatronName(name).layer) << name;
  }
  const std::string text =
      "thinker.language_model.decoder.layers.3.pre_mlp_layernorm.weight";
  EXPECT_FALSE(isTowerName(text));
  EXPECT_EQ(parseMegatronName(text).layer, 3);
}

TEST(MegatronNames, OnlyTowersOfMegatronsModulesAreCut) {
  EXPECT_EQ(shardRule("vision_model.decoder.layers.1.self_attention."
                      "linear_qkv.weight",
                      2)
                .cut,
            Cut::Rows);
  EXPECT_EQ(shardRule("vision_model.merger.linear_fc2.weight", 2).cut,
            Cut::Columns);
  for (const char *name :
       {"vision_model.encoder.layers.1.self_attn.out_proj.weight",
        "thinker.visual.blocks.1.mlp.linear_fc1.weight",
        "visual.blocks.1.mlp.linear_fc2.weight"})
    EXPECT_EQ(shardRule(name, 2).cut, Cut::None) << name;
}

// Megatron's own head has no bias; one with a bias gives labels.
TEST(MegatronNames, OnlyAHeadOfWordsIsCut) {
  StoredTensor weight, bias;
  const Shape matrix = {4, 8}, vector = {4};
  weight.name = "language_model.output_layer.weight";
  weight.shape = &matrix;
  bias.name = "language_model.output_layer.bias";
  bias.shape = &vector;
  const TensorLookup words = [](std::string_view) { return nullptr; };
  const TensorLookup labels = [&](std::string_view name) {
    return name == bias.name ? &bias : nullptr;
  };
  EXPECT_EQ(shardRule(weight, words).cut, Cut::Rows);
  EXPECT_EQ(shardRule(weight, labels).cut, Cut::None);
  EXPECT_EQ(shardRule(bias, labels).cut, Cut::None);
}

TEST(MegatronNames, Renumber) {
  EXPECT_EQ(renumber("decoder.layers.1.mlp.experts.linear_fc1.weight0", 3, 6),
            "decoder.layers.3.mlp.experts.linear_fc1.weight6");
  EXPECT_EQ(renumber("decoder.layers.1.mlp.experts.local_experts.0.linear_fc1."
                     "weight",
                     {}, 6),
            "decoder.layers.1.mlp.experts.local_experts.6.linear_fc1.weight");
  EXPECT_EQ(renumber("embedding.word_embeddings.weight", 3, 6),
            "embedding.word_embeddings.weight");
}

TEST(MegatronNames, PerRankFilesSpellMambasConvolutionAsParameters) {
  for (auto [name, perRank] :
       {std::pair("decoder.layers.0.mixer.conv1d.weight",
                  "decoder.layers.0.mixer.conv1d_weight"),
        {"decoder.layers.1.mamba_mixer.conv1d.bias",
         "decoder.layers.1.mamba_mixer.conv1d_bias"},
        {"decoder.layers.2.self_attention.conv1d.weight",
         "decoder.layers.2.self_attention.conv1d.weight"}}) {
    EXPECT_EQ(perRankName(name), perRank);
    EXPECT_EQ(fromPerRankName(perRank), name);
  }
}

// Keys as Megatron-Core itself writes them: a homogeneous MoE model of 2 layers
// and 4 experts, the same with numbered layers, and a hybrid model.
TEST(MegatronNames, StackedKey) {
  KeyRules rules{true, 2, {4}, true};
  TensorKey key = torchDistKey(
      "decoder.layers.1.mlp.experts.linear_fc1.weight2", "", rules);
  EXPECT_EQ(key.key, "decoder.layers.mlp.experts.experts.linear_fc1.weight");
  EXPECT_EQ(key.axes, (Shape{2, 4}));
  EXPECT_EQ(key.index, (Shape{1, 2}));
  TensorKey sequential = torchDistKey(
      "decoder.layers.1.mlp.experts.local_experts.2.linear_fc1.weight", "",
      rules);
  EXPECT_EQ(sequential.key, key.key);
  EXPECT_EQ(sequential.index, key.index);
}

TEST(MegatronNames, NumberedKey) {
  TensorKey key =
      torchDistKey("decoder.layers.0.mlp.experts.linear_fc1.weight3", "",
                   {false, 2, {4}, true});
  EXPECT_EQ(key.key, "decoder.layers.0.mlp.experts.experts.linear_fc1.weight");
  EXPECT_EQ(key.axes, (Shape{4}));
  EXPECT_EQ(key.index, (Shape{3}));
}

TEST(MegatronNames, SectionKey) {
  TensorKey key =
      torchDistKey("decoder.layers.4.inner_layer.self_attention.in_proj.weight",
                   "query", {false, 8, {4}, false});
  EXPECT_EQ(key.key, "decoder.layers.4.inner_layer.self_attention.in_proj."
                     "weight.query");
  EXPECT_TRUE(key.axes.empty());
}

TEST(MegatronNames, MtpModuleIsRenamedForGptModelsOnly) {
  std::string name = "mtp.layers.0.mtp_model_layer.self_attention.linear_proj."
                     "weight";
  EXPECT_EQ(torchDistKey(name, "", {true, 2, {0}, true}).key,
            "mtp.layers.0.transformer_layer.self_attention.linear_proj.weight");
  EXPECT_EQ(torchDistKey(name, "", {false, 2, {0}, false}).key, name);
}

TEST(MegatronNames, ExtraStateKeys) {
  EXPECT_EQ(
      extraStateKey("decoder.layers.3.mlp.linear_fc2", {true, 24, {0}, true}),
      "decoder.layers.mlp.linear_fc2._extra_state/shard_3_24");
  EXPECT_EQ(extraStateKey("decoder.layers.3.mlp.experts.linear_fc1.weight17",
                          {true, 24, {64}, true}),
            "decoder.layers.mlp.experts.experts.linear_fc1._extra_state/"
            "shard_3.17_24.64");
  EXPECT_EQ(extraStateKey("decoder.layers.0.mlp.experts.linear_fc1.weight2",
                          {false, 2, {4}, true}),
            "decoder.layers.0.mlp.experts.experts.linear_fc1._extra_state/"
            "shard_2_4");
  EXPECT_EQ(extraStateKey("decoder.layers.0.mlp.experts.linear_fc12",
                          {false, 2, {4}, true}),
            "decoder.layers.0.mlp.experts.experts.linear_fc1._extra_state/"
            "shard_2_4");
  EXPECT_EQ(extraStateKey("output_layer", {true, 24, {0}, true}),
            "output_layer._extra_state/shard_0_1");
}

TEST(TorchDistNames, KeysComeBackAsNames) {
  KeyForm stacked =
      parseTorchDistKey("decoder.layers.mlp.experts.experts.linear_fc2.weight");
  EXPECT_TRUE(stacked.layerAxis && stacked.expertAxis);
  EXPECT_EQ(stacked.numbered(3, 17),
            "decoder.layers.3.mlp.experts.linear_fc2.weight17");
  KeyForm mtp =
      parseTorchDistKey("mtp.layers.0.transformer_layer.mlp.linear_fc2.weight");
  EXPECT_EQ(mtp.numbered(0, 0),
            "mtp.layers.0.mtp_model_layer.mlp.linear_fc2.weight");
  KeyForm section = parseTorchDistKey("decoder.layers.0.mixer.conv1d.bias.B");
  EXPECT_EQ(section.name, "decoder.layers.0.mixer.conv1d.bias");
  EXPECT_EQ(section.section, "B");
  KeyForm tower = parseTorchDistKey("visual.blocks.0.mlp.up_proj.weight");
  EXPECT_EQ(tower.numbered(0, 0), "visual.blocks.0.mlp.up_proj.weight");
}

TEST(TorchDistNames, SectionsInTheOrderOfTheRows) {
  for (const std::vector<std::string> &order :
       {std::vector<std::string>{"query", "key", "value", "z", "beta", "alpha"},
        {"query", "key", "value", "z", "f", "b", "w"},
        {"query", "key", "value", "g", "gate"},
        {"z", "x", "B", "C", "dt"},
        {"z", "V0", "V1", "K0", "K1", "Q", "b0", "b1", "a"}})
    for (size_t i = 1; i < order.size(); ++i)
      EXPECT_LT(sectionRank(order[i - 1]).value(),
                sectionRank(order[i]).value())
          << order[i - 1] << " " << order[i];
}

TEST(TorchDistNames, UnknownSectionsHaveNoPlace) {
  for (const char *section : {"gamma", "Z", "", "7", "V1000"})
    EXPECT_FALSE(sectionRank(section)) << section;
}

} // namespace
} // namespace mbc
