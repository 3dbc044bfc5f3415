#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Quantized.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

/// Hugging Face targets with codes and scales: originals that come back, and
/// new ones.
namespace mbc::test {
namespace {

class QuantizedTargets : public testing::Test {
protected:
  Outcome import(const HfModel &model,
                 const std::vector<std::string> &options = {}) {
    for (const char *folder : {"hf", "mg"})
      std::filesystem::remove_all(scratch_ / folder);
    model.write(scratch_ / "hf");
    return convert("hf", "mg", options);
  }

  Outcome exportWith(const std::string &quant,
                     const std::vector<std::string> &options = {}) {
    std::filesystem::remove_all(scratch_ / "back");
    std::vector<std::string> all{"--quant", quant};
    all.insert(all.end(), options.begin(), options.end());
    return convert("mg", "back", all);
  }

  Tensors back() const { return readSafetensors(scratch_ / "back"); }

  /// Overwrites one element of a tensor of a per-rank checkpoint of one rank.
  void change(const std::string &name, int64_t element,
              const std::string &bytes) const {
    for (const Json &row :
         Json::parse(mbc({"ls", scratch_ / "mg", "--json"}).out))
      if (row["name"] == name)
        return overwrite(
            scratch_ / "mg/release/" + row["file"].get<std::string>(),
            row["offset"].get<uint64_t>() + element * bytes.size(), bytes);
    ADD_FAILURE() << "no " << name;
  }

  Scratch scratch_;

private:
  Outcome convert(const char *from, const char *to,
                  const std::vector<std::string> &options) {
    std::vector<std::string> call{"convert", scratch_ / from, scratch_ / to,
                                  "--threads", "1"};
    call.insert(call.end(), options.begin(), options.end());
    return mbc(call);
  }
};

std::vector<std::string> with(std::vector<std::string> options,
                              const std::vector<std::string> &more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

class Kept : public QuantizedTargets,
             public testing::WithParamInterface<std::string> {};

// Through every layout of a pairwise set that the model fits, in both formats.
TEST_P(Kept, ComesBackByteForByte) {
  const Answers answers(GetParam());
  const Tensors expected = quantizedExportOf(answers.model);
  int accepted = 0;
  for (const Layout &layout : pairwiseLayouts())
    for (const char *format : {"torch_dist", "torch"}) {
      if (!answers.obstacles(layout).empty() ||
          (std::string(format) == "torch" && !perRankCanName(layout)))
        continue;
      const std::vector<std::string> options =
          with(with(layout.options(), importOptions(GetParam())),
               {"--quant", "keep", "--format", format});
      const Outcome in = import(answers.model, options);
      ASSERT_EQ(in.status, 0) << in.err;
      const Outcome out = exportWith("keep");
      ASSERT_EQ(out.status, 0) << out.err;
      ASSERT_EQ(difference(expected, back()), "")
          << format << " " << shardsOption(layout);
      EXPECT_EQ(readText(scratch_ / "back/config.json"),
                readText(scratch_ / "hf/config.json"));
      EXPECT_TRUE(out.err.contains(", 0 quantised anew")) << out.err;
      ++accepted;
    }
  EXPECT_GE(accepted, 2);
}

INSTANTIATE_TEST_SUITE_P(Forms, Kept,
                         testing::Values("deepseek_v3_fp8", "glm_moe_dsa_fp8",
                                         "glm5_next_fp8", "deepseek_v4_mxfp4",
                                         "gpt_oss_mxfp4", "kimi_k25_int4"),
                         [](const auto &info) { return info.param; });

// The numbers of a tensor, of a row, of blocks, in their dtypes; NaN among the
// codes.
TEST_F(QuantizedTargets, EveryShapeOfScalesComesBack) {
  const std::string weight = "model.layers.0.self_attn.o_proj.weight";
  for (const auto &[dtype, shape] : {std::pair<std::string, Extents>{"F32", {}},
                                     {"BF16", {1}},
                                     {"F32", {1, 1}},
                                     {"F32", {112}},
                                     {"BF16", {112, 1}},
                                     {"F32", {112, 3}}}) {
    HfModel model = fixture("llama");
    fixtures::ManifestTensor &codes = model.at(weight);
    codes.dtype = "F8_E4M3";
    ASSERT_EQ(codes.shape, (Extents{112, 96}));
    std::vector<std::byte> &bytes = model.contents[weight];
    for (int64_t at = 0; at != 112 * 96; ++at)
      bytes.push_back(static_cast<std::byte>(at * 7));
    model.add(weight + "_scale", dtype, shape);
    ASSERT_EQ(import(model, {"--quant", "keep", "--tp", "2"}).status, 0);
    const Outcome out = exportWith("keep");
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_EQ(difference(quantizedExportOf(model), back()), "") << dtype;
    EXPECT_TRUE(out.err.contains("1 as they were imported, 0 quantised anew"))
        << out.err;
  }
}

// What they are compared with is what the import made of them.
TEST_F(QuantizedTargets, AWiderMegatronDTypeStillKnowsItsOriginals) {
  const HfModel model = fixture("glm5_next_fp8");
  ASSERT_EQ(import(model, {"--quant", "keep", "--dtype", "f32"}).status, 0);
  const Outcome out = exportWith("keep");
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_EQ(difference(quantizedExportOf(model), back()), "");
}

// The rows of a block are one unit of work, however small the buffers are.
TEST_F(QuantizedTargets, SmallBuffersChangeNothing) {
  const HfModel model = fixture("glm5_next_fp8");
  ASSERT_EQ(import(model, {"--quant", "keep"}).status, 0);
  const Outcome kept = exportWith("keep", {"--memory", "512KiB"});
  ASSERT_EQ(kept.status, 0) << kept.err;
  EXPECT_EQ(difference(quantizedExportOf(model), back()), "");
  ASSERT_EQ(exportWith("fp8-block").status, 0);
  const Tensors large = back();
  ASSERT_EQ(exportWith("fp8-block", {"--memory", "512KiB"}).status, 0);
  EXPECT_EQ(difference(large, back()), "");
  const Outcome refused = exportWith("keep", {"--memory", "20KiB"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(refused.err.contains("give more --memory")) << refused.err;
}

// A plan may be made here and run there; the originals are of its source.
TEST_F(QuantizedTargets, APlanBringsOriginalsBack) {
  const HfModel model = fixture("gpt_oss_mxfp4");
  ASSERT_EQ(import(model, {"--quant", "keep"}).status, 0);
  ASSERT_EQ(
      mbc({"compile", scratch_ / "mg", "-o", scratch_ / "p", "--quant", "keep"})
          .status,
      0);
  const Outcome out = mbc(
      {"run", scratch_ / "p", "--from", scratch_ / "mg", scratch_ / "back"});
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_EQ(difference(quantizedExportOf(model), back()), "");
  EXPECT_EQ(mbc({"graph", scratch_ / "p", "--stage", "fused"}).status, 0);
}

// One weight of the second stripe of blocks changes: that stripe is quantised
// anew, the rest is as it was.
TEST_F(QuantizedTargets, TrainedWeightsAreQuantisedAnew) {
  const HfModel model = fixture("deepseek_v3_fp8");
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  ASSERT_EQ(import(model,
                   {"--quant", "keep", "--format", "torch", "--copies", "drop"})
                .status,
            0);
  const std::string trained = "\xC0\x3F"; // 1.5 in BF16
  change("decoder.layers.0.mlp.linear_fc2.weight", 130 * 272 + 5, trained);
  const Outcome out = exportWith("keep");
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_TRUE(out.err.contains("47 as they were imported, 1 quantised anew"))
      << out.err;

  Tensors expected = quantizedExportOf(model);
  Tensor values = withValues(model.tensors()).at(name);
  ASSERT_EQ(values.shape, (Extents{160, 272}));
  std::memcpy(values.bytes.data() + 2 * (130 * 272 + 5), trained.data(), 2);
  const Encoded stripe = fp8Blocks(rows(values, 128, 160));
  Tensor &codes = expected.at(name), &scales = expected.at(name + "_scale_inv");
  codes = joinRows({rows(codes, 0, 128), stripe.codes});
  scales = joinRows({rows(scales, 0, 1), stripe.scales});
  EXPECT_EQ(difference(expected, back()), "");
}

TEST_F(QuantizedTargets, FP8OfAModelThatWasNotQuantised) {
  const HfModel model = fixture("qwen3_moe");
  ASSERT_EQ(import(model, {"--tp", "2"}).status, 0);
  const Outcome out = exportWith("fp8-block");
  ASSERT_EQ(out.status, 0) << out.err;
  Tensors expected;
  for (const auto &[name, tensor] : quantizedExportOf(model)) {
    if (!name.ends_with("_proj.weight")) {
      expected[name] = tensor;
      continue;
    }
    Encoded encoded = fp8Blocks(tensor);
    expected[name] = encoded.codes;
    expected[name + "_scale_inv"] = encoded.scales;
  }
  EXPECT_EQ(difference(expected, back()), "");
  Json config = Json::parse(readText(scratch_ / "back/config.json"));
  const Json written = config["quantization_config"];
  EXPECT_EQ(written["quant_method"], "fp8");
  EXPECT_EQ(written["weight_block_size"], Json({128, 128}));
  const Json excepted = written["modules_to_not_convert"];
  for (const char *module :
       {"lm_head", "model.embed_tokens", "model.layers.0.mlp.gate"})
    EXPECT_NE(std::ranges::find(excepted, Json(module)), excepted.end())
        << module;
  config.erase("quantization_config");
  EXPECT_EQ(config, model.config);
  // What we write is what we read.
  EXPECT_EQ(mbc({"check", scratch_ / "back"}).status, 0);
}

// Without originals: the same tensors as at the import, under the same names.
TEST_F(QuantizedTargets, FP8OfWhatWasFP8) {
  const HfModel model = fixture("glm5_next_fp8");
  ASSERT_EQ(import(model).status, 0);
  const Outcome out = exportWith("fp8-block");
  ASSERT_EQ(out.status, 0) << out.err;
  Tensors expected = quantizedExportOf(model);
  for (const auto &[name, values] : withValues(model.tensors()))
    if (expected.at(name).dtype == "F8_E4M3") {
      Encoded encoded = fp8Blocks(values);
      expected[name] = encoded.codes;
      expected[name + "_scale_inv"] = encoded.scales;
    }
  EXPECT_EQ(difference(expected, back()), "");
  EXPECT_EQ(readText(scratch_ / "back/config.json"),
            readText(scratch_ / "hf/config.json"));
}

TEST_F(QuantizedTargets, MXFP4OfWhatWasMXFP4) {
  const HfModel model = fixture("gpt_oss_mxfp4");
  ASSERT_EQ(import(model, {"--tp", "2", "--ep", "2"}).status, 0);
  const Outcome out = exportWith("mxfp4");
  ASSERT_EQ(out.status, 0) << out.err;
  Tensors expected = quantizedExportOf(model);
  for (const auto &[name, values] : withValues(model.tensors()))
    if (expected.contains(name + "_blocks")) {
      Encoded encoded = mxfp4(values);
      encoded.codes.shape = expected.at(name + "_blocks").shape;
      expected[name + "_blocks"] = encoded.codes;
      expected[name + "_scales"] = encoded.scales;
    }
  EXPECT_EQ(difference(expected, back()), "");
  EXPECT_EQ(readText(scratch_ / "back/config.json"),
            readText(scratch_ / "hf/config.json"));
}

// Names of compressed-tensors, where the import knew none; what an ignore list
// of config.json names stays as it is.
TEST_F(QuantizedTargets, MXFP4WithAnIgnoreList) {
  HfModel model = fixture("llama");
  model.config["intermediate_size"] = 192;
  for (int layer = 0; layer != 3; ++layer)
    for (const char *part : {"gate_proj", "up_proj", "down_proj"}) {
      auto &tensor =
          model.at(fmt::format("model.layers.{}.mlp.{}.weight", layer, part));
      tensor.shape[std::string(part) == "down_proj" ? 1 : 0] = 192;
    }
  ASSERT_EQ(import(model).status, 0);
  // 112 columns of the others are no multiple of 32.
  model.config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"ignore", {"re:.*self_attn.*", "re:.*(gate|up)_proj"}}};
  model.write(scratch_ / "config");
  const Outcome out = exportWith("mxfp4", {"--hf-config", scratch_ / "config"});
  ASSERT_EQ(out.status, 0) << out.err;
  Tensors expected = quantizedExportOf(model);
  for (const auto &[name, tensor] : quantizedExportOf(model))
    if (name.ends_with("down_proj.weight")) {
      Encoded encoded = mxfp4(tensor);
      expected.erase(name);
      expected[name + "_packed"] = encoded.codes;
      expected[name + "_scale"] = encoded.scales;
    }
  EXPECT_EQ(difference(expected, back()), "");
  const Json written = Json::parse(
      readText(scratch_ / "back/config.json"))["quantization_config"];
  EXPECT_EQ(written["format"], "mxfp4-pack-quantized");
  EXPECT_EQ(mbc({"check", scratch_ / "back"}).status, 0);
}

/// Weights of attention and MLP by what Megatron holds in one parameter, which
/// share a tensor scale.
std::vector<std::vector<std::string>> jointProjections(const Tensors &tensors) {
  std::map<std::string, std::vector<std::string>> joint;
  for (const auto &[name, tensor] : tensors) {
    if (!name.ends_with("_proj.weight"))
      continue;
    std::string key = name;
    for (const char *piece : {"q_proj", "k_proj", "v_proj", "gate_proj"})
      if (size_t at = key.find(piece); at != key.npos)
        key.replace(at, std::string(piece).size(),
                    std::string(piece) == "gate_proj" ? "up_proj" : "qkv");
    joint[key].push_back(name);
  }
  std::vector<std::vector<std::string>> groups;
  for (auto &[key, names] : joint)
    groups.push_back(std::move(names));
  return groups;
}

/// The tensors with projections in NVFP4, under the names of ModelOpt or of
/// compressed-tensors.
Tensors inNvfp4(const Tensors &plain, bool divides) {
  Tensors result = plain;
  for (const auto &group : jointProjections(plain)) {
    float largest = 0;
    for (const std::string &name : group)
      largest = std::max(largest, largestMagnitude(plain.at(name)));
    for (const std::string &name : group) {
      Encoded encoded = nvfp4(plain.at(name), largest, divides);
      result.erase(name);
      result[name + (divides ? "_packed" : "")] = encoded.codes;
      result[name + "_scale"] = encoded.scales;
      result[name + (divides ? "_global_scale" : "_scale_2")] =
          encoded.tensorScale;
    }
  }
  return result;
}

/// A llama in NVFP4, with scales of activations.
HfModel nvfp4Model(bool divides) {
  HfModel model = fixture("llama");
  for (const auto &[name, tensor] : inNvfp4(model.tensors(), divides)) {
    bool isNew = !name.ends_with(".weight") || tensor.dtype == "U8";
    if (!isNew)
      continue;
    if (name.ends_with(".weight"))
      model.erase(name);
    model.add(name, tensor.dtype, tensor.shape);
    model.contents[name] = tensor.bytes;
  }
  for (const auto &group : jointProjections(fixture("llama").tensors()))
    for (std::string name : group) {
      if (divides)
        model.erase(name);
      name.replace(name.rfind("weight"), 6,
                   divides ? "input_global_scale" : "input_scale");
      model.add(name, "F32", divides ? Extents{1} : Extents{});
    }
  model.config["quantization_config"] = {
      {"quant_method", divides ? "compressed-tensors" : "modelopt"},
      {"config_groups",
       {{"group_0",
         {{"weights",
           {{"num_bits", 4}, {"type", "float"}, {"group_size", 16}}}}}}}};
  return model;
}

TEST_F(QuantizedTargets, NVFP4ComesBackWithTheScalesOfActivations) {
  for (bool divides : {false, true}) {
    const HfModel model = nvfp4Model(divides);
    ASSERT_EQ(import(model, {"--quant", "keep", "--tp", "2"}).status, 0);
    const Outcome out = exportWith("keep");
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_EQ(difference(quantizedExportOf(model), back()), "") << divides;
    EXPECT_TRUE(out.err.contains("21 as they were imported, 0 quantised anew"))
        << out.err;
    EXPECT_EQ(readText(scratch_ / "back/config.json"),
              readText(scratch_ / "hf/config.json"));
  }
}

// One value changes: the whole tensor is quantised anew, since the tensor scale
// may be another one; the rest is as it was.
TEST_F(QuantizedTargets, ATrainedWeightInNVFP4IsQuantisedAnew) {
  for (bool divides : {false, true}) {
    const HfModel model = nvfp4Model(divides);
    ASSERT_EQ(import(model, {"--quant", "keep", "--format", "torch"}).status,
              0);
    const std::string trained = "\xC0\x3F"; // 1.5 in BF16
    change("decoder.layers.1.self_attention.linear_proj.weight", 5, trained);
    const Outcome out = exportWith("keep");
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_TRUE(out.err.contains("20 as they were imported, 1 quantised anew"))
        << out.err;
    const std::string name = "model.layers.1.self_attn.o_proj.weight";
    Tensor values = withValues(model.tensors()).at(name);
    std::memcpy(values.bytes.data() + 10, trained.data(), 2);
    const Encoded anew = nvfp4(values, largestMagnitude(values), divides);
    Tensors expected = quantizedExportOf(model);
    expected[name + (divides ? "_packed" : "")] = anew.codes;
    expected[name + "_scale"] = anew.scales;
    expected[name + (divides ? "_global_scale" : "_scale_2")] =
        anew.tensorScale;
    EXPECT_EQ(difference(expected, back()), "") << divides;
  }
}

TEST_F(QuantizedTargets, NVFP4OfAModelThatWasNotQuantised) {
  const HfModel model = fixture("llama");
  ASSERT_EQ(import(model, {"--tp", "2"}).status, 0);
  const Outcome out = exportWith("nvfp4");
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_EQ(difference(inNvfp4(quantizedExportOf(model), false), back()), "");
  const Json written = Json::parse(
      readText(scratch_ / "back/config.json"))["quantization_config"];
  EXPECT_EQ(written["quant_method"], "modelopt");
  EXPECT_EQ(written["quant_algo"], "W4A16_NVFP4");
  EXPECT_EQ(written["config_groups"]["group_0"]["weights"]["group_size"], 16);
  const Json file =
      Json::parse(readText(scratch_ / "back/hf_quant_config.json"));
  EXPECT_EQ(file["quantization"]["quant_algo"], "W4A16_NVFP4");
  EXPECT_EQ(file["quantization"]["group_size"], 16);
  EXPECT_EQ(file["quantization"]["exclude_modules"], written["ignore"]);
  EXPECT_EQ(written["ignore"], Json({"lm_head", "model.embed_tokens"}));
  EXPECT_EQ(mbc({"check", scratch_ / "back"}).status, 0);
  // A tensor is one unit of work, however small the buffers are.
  const Tensors large = back();
  ASSERT_EQ(exportWith("nvfp4", {"--memory", "512KiB"}).status, 0);
  EXPECT_EQ(difference(large, back()), "");
}

// Whoever asks first what a conversion takes hears of the tensors that are held
// whole, and of a bound that they do not fit into.
TEST_F(QuantizedTargets, NVFP4SaysBeforehandWhatItHoldsWhole) {
  ASSERT_EQ(import(fixture("llama")).status, 0);
  std::string least;
  for (const std::vector<std::string> &options :
       {std::vector<std::string>{"--memory", "40KiB", "--dry-run"},
        {"--memory", "40KiB"}}) {
    const Outcome refused = exportWith("nvfp4", options);
    EXPECT_EQ(refused.status, 1);
    EXPECT_TRUE(refused.err.contains("give more --memory, ")) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "back"));
    const size_t at = refused.err.find("--memory, ") + 10;
    least = refused.err.substr(at, refused.err.find(' ', at) - at);
  }
  const std::string less = std::to_string(std::stoull(least) - 1);
  EXPECT_EQ(exportWith("nvfp4", {"--memory", less}).status, 1);
  const Outcome dry =
      exportWith("nvfp4", {"--memory", least, "--dry-run", "--json"});
  ASSERT_EQ(dry.status, 0) << dry.err;
  const Json plan = Json::parse(dry.out);
  EXPECT_EQ(plan["peak_memory"].dump(), least);
  // Gate and up, 208 x 112 each, in bfloat16 as values, then in four bits with
  // a scale for 16 values.
  const uint64_t values = 2 * 208 * 112;
  EXPECT_GE(plan["largest_whole_tensor"],
            2 * values + values / 2 + values / 16 + 2 * 4);
  EXPECT_EQ(exportWith("nvfp4", {"--memory", least}).status, 0);
  for (const char *quant : {"none", "mxfp4"})
    EXPECT_FALSE(exportWith(quant, {"--dry-run", "--json"})
                     .out.contains("largest_whole_tensor"));
}

// Names, and what a tensor scale does, are those of the import.
TEST_F(QuantizedTargets, NVFP4OfWhatWasNVFP4) {
  for (bool divides : {false, true}) {
    const HfModel model = nvfp4Model(divides);
    ASSERT_EQ(import(model).status, 0);
    const Outcome out = exportWith("nvfp4");
    ASSERT_EQ(out.status, 0) << out.err;
    Tensors plain = withValues(model.tensors());
    std::erase_if(plain, [](const auto &entry) {
      return entry.first.ends_with("input_scale") ||
             entry.first.ends_with("input_global_scale");
    });
    EXPECT_EQ(difference(inNvfp4(plain, divides), back()), "") << divides;
    const Json written = Json::parse(
        readText(scratch_ / "back/config.json"))["quantization_config"];
    EXPECT_EQ(written["quant_method"],
              divides ? "compressed-tensors" : "modelopt");
    EXPECT_EQ(std::filesystem::exists(scratch_ / "back/hf_quant_config.json"),
              !divides);
    EXPECT_EQ(mbc({"check", scratch_ / "back"}).status, 0);
  }
}

// A tensor scale of infinity would spoil the whole tensor.
TEST_F(QuantizedTargets, NVFP4OfInfinityIsRefused) {
  const HfModel model = fixture("llama");
  ASSERT_EQ(import(model, {"--format", "torch"}).status, 0);
  change("decoder.layers.1.self_attention.linear_proj.weight", 5, "\x80\x7F");
  const Outcome out = exportWith("nvfp4");
  EXPECT_EQ(out.status, 1);
  EXPECT_TRUE(out.err.contains("model.layers.1.self_attn.o_proj.weight"))
      << out.err;
  EXPECT_TRUE(out.err.contains("infinity or NaN")) << out.err;
}

// The file that repeats quantization_config goes with it.
TEST_F(QuantizedTargets, WithoutQuantisationModelOptsFileGoes) {
  const HfModel model = nvfp4Model(false);
  for (const char *folder : {"hf", "mg"})
    std::filesystem::remove_all(scratch_ / folder);
  model.write(scratch_ / "hf");
  writeText(scratch_ / "hf/hf_quant_config.json", "{}");
  ASSERT_EQ(mbc({"convert", scratch_ / "hf", scratch_ / "mg"}).status, 0);
  ASSERT_EQ(exportWith("none").status, 0);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "back/hf_quant_config.json"));
  EXPECT_FALSE(
      readText(scratch_ / "back/config.json").contains("quantization_config"));
}

TEST_F(QuantizedTargets, WhatDoesNotFitIsRefusedBeforeAnythingIsRead) {
  ASSERT_EQ(import(fixture("llama")).status, 0);
  Outcome out = exportWith("mxfp4");
  EXPECT_EQ(out.status, 1);
  EXPECT_TRUE(out.err.contains("down_proj.weight is BF16 [112, 208]: 208 "
                               "columns are no multiple of a group of 32"))
      << out.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "back"));
  ASSERT_EQ(import(fixture("gpt_oss")).status, 0);
  out = exportWith("mxfp4");
  EXPECT_EQ(out.status, 1);
  EXPECT_TRUE(out.err.contains("gate_up_proj is BF16 [4, 72, 80]: stacked "
                               "matrices have no such form"))
      << out.err;
}

TEST_F(QuantizedTargets, KeepWithoutOriginalsNamesTheRemedy) {
  ASSERT_EQ(import(fixture("glm5_next_fp8")).status, 0);
  Outcome out = exportWith("keep");
  EXPECT_EQ(out.status, 1);
  EXPECT_TRUE(out.err.contains("import again with --quant keep")) << out.err;
  out = import(fixture("glm5_next_fp8"), {"--quant", "fp8-block"});
  EXPECT_EQ(out.status, 1);
  EXPECT_TRUE(out.err.contains("--quant fp8-block applies to a Hugging Face"))
      << out.err;
}

// A model of which nothing is quantised has nothing to keep, either way.
TEST_F(QuantizedTargets, KeepOfAModelThatIsNotQuantised) {
  const HfModel model = fixture("llama");
  const Outcome in = import(model, {"--quant", "keep"});
  ASSERT_EQ(in.status, 0);
  EXPECT_TRUE(in.err.contains("nothing in the source is quantised")) << in.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "mg/release/mbc/quantized"));
  ASSERT_EQ(exportWith("keep").status, 0);
  EXPECT_EQ(difference(quantizedExportOf(model), back()), "");
}

// Damage to an original is found where it counts: it no longer stands for the
// weights, and that row is quantised from what Megatron has.
TEST_F(QuantizedTargets, ADamagedOriginalIsNotWritten) {
  HfModel model = fixture("gpt_oss_mxfp4");
  ASSERT_EQ(import(model, {"--quant", "keep"}).status, 0);
  const std::string values = "model.layers.1.mlp.experts.gate_up_proj";
  ASSERT_EQ(model.at(values + "_scales").shape, (Extents{4, 128, 3}));
  const std::string file =
      scratch_ / "mg/release/mbc/quantized/model.safetensors";
  // The last scale of the last row, which the file ends with.
  const std::string bytes = readText(file);
  overwrite(file, bytes.size() - 1,
            std::string(1, static_cast<char>(bytes.back() ^ 1)));
  const Outcome out = exportWith("keep");
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_TRUE(out.err.contains("3 as they were imported, 1 quantised anew"))
      << out.err;
  Tensors expected = quantizedExportOf(model);
  const Encoded anew = mxfp4(withValues(model.tensors()).at(values));
  auto takeEnd = [](Tensor &into, const Tensor &from, ptrdiff_t count) {
    std::copy(from.bytes.end() - count, from.bytes.end(),
              into.bytes.end() - count);
  };
  takeEnd(expected.at(values + "_blocks"), anew.codes, 48);
  takeEnd(expected.at(values + "_scales"), anew.scales, 3);
  EXPECT_EQ(difference(expected, back()), "");
}

TEST_F(QuantizedTargets, OriginalsOfAnotherShapeAreRefused) {
  HfModel model = fixture("deepseek_v4_mxfp4");
  ASSERT_EQ(import(model, {"--quant", "keep"}).status, 0);
  const std::string folder = scratch_ / "mg/release/mbc/quantized";
  // Those of a wider model.
  auto &codes = model.at("layers.0.ffn.experts.0.w1.weight");
  codes.shape[1] *= 2;
  model.at("layers.0.ffn.experts.0.w1.scale").shape[1] *= 2;
  model.write(folder);
  const Outcome out = exportWith("keep");
  EXPECT_EQ(out.status, 1);
  EXPECT_TRUE(out.err.contains("layers.0.ffn.experts.0.w1.weight is BF16 "
                               "[64, 96]: its originals in mbc/quantized are "
                               "[64, 192]"))
      << out.err;
}

} // namespace
} // namespace mbc::test
