
#include "tests/end-to-end/RankConversion.h"
#include <bit>
#include <cstring>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

// Small models of the decoder families with elements that one can name, and
// what each Megatron rank must hold written out by hand.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

using Element = std::function<float(int64_t)>; ///< by row-major index

std::vector<std::byte> floats(int64_t count, const Element &element) {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i != count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(element(i));
    for (int byte = 0; byte != 4; ++byte)
      bytes.push_back(static_cast<std::byte>(bits >> 8 * byte & 0xFF));
  }
  return bytes;
}

class FamilyCases : public RankConversion {
protected:
  /// Adds an F32 tensor.
  void add(const std::string &name, const Extents &shape,
           const Element &element) {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    model_.add(name, "F32", shape);
    model_.contents[name] = floats(count, element);
  }
  void constant(const std::string &name, const Extents &shape) {
    add(name, shape, [](int64_t) { return 1.0F; });
  }
  /// Every element of row r is `first` + r.
  void tagged(const std::string &name, const Extents &shape, float first) {
    const int64_t width = shape.size() == 1 ? 1 : shape[1];
    add(name, shape, [first, width](int64_t i) {
      return first + static_cast<float>(i / width);
    });
  }

  /// An F32 parameter of one rank.
  std::vector<float> numbers(const std::string &rank,
                             const std::string &name) const {
    const std::string bytes = parameter(rank, name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
};

/// A gpt-oss of one layer, hidden size and expert width 8, two experts.
class SquareExperts : public FamilyCases {
protected:
  SquareExperts() {
    model_.config = fixture("gpt_oss").config;
    model_.config.update(Json{{"num_hidden_layers", 1},
                              {"hidden_size", 8},
                              {"intermediate_size", 8},
                              {"num_local_experts", 2},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"head_dim", 4},
                              {"vocab_size", 64},
                              {"dtype", "float32"},
                              {"layer_types", {"sliding_attention"}}});
    model_.files = {{"model.safetensors", {}}};
    constant("model.embed_tokens.weight", {64, 8});
    constant("lm_head.weight", {64, 8});
    constant("model.norm.weight", {8});
    const std::string layer = "model.layers.0.";
    constant(layer + "input_layernorm.weight", {8});
    constant(layer + "post_attention_layernorm.weight", {8});
    for (const char *part : {"q", "k", "v"}) {
      const int64_t rows = *part == 'q' ? 16 : 8;
      constant(fmt::format("{}self_attn.{}_proj.weight", layer, part),
               {rows, 8});
      constant(fmt::format("{}self_attn.{}_proj.bias", layer, part), {rows});
    }
    constant(layer + "self_attn.o_proj.weight", {8, 16});
    constant(layer + "self_attn.o_proj.bias", {8});
    constant(layer + "self_attn.sinks", {4});
    constant(layer + "mlp.router.weight", {2, 8});
    constant(layer + "mlp.router.bias", {2});
    // Element [e, i, j] is 100000 e + 1000 i + j.
    add(experts_ + "down_proj", {2, 8, 8}, [](int64_t i) {
      return static_cast<float>(100000 * (i / 64) + 1000 * (i / 8 % 8) + i % 8);
    });
    add(experts_ + "gate_up_proj", {2, 8, 16}, [](int64_t i) {
      return static_cast<float>(100000 * (i / 128) + 1000 * (i / 16 % 8) +
                                i % 16);
    });
    add(experts_ + "gate_up_proj_bias", {2, 16},
        [](int64_t i) { return static_cast<float>(100 * (i / 16) + i % 16); });
    constant(experts_ + "down_proj_bias", {2, 8});
  }

  const std::string experts_ = "model.layers.0.mlp.experts.";
};

// On a square matrix a forgotten transpose fits every shape.
TEST_F(SquareExperts, AreTransposedAndTheirGatesParted) {
  const Outcome outcome = import({});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string mg = "decoder.layers.0.mlp.experts.";
  for (int64_t e = 0; e != 2; ++e) {
    SCOPED_TRACE(e);
    const auto fc1 =
        numbers("tp0.pp0.ep0", fmt::format("{}linear_fc1.weight{}", mg, e));
    const auto fc2 =
        numbers("tp0.pp0.ep0", fmt::format("{}linear_fc2.weight{}", mg, e));
    ASSERT_EQ(fc1.size(), 128u);
    ASSERT_EQ(fc2.size(), 64u);
    for (int64_t row = 0; row != 8; ++row)
      for (int64_t column = 0; column != 8; ++column) {
        const auto at = static_cast<size_t>(8 * row + column);
        const int64_t gate = 100000 * e + 1000 * column + 2 * row;
        EXPECT_EQ(fc1[at], static_cast<float>(gate));
        EXPECT_EQ(fc1[64 + at], static_cast<float>(gate + 1));
        EXPECT_EQ(fc2[at],
                  static_cast<float>(100000 * e + 1000 * column + row));
      }
  }
  EXPECT_EQ(numbers("tp0.pp0.ep0", mg + "linear_fc2.weight1")[3 * 8 + 5],
            105003);
  const auto first = numbers("tp0.pp0.ep0", mg + "linear_fc1.weight0");
  EXPECT_EQ(first[2 * 8 + 6], 6004);
  EXPECT_EQ(first[10 * 8 + 6], 6005);
  EXPECT_EQ(numbers("tp0.pp0.ep0", mg + "linear_fc1.bias1"),
            (std::vector<float>{100, 102, 104, 106, 108, 110, 112, 114, 101,
                                103, 105, 107, 109, 111, 113, 115}));
  expectSourceBack();
}

TEST_F(SquareExperts, OfAnotherWidthThanTheConfigSaysAreNamed) {
  model_.at(experts_ + "gate_up_proj").shape = {2, 4, 32};
  const Outcome outcome = import({});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains(experts_ + "gate_up_proj")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("[2, 4, 32]")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("[2, 8, 16]")) << outcome.err;
}

// Gate and up are not square, and say that no matrix is turned.
TEST_F(SquareExperts, ByOutputAreTakenAsTheyAre) {
  model_.at(experts_ + "gate_up_proj").shape = {2, 16, 8};
  const Outcome outcome = import({});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string mg = "decoder.layers.0.mlp.experts.";
  // Element [e, row, column] of the file is 100000 e + 1000 (row / 2) +
  // 8 (row % 2) + column; even rows are gate.
  const auto fc1 = numbers("tp0.pp0.ep0", mg + "linear_fc1.weight1");
  ASSERT_EQ(fc1.size(), 128u);
  EXPECT_EQ(fc1[3 * 8 + 5], 103005);
  EXPECT_EQ(fc1[64 + 3 * 8 + 5], 103013);
  EXPECT_EQ(numbers("tp0.pp0.ep0", mg + "linear_fc2.weight1")[3 * 8 + 5],
            103005);
  expectSourceBack();
}

/// A Qwen2 of one layer, tied, with biases. Row r of the query projection holds
/// r, of the key projection 1000 + r, of the value projection 2000 + r.
class FewKeyValueHeads : public FamilyCases {
protected:
  void build(int64_t heads, int64_t groups, int64_t d) {
    const int64_t h = heads * d;
    model_.config = fixture("qwen2").config;
    model_.config.update(Json{{"num_hidden_layers", 1},
                              {"hidden_size", h},
                              {"intermediate_size", 56},
                              {"num_attention_heads", heads},
                              {"num_key_value_heads", groups},
                              {"vocab_size", 64},
                              {"dtype", "float32"}});
    model_.config.erase("head_dim");
    model_.config.erase("layer_types");
    model_.files = {{"model.safetensors", {}}};
    constant("model.embed_tokens.weight", {64, h});
    constant("model.norm.weight", {h});
    const std::string layer = "model.layers.0.";
    constant(layer + "input_layernorm.weight", {h});
    constant(layer + "post_attention_layernorm.weight", {h});
    constant(layer + "mlp.gate_proj.weight", {56, h});
    constant(layer + "mlp.up_proj.weight", {56, h});
    constant(layer + "mlp.down_proj.weight", {h, 56});
    constant(layer + "self_attn.o_proj.weight", {h, h});
    projection(layer + "self_attn.q_proj", h, h, 0);
    projection(layer + "self_attn.k_proj", groups * d, h, 1000);
    projection(layer + "self_attn.v_proj", groups * d, h, 2000);
  }

  /// The rows of a rank's fused projection; weight and bias must have the same.
  std::vector<float> rowsOf(int64_t rank) const {
    const std::string place = fmt::format("tp{}.pp0.ep0", rank);
    const std::string name = "decoder.layers.0.self_attention.linear_qkv.";
    const std::vector<float> weight = numbers(place, name + "weight"),
                             bias = numbers(place, name + "bias");
    const size_t width = bias.empty() ? 1 : weight.size() / bias.size();
    for (size_t i = 0; i != weight.size(); ++i)
      EXPECT_EQ(weight[i], bias[i / width]) << place << " element " << i;
    return bias;
  }

private:
  void projection(const std::string &name, int64_t rows, int64_t h,
                  float first) {
    tagged(name + ".weight", {rows, h}, first);
    tagged(name + ".bias", {rows}, first);
  }
};

// Rank slices cut through a group; nothing is stored twice.
TEST_F(FewKeyValueHeads, ThanTensorRanks) {
  build(16, 2, 4);
  const Outcome outcome = import({"--tp", "8"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(rowsOf(0), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(rowsOf(3), (std::vector<float>{30, 31, 1000, 1001, 1002, 1003, 2000,
                                           2001, 2002, 2003}));
  EXPECT_EQ(rowsOf(4),
            (std::vector<float>{32, 33, 34, 35, 36, 37, 38, 39, 40, 41}));
  EXPECT_EQ(rowsOf(7), (std::vector<float>{62, 63, 1004, 1005, 1006, 1007, 2004,
                                           2005, 2006, 2007}));
  expectSourceBack();
}

TEST_F(FewKeyValueHeads, SevenQueryHeadsEach) {
  build(14, 2, 2);
  const Outcome outcome = import({"--tp", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(rowsOf(0), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                           12, 13, 1000, 1001, 2000, 2001}));
  EXPECT_EQ(rowsOf(1),
            (std::vector<float>{14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
                                26, 27, 1002, 1003, 2002, 2003}));
  expectSourceBack();
}

TEST_F(FewKeyValueHeads, AreRefusedWhereTheyDoNotFitWithTheSizesThatDo) {
  build(14, 2, 2);
  Outcome outcome = import({"--tp", "4"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("14 query heads do not divide by 4"))
      << outcome.err;
  EXPECT_TRUE(outcome.err.contains("legal values are 1 and 2")) << outcome.err;
  outcome = import({"--tp", "7"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("2 key-value heads and 7 ranks"))
      << outcome.err;
  EXPECT_TRUE(outcome.err.contains("legal values are 1 and 2")) << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "mg/release"));
}

using TurnedAxes = RankConversion;

// An order of axes that is not its own inverse; no shipped spec has one.
TEST_F(TurnedAxes, ComeBackInTheirOrder) {
  const std::string name = "extra.weight";
  model_ = fixture("llama");
  model_.add(name, "F32", {2, 3, 4});
  std::vector<float> values;
  for (int i = 0; i != 2; ++i)
    for (int j = 0; j != 3; ++j)
      for (int k = 0; k != 4; ++k)
        values.push_back(static_cast<float>(100 * i + 10 * j + k));
  const auto *bytes = reinterpret_cast<const std::byte *>(values.data());
  model_.contents[name].assign(bytes, bytes + 4 * values.size());

  const std::string specs = scratch_ / "specs";
  fs::copy(MBC_SPECS, specs, fs::copy_options::recursive);
  writeText(specs + "/llama.mbspec",
            readText(specs + "/llama.mbspec") +
                "extra.weight <- transpose(extra.weight, [1, 2, 0])  "
                "stage=first\n");
  const Outcome done = import({"--spec-path", specs});
  ASSERT_EQ(done.status, 0) << done.err;
  const std::string turned = parameter("tp0.pp0.ep0", name);
  ASSERT_EQ(turned.size(), 4 * values.size());
  for (int j = 0, at = 0; j != 3; ++j)
    for (int k = 0; k != 4; ++k)
      for (int i = 0; i != 2; ++i, at += 4) {
        float value = 0;
        std::memcpy(&value, turned.data() + at, 4);
        EXPECT_EQ(value, static_cast<float>(100 * i + 10 * j + k));
      }
  const Outcome back = exportBack({"--spec-path", specs});
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(difference(model_.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

// One renamed norm: the stranger and the gap are named, with the near name, and
// no other layer.
TEST(RenamedTensor, IsFoundFromBothEnds) {
  HfModel model = fixture("glm4_moe");
  const std::string layer = "model.layers.1.";
  model.at(layer + "post_attention_layernorm.weight").name =
      layer + "post_self_attn_layernorm.weight";
  const Scratch scratch;
  model.write(scratch / "hf");
  const Outcome outcome = mbc({"check", scratch / "hf", "--copies", "drop"});
  EXPECT_EQ(outcome.status, 1);
  const std::string text = outcome.out + outcome.err;
  for (const char *word : {"model.layers.1.post_self_attn_layernorm.weight",
                           "decoder.layers.1.pre_mlp_layernorm.weight",
                           "model.layers.1.post_attention_layernorm.weight"})
    EXPECT_TRUE(text.contains(word)) << "not said: " << word << "\n" << text;
  for (const char *word : {"layers.0.", "layers.2."})
    EXPECT_FALSE(text.contains(word)) << word << " is said:\n" << text;
}

/// Forty experts, which 16 ranks cannot share.
class FortyExperts : public testing::Test {
protected:
  FortyExperts() {
    model_.config["num_local_experts"] = 40;
    model_.config["num_experts"] = 40;
    for (const auto &file : fixture("qwen3_moe").files)
      for (const auto &tensor : file.tensors)
        if (tensor.name.contains(".experts.0."))
          for (int64_t e = 6; e != 40; ++e) {
            std::string name = tensor.name;
            name.replace(name.find(".experts.0."), 11,
                         fmt::format(".experts.{}.", e));
            model_.add(name, tensor.dtype, tensor.shape);
          }
        else if (tensor.name.ends_with("mlp.gate.weight"))
          model_.at(tensor.name).shape[0] = 40;
    model_.write(scratch_ / "hf");
  }

  HfModel model_ = fixture("qwen3_moe");
  Scratch scratch_;
};

TEST_F(FortyExperts, DoNotDivideBySixteenAndTheMessageListsWhatDoes) {
  const Outcome outcome = mbc({"check", scratch_ / "hf", "--ep", "16"});
  EXPECT_EQ(outcome.status, 1);
  const std::string text = outcome.out + outcome.err;
  EXPECT_TRUE(text.contains("40")) << text;
  EXPECT_TRUE(text.contains("16")) << text;
  EXPECT_TRUE(text.contains("1, 2, 4, 5, 8, 10, 20 and 40")) << text;
}

TEST_F(FortyExperts, AreFiveOnEachOfEightRanks) {
  ASSERT_EQ(mbc({"check", scratch_ / "hf", "--ep", "8"}).status, 0);
  ASSERT_EQ(mbc({"convert", scratch_ / "hf", scratch_ / "mg", "--ep", "8",
                 "--etp", "1", "--format", "torch"})
                .status,
            0);
  std::set<std::string> held;
  const Json rows =
      Json::parse(mbc({"ls", scratch_ / "mg", "--json"}).out, nullptr, false);
  for (const Json &row : rows)
    if (row["rank"] == "tp0.pp0.ep3" &&
        row["name"].get<std::string>().contains("experts.linear_fc2"))
      held.insert(row["name"]);
  std::set<std::string> expected;
  const int64_t layers = model_.config["num_hidden_layers"];
  for (int64_t i = 0; i != layers; ++i)
    for (int64_t e = 15; e != 20; ++e)
      expected.insert(fmt::format(
          "decoder.layers.{}.mlp.experts.linear_fc2.weight{}", i, e));
  EXPECT_EQ(held, expected);
}

} // namespace
} // namespace mbc::test
