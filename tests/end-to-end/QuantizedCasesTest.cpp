#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <array>
#include <bit>
#include <cstring>
#include <fmt/ranges.h>

#include <gtest/gtest.h>

/// Quantised sources whose values a person can say by heart.
namespace mbc::test {
namespace {

std::vector<std::byte> floats(std::initializer_list<float> values,
                              const std::string &dtype) {
  std::vector<std::byte> bytes;
  for (float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int byte = dtype == "BF16" ? 2 : 0; byte != 4; ++byte)
      bytes.push_back(static_cast<std::byte>(bits >> 8 * byte));
  }
  return bytes;
}

class QuantizedCases : public testing::Test {
protected:
  Outcome convert(const HfModel &model,
                  const std::vector<std::string> &options = {}) {
    const std::string run = std::to_string(runs_++);
    model.write(scratch_ / run + "-hf");
    target_ = scratch_ / run;
    std::vector<std::string> arguments{"convert", scratch_ / run + "-hf",
                                       target_, "--format", "torch"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return mbc(arguments);
  }

  /// The BF16 values of a Megatron tensor.
  std::vector<float> values(const std::string &name) const {
    std::vector<float> found;
    for (const Json &row : Json::parse(mbc({"ls", target_, "--json"}).out)) {
      if (row["name"] != name)
        continue;
      EXPECT_EQ(row["dtype"], "BF16");
      const std::string bytes = stored(target_, row);
      for (size_t at = 0; at != bytes.size(); at += 2) {
        uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + at, 2);
        found.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
      }
    }
    return found;
  }

  /// All codes of a tensor.
  static void setCodes(HfModel &model, const std::string &name,
                       const std::string &dtype, uint8_t code) {
    fixtures::ManifestTensor &tensor = model.at(name);
    tensor.dtype = dtype;
    model.contents[name] = std::vector<std::byte>(
        static_cast<size_t>(tensor.elements()), std::byte{code});
  }

  Scratch scratch_;
  std::string target_;
  int runs_ = 0;
};

const std::string projection = "model.layers.0.self_attn.o_proj.weight";
const std::string linear = "decoder.layers.0.self_attention.linear_proj.weight";

// 1.0 and 3.5 under one scale of 0.25, in every shape and dtype of one number.
TEST_F(QuantizedCases, OneScaleForAWeight) {
  for (const std::string dtype : {"F32", "BF16"})
    for (const Extents &shape : {Extents{}, Extents{1}, Extents{1, 1}}) {
      HfModel model = fixture("llama");
      setCodes(model, projection, "F8_E4M3", 0x38);    // 1.0
      model.contents[projection][1] = std::byte{0x46}; // 3.5
      model.add(projection + "_scale_inv", dtype, shape);
      model.contents[projection + "_scale_inv"] = floats({0.25F}, dtype);
      const Outcome outcome = convert(model);
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      std::vector<float> expected(
          static_cast<size_t>(model.at(projection).elements()), 0.25F);
      expected[1] = 0.875F;
      EXPECT_EQ(values(linear), expected);
    }
}

// Query, key and value have other numbers of rows and meet in one parameter.
TEST_F(QuantizedCases, OneScaleForEachPieceOfAParameter) {
  for (const Extents &shape : {Extents{}, Extents{1, 1}}) {
    HfModel model = fixture("llama");
    float scale = 0.25F;
    for (const char *piece : {"q_proj", "k_proj", "v_proj"}) {
      const std::string name =
          std::string("model.layers.0.self_attn.") + piece + ".weight";
      setCodes(model, name, "F8_E4M3", 0x38); // 1.0
      model.add(name + "_scale", "F32", shape);
      model.contents[name + "_scale"] = floats({scale}, "F32");
      scale *= 2;
    }
    const Outcome outcome = convert(model);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::vector<float> found =
        values("decoder.layers.0.self_attention.linear_qkv.weight");
    // The rows of a group: queries, then a key and a value head.
    const int64_t heads = model.config["num_attention_heads"],
                  groups = model.config["num_key_value_heads"];
    const int64_t d =
        model.at("model.layers.0.self_attn.k_proj.weight").shape[0] / groups;
    const size_t width = 112;
    ASSERT_EQ(found.size(),
              static_cast<size_t>((heads + 2 * groups) * d) * width);
    for (int64_t row = 0; row != (heads + 2 * groups) * d; ++row) {
      const int64_t head = row / d % (heads / groups + 2);
      const float expected = head < heads / groups    ? 0.25F
                             : head == heads / groups ? 0.5F
                                                      : 1.0F;
      ASSERT_EQ(found[static_cast<size_t>(row) * width], expected) << row;
    }
  }
}

// Half and one under a scale of 1.5, which a tensor scale of 1/4 multiplies or
// one of 4 divides.
TEST_F(QuantizedCases, ScalesOfTwoLevels) {
  for (bool divides : {false, true}) {
    HfModel model = fixture("llama");
    const Extents shape = model.at(projection).shape;
    ASSERT_EQ(shape[1] % 16, 0);
    model.erase(projection);
    const std::string codes = projection + (divides ? "_packed" : "");
    model.add(codes, "U8", {shape[0], shape[1] / 2});
    setCodes(model, codes, "U8", 0x21); // 0.5, 1.0
    model.add(projection + "_scale", "F8_E4M3", {shape[0], shape[1] / 16});
    setCodes(model, projection + "_scale", "F8_E4M3", 0x3C); // 1.5
    const std::string one =
        projection + (divides ? "_global_scale" : "_scale_2");
    model.add(one, "F32", divides ? Extents{1} : Extents{});
    model.contents[one] = floats({divides ? 4.0F : 0.25F}, "F32");
    model.add("model.layers.0.self_attn.o_proj.input_scale", "F32", {});
    const Outcome outcome = convert(model, {"--tp", "2"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.contains("1 scales of activations are left out"))
        << outcome.err;
    const std::vector<float> found = values(linear);
    ASSERT_EQ(found.size(), static_cast<size_t>(shape[0] * shape[1]));
    for (size_t at = 0; at != found.size(); ++at)
      ASSERT_EQ(found[at], at % 2 ? 0.375F : 0.1875F) << at;
  }
}

// What config.json says of weights and headers deny; each by file and numbers.
TEST_F(QuantizedCases, ConfigJsonAgainstTheHeaders) {
  const std::string first =
      "language_model.model.layers.1.mlp.experts.0.gate_proj.weight";
  auto refusal = [&](const char *field, const Json &value) {
    HfModel model = fixture("kimi_k25_int4");
    Json &config = model.config["text_config"].contains("quantization_config")
                       ? model.config["text_config"]
                       : model.config;
    config["quantization_config"]["config_groups"]["group_0"]["weights"]
          [field] = value;
    const Outcome outcome = convert(model);
    EXPECT_EQ(outcome.status, 1) << field;
    EXPECT_TRUE(outcome.err.contains("config.json: quantization_config "
                                     "declares"))
        << outcome.err;
    EXPECT_TRUE(outcome.err.contains(first)) << outcome.err;
    EXPECT_FALSE(outcome.err.contains("is read by no rule")) << outcome.err;
    EXPECT_TRUE(outcome.err.contains("correct config.json")) << outcome.err;
    return outcome.err;
  };
  EXPECT_TRUE(refusal("num_bits", 8).contains("num_bits 8 of weights"));
  EXPECT_TRUE(refusal("symmetric", false).contains("symmetric: false"));
  EXPECT_TRUE(refusal("actorder", "group").contains("actorder group"));
  EXPECT_TRUE(refusal("strategy", "channel").contains("strategy channel"));
  EXPECT_TRUE(refusal("group_size", 16).contains("group_size 16"));
}

TEST_F(QuantizedCases, OtherFloatsOfEightBitsAreNamed) {
  HfModel model = fixture("llama");
  setCodes(model, projection, "F8_E5M2", 0x38);
  model.add(projection + "_scale", "F32", {});
  const Outcome outcome = convert(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(projection +
                                   " is F8_E5M2 [112, 96]: of the 8-bit floats "
                                   "mbc reads F8_E4M3"))
      << outcome.err;
}

// Codes that have lost their scales are no numbers.
TEST_F(QuantizedCases, WeightsInIntegersAreRefused) {
  HfModel model = fixture("deepseek_v4_mxfp4");
  model.erase("layers.1.ffn.experts.0.w1.scale");
  Outcome outcome = convert(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("layers.1.ffn.experts.0.w1.weight is I8 "
                                   "[64, 48] and has no scales"))
      << outcome.err;

  model = fixture("kimi_k25_int4");
  const std::string up =
      "language_model.model.layers.1.mlp.experts.0.up_proj.weight";
  model.erase(up + "_scale");
  outcome = convert(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(up + "_scale is not in")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("one for each 8 values of a row, [40, 10]"))
      << outcome.err;
}

// A scale that does not fit decides nothing about the order of axes.
TEST_F(QuantizedCases, AWrongScaleOfExpertsIsNamed) {
  HfModel model = fixture("gpt_oss_mxfp4");
  const std::string scales = "model.layers.0.mlp.experts.gate_up_proj_scales";
  model.at(scales).shape = {4, 128, 4};
  const Outcome outcome = convert(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(scales + " is U8 [4, 128, 4]"))
      << outcome.err;
  EXPECT_FALSE(outcome.err.contains("mixed layouts")) << outcome.err;
}

// As Ministral 3 is published.
TEST_F(QuantizedCases, ScalesOfActivationsAreLeftOutAndSaid) {
  HfModel model = fixture("llama");
  setCodes(model, projection, "F8_E4M3", 0x38);
  model.add(projection + "_scale_inv", "BF16", {});
  model.contents[projection + "_scale_inv"] = floats({0.5F}, "BF16");
  model.add("model.layers.0.self_attn.o_proj.activation_scale", "BF16", {});
  const Outcome outcome = convert(model);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("1 scales of activations are left out"))
      << outcome.err;
  const Outcome back = mbc({"convert", target_, scratch_ / "back"});
  EXPECT_EQ(back.status, 0) << back.err;
  EXPECT_FALSE(
      readSafetensors(scratch_ / "back")
          .contains("model.layers.0.self_attn.o_proj.activation_scale"));
}

// Parameters that are no module's `weight` have longer names of scales there.
TEST_F(QuantizedCases, StackedExpertsOfModelOptInFP8) {
  HfModel model = fixture("llama4");
  const std::string experts = "model.layers.1.feed_forward.experts.";
  for (const auto &[name, scale] :
       {std::pair<std::string, float>{experts + "gate_up_proj", 0.25F},
        {experts + "down_proj", 0.5F}}) {
    setCodes(model, name, "F8_E4M3", 0x38); // 1.0
    for (const auto &[ending, value] :
         {std::pair<std::string, float>{"_weight_scale", scale},
          {"_input_scale", 3.0F}}) {
      model.add(name + ending, "F32", {});
      model.contents[name + ending] = floats({value}, "F32");
    }
  }
  Outcome outcome = convert(model);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("2 scales of activations are left out"))
      << outcome.err;
  const std::string megatron = "decoder.layers.1.mlp.experts.linear_fc";
  for (const char *expert : {"0", "5"}) {
    EXPECT_EQ(values(megatron + "1.weight" + expert),
              std::vector<float>(2 * 36 * 88, 0.25F));
    EXPECT_EQ(values(megatron + "2.weight" + expert),
              std::vector<float>(36 * 88, 0.5F));
  }

  ASSERT_EQ(convert(model, {"--quant", "keep"}).status, 0);
  outcome = mbc({"convert", target_, scratch_ / "kept", "--quant", "keep"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "kept")),
            "");
}

/// Experts [E, in, out] in NVFP4 by ModelOpt: a byte has rows 2k and 2k + 1 of
/// a column, a scale 16 rows of one; all numbers are powers of two.
class PairedExperts {
public:
  PairedExperts(std::string name, int64_t in, int64_t out)
      : name_(std::move(name)), in_(in), out_(out) {
    for (int64_t at = 0; at != count * in * out / 2; ++at)
      codes_.push_back(static_cast<std::byte>(at * 37 + at / 251));
    constexpr uint8_t half = 0x30, one = 0x38, two = 0x40; // E4M3
    for (int64_t at = 0; at != count * in * out / 16; ++at)
      scales_.push_back(std::byte{std::array{half, one, two}[at * 7 % 11 % 3]});
  }

  void addTo(HfModel &model) const {
    model.add(name_, "U8", {count, in_ / 2, out_});
    model.contents[name_] = codes_;
    model.add(name_ + "_weight_scale", "F8_E4M3", {count, in_ / 16, out_});
    model.contents[name_ + "_weight_scale"] = scales_;
    for (const auto &[ending, value] :
         {std::pair<std::string, float>{"_weight_scale_2", 0.25F},
          {"_input_scale", 3.0F}}) {
      model.add(name_ + ending, "F32", {});
      model.contents[name_ + ending] = floats({value}, "F32");
    }
  }

  float value(int64_t expert, int64_t in, int64_t out) const {
    static constexpr std::array magnitudes{0.0F, 0.5F, 1.0F, 1.5F,
                                           2.0F, 3.0F, 4.0F, 6.0F};
    const auto pair =
        static_cast<uint8_t>(codes_[(expert * in_ / 2 + in / 2) * out_ + out]);
    const int code = in % 2 == 0 ? pair & 15 : pair >> 4;
    const auto scale = static_cast<uint8_t>(
        scales_[(expert * in_ / 16 + in / 16) * out_ + out]);
    const float factor = scale == 0x30 ? 0.5F : scale == 0x38 ? 1.0F : 2.0F;
    return (code < 8 ? 1 : -1) * magnitudes[code % 8] * factor * 0.25F;
  }

  static constexpr int64_t count = 4;

private:
  std::string name_;
  int64_t in_, out_;
  std::vector<std::byte> codes_, scales_;
};

TEST_F(QuantizedCases, StackedExpertsOfModelOptInNVFP4) {
  constexpr int64_t h = 96, I = 64;
  HfModel model = fixture("gpt_oss_mxfp4");
  model.config["quantization_config"] = {
      {"quant_method", "modelopt"},
      {"quant_algo", "NVFP4"},
      {"config_groups",
       {{"group_0",
         {{"weights",
           {{"num_bits", 4}, {"type", "float"}, {"group_size", 16}}}}}}}};
  std::vector<std::string> old;
  for (const fixtures::ManifestFile &file : model.files)
    for (const fixtures::ManifestTensor &tensor : file.tensors)
      if (tensor.name.ends_with("_blocks") || tensor.name.ends_with("_scales"))
        old.push_back(tensor.name);
  for (const std::string &name : old) {
    model.erase(name);
    if (!name.ends_with("_blocks"))
      continue;
    const bool isUp = name.contains("gate_up");
    PairedExperts(name.substr(0, name.size() - 7), isUp ? h : I,
                  isUp ? 2 * I : h)
        .addTo(model);
  }
  Outcome outcome = convert(model, {"--tp", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_EQ(convert(model).status, 0);
  const std::string experts = "model.layers.0.mlp.experts.";
  const PairedExperts up(experts + "gate_up_proj", h, 2 * I),
      down(experts + "down_proj", I, h);
  for (int64_t e = 0; e != PairedExperts::count; ++e) {
    std::vector<float> fc1, fc2;
    for (int64_t row = 0; row != 2 * I; ++row) // gate and up alternate in HF
      for (int64_t column = 0; column != h; ++column)
        fc1.push_back(
            up.value(e, column, row < I ? 2 * row : 2 * (row - I) + 1));
    for (int64_t row = 0; row != h; ++row)
      for (int64_t column = 0; column != I; ++column)
        fc2.push_back(down.value(e, column, row));
    const std::string megatron = "decoder.layers.0.mlp.experts.linear_fc";
    EXPECT_EQ(values(megatron + "1.weight" + std::to_string(e)), fc1) << e;
    EXPECT_EQ(values(megatron + "2.weight" + std::to_string(e)), fc2) << e;
  }

  ASSERT_EQ(convert(model, {"--quant", "keep"}).status, 0);
  outcome = mbc({"convert", target_, scratch_ / "kept", "--quant", "keep"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.contains(", 0 quantised anew")) << outcome.err;
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "kept")),
            "");
}

TEST_F(QuantizedCases, TwoScalesForAWeightOfManyRowsAreRefused) {
  HfModel model = fixture("llama");
  setCodes(model, projection, "F8_E4M3", 0x38);
  model.add(projection + "_scale_inv", "F32", {2});
  const Outcome outcome = convert(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(projection + "_scale_inv is F32 [2]"))
      << outcome.err;
  EXPECT_TRUE(outcome.err.contains("one a row, [112]")) << outcome.err;
}

// A family that nobody publishes so: the scales belong to the format, not to
// the family.
TEST_F(QuantizedCases, ScalesInAFamilyThatIsPublishedWithout) {
  HfModel model = fixture("qwen3");
  std::vector<std::string> quantized;
  for (const auto &file : model.files)
    for (const auto &tensor : file.tensors)
      if (tensor.name.ends_with("_proj.weight"))
        quantized.push_back(tensor.name);
  for (const std::string &name : quantized) {
    setCodes(model, name, "F8_E4M3", 0x38);
    const Extents &shape = model.at(name).shape;
    const Extents scales = {(shape[0] + 127) / 128, (shape[1] + 127) / 128};
    model.add(name + "_scale_inv", "F32", scales);
    std::vector<std::byte> &bytes = model.contents[name + "_scale_inv"];
    for (int64_t i = 0; i != scales[0] * scales[1]; ++i)
      for (std::byte byte : floats({0.5F}, "F32"))
        bytes.push_back(byte);
  }
  const Outcome outcome = convert(model);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char *name :
       {"self_attention.linear_qkv", "mlp.linear_fc1", "mlp.linear_fc2"}) {
    const std::vector<float> found =
        values(std::string("decoder.layers.1.") + name + ".weight");
    EXPECT_EQ(found, std::vector<float>(found.size(), 0.5F)) << name;
    EXPECT_FALSE(found.empty());
  }
}

// Packed FP4, FP8 and exponents have one byte an element. Bytes of 0x21 are the
// pair 0.5, 1.0 or the number 0.140625; an exponent of 0x80 is 2.
TEST_F(QuantizedCases, ThreeFormatsOfOneByte) {
  HfModel model = fixture("deepseek_v4_mxfp4");
  for (const auto &[name, codes] :
       {std::pair<std::string, std::string>{"layers.1.ffn.experts.0.w1", "I8"},
        {"layers.1.attn.wq_a", "F8_E4M3"}}) {
    setCodes(model, name + ".weight", codes, 0x21);
    setCodes(model, name + ".scale", "F8_E8M0", 0x80);
  }
  const Outcome outcome = convert(model);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<float> down =
      values("decoder.layers.1.self_attention.linear_q_down_proj.weight");
  EXPECT_EQ(down, std::vector<float>(56 * 96, 0.28125F));
  const std::vector<float> fc1 =
      values("decoder.layers.1.mlp.experts.linear_fc1.weight0");
  ASSERT_EQ(fc1.size(), 2U * 64 * 96);
  for (size_t at = 0; at != 64 * 96; ++at) // w1 is the upper half
    ASSERT_EQ(fc1[at], at % 2 == 0 ? 1.0F : 2.0F) << at;
}

// Names that merely contain "weight" are no weights, and scales of what is not
// quantised are no scales.
TEST_F(QuantizedCases, CompanionsThatNothingReadsAreNamed) {
  HfModel model = fixture("llama");
  const std::vector<std::string> names = {
      "q_proj.weight_scale", "k_proj.weight_scale_2",
      "v_proj.input_scale",  "o_proj.weight_packed",
      "o_proj.weight_shape", "o_proj.weight_global_scale"};
  for (const std::string &name : names)
    model.add("model.layers.0.self_attn." + name, "F32", {});
  const Outcome outcome = convert(model);
  EXPECT_EQ(outcome.status, 1);
  for (const std::string &name : names)
    EXPECT_TRUE(outcome.err.contains(name)) << name << "\n" << outcome.err;
  EXPECT_TRUE(outcome.err.contains("is read by no rule of llama"))
      << outcome.err;
}

TEST_F(QuantizedCases, PackingsThatAreNotReadAreRefusedByName) {
  HfModel model = fixture("llama");
  model.config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}};
  const Outcome outcome = convert(model);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("quant_method is awq")) << outcome.err;
}

// The tensor that repeats a packed weight's shape, in both dtypes that it has.
TEST_F(QuantizedCases, AShapeTensorOfAnotherShapeIsRefused) {
  const std::string up =
      "language_model.model.layers.1.mlp.experts.0.up_proj.weight";
  for (const std::string dtype : {"I32", "I64"})
    for (const std::vector<int64_t> &values :
         {std::vector<int64_t>{40, 80}, {80, 40}, {40, 76}}) {
      HfModel model = fixture("kimi_k25_int4");
      model.at(up + "_shape").dtype = dtype;
      model.at(up + "_shape").values = values;
      const Outcome outcome = convert(model);
      if (values == std::vector<int64_t>{40, 80}) {
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        continue;
      }
      EXPECT_EQ(outcome.status, 1);
      EXPECT_TRUE(outcome.err.contains(fmt::format(
          "'{0}_shape' says [{1}], but the values of '{0}_packed' are [40, "
          "80]: take both tensors from one checkpoint",
          up, fmt::join(values, ", "))))
          << outcome.err;
      EXPECT_FALSE(std::filesystem::exists(target_));
    }
}

// An odd cut of a row falls between the two halves of a byte.
TEST_F(QuantizedCases, PackedColumnsAreCutInTheMiddleOfAByte) {
  HfModel model = fixture("kimi_k25_int4");
  // I = 40 over ETP 8 is 5 columns a rank.
  const Outcome outcome = convert(model, {"--tp", "8", "--etp", "8"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string source = target_;
  const Outcome back = mbc({"convert", source, scratch_ / "back"});
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(difference(exportOf(model), readSafetensors(scratch_ / "back")),
            "");
}

} // namespace
} // namespace mbc::test
