#include "compiler/Binding/QuantizedTargets.h"
#include "compiler/Binding/ConfigFacts.h"

#include <gtest/gtest.h>

namespace mbc::compiler {
namespace {

Quantization declared(const std::string &json) {
  Result<ConfigFacts> facts =
      readConfigFacts("{\"quantization_config\": " + json + "}", "c.json");
  return facts->quantization.value();
}

/// Of names and dtypes.
Record recordOf(std::initializer_list<std::pair<const char *, DType>> tensors) {
  Record record;
  for (const auto &[name, dtype] : tensors) {
    RecordedTensor &tensor = record.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = dtype;
  }
  for (uint32_t i = 0; i != record.tensors.size(); ++i)
    record.byName.emplace(record.tensors[i].name, i);
  return record;
}

QuantizedTargets fresh(const std::string &format, const Record *record,
                       const Quantization &declared) {
  Result<QuantizedTargets> made =
      QuantizedTargets::fresh(format, record, declared);
  EXPECT_TRUE(made);
  return made ? std::move(*made) : QuantizedTargets();
}

TEST(QuantizedTargets, AreTheProjectionsOfAModelThatNobodyQuantised) {
  const QuantizedTargets targets = fresh("fp8-block", nullptr, {});
  for (const char *name :
       {"model.layers.0.self_attn.q_proj.weight",
        "model.layers.3.mlp.experts.7.down_proj.weight",
        "layers.0.ffn.experts.0.w1.weight", "model.layers.0.attn.wq_a.weight",
        "model.layers.0.self_attn.kv_a_proj_with_mqa.weight",
        "model.layers.0.mlp.experts.gate_up_proj"})
    EXPECT_TRUE(targets.encodingOf(name)) << name;
  for (const char *name :
       {"lm_head.weight", "model.embed_tokens.weight",
        "model.layers.0.mlp.gate.weight", "model.layers.0.mlp.router.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.mlp.experts.gate_up_proj_bias",
        "model.visual.blocks.0.attn.proj.weight",
        "model.layers.0.input_layernorm.weight"})
    EXPECT_FALSE(targets.encodingOf(name)) << name;
  EXPECT_FALSE(QuantizedTargets().encodingOf("a.q_proj.weight"));
}

TEST(QuantizedTargets, ExceptWhatTheConfigExcepts) {
  const QuantizedTargets targets =
      fresh("fp8-block", nullptr,
            declared(R"({"modules_to_not_convert": ["model.layers.1.self_attn",
          "layers.2.mlp", "model.layers.*.q_proj"], "ignore": ["re:.*k_proj$"]})"));
  auto isWanted = [&](const std::string &module) {
    return targets.encodingOf(module + ".weight").has_value();
  };
  EXPECT_FALSE(isWanted("model.layers.1.self_attn.o_proj"));
  EXPECT_TRUE(isWanted("model.layers.11.self_attn.o_proj"));
  EXPECT_TRUE(isWanted("model.layers.1.self_attn_2.o_proj"));
  EXPECT_FALSE(isWanted("model.layers.2.mlp.up_proj"));
  EXPECT_FALSE(isWanted("model.layers.4.self_attn.q_proj"));
  EXPECT_FALSE(isWanted("model.layers.4.self_attn.k_proj"));
  EXPECT_TRUE(isWanted("model.layers.4.self_attn.v_proj"));
  auto broken = QuantizedTargets::fresh("fp8-block", nullptr,
                                        declared(R"({"ignore": ["re:("]})"));
  ASSERT_FALSE(broken);
  EXPECT_TRUE(broken.error().message.contains("\"re:(\""));
}

TEST(QuantizedTargets, FollowTheRecord) {
  Record record = recordOf({{"a.w1.weight", DType::F8_E4M3},
                            {"a.w1.scale", DType::F8_E8M0},
                            {"b.q_proj.weight", DType::BF16}});
  const QuantizedTargets targets = fresh(
      "fp8-block", &record,
      declared(R"({"quant_method": "fp8", "weight_block_size": [32, 64]})"));
  EXPECT_FALSE(targets.encodingOf("b.q_proj.weight"));
  const Encoding encoding = *targets.encodingOf("a.w1.weight");
  EXPECT_EQ(scalesName(encoding, "a.w1.weight"), "a.w1.scale");
  EXPECT_EQ(codesName(encoding, "a.w1.weight"), "a.w1.weight");
  EXPECT_EQ(encoding.scale.dtype, DType::F8_E8M0);
  EXPECT_EQ(scalesShape(encoding, {65, 64}), (Shape{3, 1}));
}

TEST(QuantizedTargets, BlocksHaveAShapeOfTheirOwn) {
  Record record =
      recordOf({{"e.down_proj", DType::U8}, {"e.down_proj_scales", DType::U8}});
  const QuantizedTargets targets =
      fresh("mxfp4", &record, declared(R"({"quant_method": "mxfp4"})"));
  const Encoding encoding = *targets.encodingOf("e.down_proj");
  EXPECT_EQ(codesName(encoding, "e.down_proj"), "e.down_proj_blocks");
  EXPECT_EQ(codesShape(encoding, {4, 96, 64}), (Shape{4, 96, 2, 16}));
  EXPECT_EQ(scalesShape(encoding, {4, 96, 64}), (Shape{4, 96, 2}));
  EXPECT_EQ(misfit(encoding, {4, 96, 64}), "");
  EXPECT_EQ(misfit(encoding, {4, 96, 72}),
            "72 columns are no multiple of a group of 32");
}

TEST(QuantizedTargets, StackedMatricesNeedWholeBlocks) {
  Record record =
      recordOf({{"e.up", DType::F8_E4M3}, {"e.up_scale_inv", DType::F32}});
  const QuantizedTargets targets =
      fresh("fp8-block", &record, declared(R"({"quant_method": "fp8"})"));
  const Encoding encoding = *targets.encodingOf("e.up");
  EXPECT_EQ(misfit(encoding, {4, 256, 100}), "");
  EXPECT_EQ(scalesShape(encoding, {4, 256, 100}), (Shape{4, 2, 1}));
  EXPECT_EQ(misfit(encoding, {4, 200, 128}),
            "200 rows of stacked matrices are no multiple of the 128 of a "
            "block");
  EXPECT_EQ(misfit(encoding, {256}), "quantised weights have rows and columns");
}

} // namespace
} // namespace mbc::compiler
