#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"
#include "tests/fixtures/Fill.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

/// BF16 of a number that BF16 holds exactly.
void append(std::vector<std::byte> &bytes, float value) {
  const auto bits = std::bit_cast<uint32_t>(value) >> 16;
  bytes.push_back(static_cast<std::byte>(bits & 0xFF));
  bytes.push_back(static_cast<std::byte>(bits >> 8));
}

class Cases : public testing::Test {
protected:
  Outcome convert(const std::string &from, const std::string &to,
                  std::vector<std::string> options = {}) const {
    options.insert(options.begin(),
                   {"convert", scratch_ / from, scratch_ / to});
    return mbc(options);
  }

  Scratch scratch_;
};

// Row r of a vocabulary of 100 holds r + 1; padding must be zero and must not
// come back.
TEST_F(Cases, VocabularyPaddingIsZeroAndDoesNotLeak) {
  HfModel model = fixture("llama");
  model.config["vocab_size"] = 100;
  std::vector<std::byte> tagged;
  for (int row = 0; row != 100; ++row)
    for (int column = 0; column != 112; ++column)
      append(tagged, static_cast<float>(row + 1));
  for (const char *name : {"lm_head.weight", "model.embed_tokens.weight"}) {
    model.at(name).shape = {100, 112};
    model.contents[name] = tagged;
  }
  model.write(scratch_ / "hf");
  ASSERT_EQ(convert("hf", "mg", {"--tp", "2", "--format", "torch"}).status, 0);

  const Json rows =
      Json::parse(mbc({"ls", scratch_ / "mg", "--json"}).out, nullptr, false);
  ASSERT_TRUE(rows.is_array());
  int seen = 0;
  for (const Json &row : rows) {
    if (row["name"] != "embedding.word_embeddings.weight" &&
        row["name"] != "output_layer.weight")
      continue;
    ++seen;
    ASSERT_EQ(row["shape"], Json({128, 112}));
    const std::string bytes = stored(scratch_ / "mg", row);
    const std::string rank = row["rank"];
    const size_t used = rank.starts_with("tp0") ? 100 * 112 * 2 : 0;
    EXPECT_EQ(bytes.substr(0, used),
              std::string(reinterpret_cast<const char *>(tagged.data()), used));
    EXPECT_EQ(bytes.substr(used), std::string(128 * 112 * 2 - used, '\0'));
  }
  EXPECT_EQ(seen, 4);
  ASSERT_EQ(convert("mg", "back").status, 0);
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
            "");
  EXPECT_EQ(Json::parse(readText(scratch_ / "back/config.json"))["vocab_size"],
            100);
}

// A vocabulary of 768 stored as 4 x 192 or 4 x 256 rows: the stored size
// decides on export.
TEST_F(Cases, ExportTakesTheStoredVocabularySize) {
  HfModel model = fixture("llama");
  model.config["vocab_size"] = 768;
  for (const char *name : {"lm_head.weight", "model.embed_tokens.weight"})
    model.at(name).shape = {768, 112};
  model.write(scratch_ / "hf");
  const std::pair<const char *, int> cases[] = {{"64", 192}, {"128", 256}};
  for (auto [divisor, rowsPerRank] : cases) {
    SCOPED_TRACE(divisor);
    const std::string target = std::string("mg") + divisor;
    ASSERT_EQ(convert("hf", target,
                      {"--tp", "4", "--format", "torch",
                       "--make-vocab-size-divisible-by", divisor})
                  .status,
              0);
    for (const Row &row : list(scratch_ / target))
      if (row.name == "output_layer.weight") {
        EXPECT_EQ(row.shape, (Extents{rowsPerRank, 112}));
      }
    ASSERT_EQ(convert(target, target + "-hf").status, 0);
    EXPECT_EQ(difference(model.tensors(),
                         readSafetensors(scratch_ / (target + "-hf"))),
              "");
  }
}

/// qwen3_moe of four layers and four experts: 8 query heads and 4 key-value
/// heads of 16.
HfModel fourLayersOfExperts() {
  HfModel model = fixture("qwen3_moe");
  const std::pair<const char *, int64_t> sizes[] = {
      {"num_hidden_layers", 4},   {"hidden_size", 64},
      {"num_attention_heads", 8}, {"num_key_value_heads", 4},
      {"head_dim", 16},           {"moe_intermediate_size", 32},
      {"num_local_experts", 4},   {"vocab_size", 300}};
  for (auto [field, size] : sizes)
    model.config[field] = size;
  model.files.resize(1);
  model.files[0].name = "model.safetensors";
  model.files[0].tensors.clear();
  auto add = [&](const std::string &name, Extents shape) {
    model.add(name, "BF16", std::move(shape));
  };
  add("model.embed_tokens.weight", {300, 64});
  add("lm_head.weight", {300, 64});
  add("model.norm.weight", {64});
  for (int layer = 0; layer != 4; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    add(at + "input_layernorm.weight", {64});
    add(at + "post_attention_layernorm.weight", {64});
    add(at + "self_attn.q_proj.weight", {128, 64});
    add(at + "self_attn.k_proj.weight", {64, 64});
    add(at + "self_attn.v_proj.weight", {64, 64});
    add(at + "self_attn.o_proj.weight", {64, 128});
    add(at + "self_attn.q_norm.weight", {16});
    add(at + "self_attn.k_norm.weight", {16});
    add(at + "mlp.gate.weight", {4, 64});
    for (int expert = 0; expert != 4; ++expert) {
      const std::string of = fmt::format("{}mlp.experts.{}.", at, expert);
      add(of + "gate_proj.weight", {32, 64});
      add(of + "up_proj.weight", {32, 64});
      add(of + "down_proj.weight", {64, 32});
    }
  }
  return model;
}

// Results do not depend on the layout that a model was trained in.
TEST_F(Cases, OneModelInFiveLayoutsGivesTheSameBytes) {
  const HfModel model = fourLayersOfExperts();
  model.write(scratch_ / "hf");
  const Tensors source = model.tensors();
  struct Sizes {
    const char *tp, *pp, *vpp, *ep, *etp;
  };
  const Sizes layouts[] = {{"1", "1", "1", "1", "1"},
                           {"2", "1", "1", "2", "1"},
                           {"2", "1", "1", "1", "2"},
                           {"1", "4", "1", "4", "1"},
                           {"4", "2", "2", "2", "2"}};
  for (const Sizes &sizes : layouts)
    for (const char *format : {"torch_dist", "torch"}) {
      SCOPED_TRACE(fmt::format("TP {} PP {} VPP {} EP {} ETP {}, {}", sizes.tp,
                               sizes.pp, sizes.vpp, sizes.ep, sizes.etp,
                               format));
      fs::remove_all(scratch_ / "mg");
      fs::remove_all(scratch_ / "back");
      const Outcome there =
          convert("hf", "mg",
                  {"--format", format, "--tp", sizes.tp, "--pp", sizes.pp,
                   "--vpp", sizes.vpp, "--ep", sizes.ep, "--etp", sizes.etp});
      ASSERT_EQ(there.status, 0) << there.err;
      const Outcome back = convert("mg", "back");
      ASSERT_EQ(back.status, 0) << back.err;
      EXPECT_EQ(difference(source, readSafetensors(scratch_ / "back")), "");
      if (std::string(format) != "torch" || std::string(sizes.tp) != "2")
        continue;
      // Two groups of two query heads, a key and a value head.
      const std::string at = "model.layers.0.self_attn.";
      const Tensor &q = source.at(at + "q_proj.weight"),
                   &k = source.at(at + "k_proj.weight"),
                   &v = source.at(at + "v_proj.weight");
      const Tensor expected =
          joinRows({rows(q, 0, 32), rows(k, 0, 16), rows(v, 0, 16),
                    rows(q, 32, 64), rows(k, 16, 32), rows(v, 16, 32)});
      int seen = 0;
      for (const Json &row :
           Json::parse(mbc({"ls", scratch_ / "mg", "--json"}).out))
        if (row["name"] ==
                "decoder.layers.0.self_attention.linear_qkv.weight" &&
            row["rank"].get<std::string>().starts_with("tp0.")) {
          ++seen;
          EXPECT_EQ(
              stored(scratch_ / "mg", row),
              std::string(reinterpret_cast<const char *>(expected.bytes.data()),
                          expected.bytes.size()));
        }
      EXPECT_GT(seen, 0);
    }
}

/// A model whose config says "tied" and whose files hold a head all the same.
class TiedHead : public Cases,
                 public testing::WithParamInterface<const char *> {
protected:
  HfModel model() const {
    HfModel model = fixture(GetParam());
    model.config["tie_word_embeddings"] = true;
    const auto embedding = model.at("model.embed_tokens.weight");
    std::erase_if(model.files[0].tensors, [](const auto &tensor) {
      return tensor.name == "lm_head.weight";
    });
    model.contents["lm_head.weight"] = fixtures::fill(
        embedding.name, embedding.dtype, 0, embedding.elements());
    model.add("lm_head.weight", embedding.dtype, embedding.shape);
    return model;
  }
};

TEST_P(TiedHead, EqualToTheEmbeddingIsAccepted) {
  const HfModel source = model();
  source.write(scratch_ / "hf");
  const Outcome outcome = convert("hf", "mg", {"--pp", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const Row &row : list(scratch_ / "mg"))
    EXPECT_NE(row.name, "output_layer.weight");
  ASSERT_EQ(convert("mg", "back").status, 0);
  // An equal copy is made again from its owner (--copies check).
  EXPECT_EQ(difference(source.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

TEST_P(TiedHead, ADifferentRowIsRefusedByName) {
  HfModel source = model();
  const int64_t width = source.at("lm_head.weight").shape[1];
  source.contents["lm_head.weight"][static_cast<size_t>(17 * width * 2 + 4)] ^=
      std::byte{1};
  source.write(scratch_ / "hf");
  const Outcome outcome = convert("hf", "mg");
  EXPECT_EQ(outcome.status, 1);
  for (const char *word : {"lm_head.weight", "model.embed_tokens.weight", "17"})
    EXPECT_TRUE(outcome.err.contains(word)) << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "mg/release"));
  EXPECT_FALSE(fs::exists(scratch_ / "mg/latest_checkpointed_iteration.txt"));
}

TEST_P(TiedHead, IsLeftOutWhereThatIsAskedFor) {
  HfModel source = model();
  source.contents["lm_head.weight"][0] ^= std::byte{1};
  source.write(scratch_ / "hf");
  const Outcome outcome = convert("hf", "mg", {"--copies", "drop"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(
      outcome.err.contains("note: lm_head.weight is left out (--copies drop)"))
      << outcome.err;
  ASSERT_EQ(convert("mg", "back").status, 0);
  source.erase("lm_head.weight");
  EXPECT_EQ(difference(source.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

INSTANTIATE_TEST_SUITE_P(Families, TiedHead,
                         testing::Values("qwen2", "qwen3", "llama"),
                         [](const auto &info) { return info.param; });

// The deepseek_v3 fixture's MTP copies differ from the main tensors: refused
// unless told to drop them.
TEST_F(Cases, CopiesThatDifferAreRefusedUnlessDropped) {
  fixture("deepseek_v3").write(scratch_ / "hf");
  const Outcome outcome = convert("hf", "mg");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("model.layers.4.")) << outcome.err;
  EXPECT_TRUE(outcome.err.contains("--copies")) << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "mg/release"));
  EXPECT_EQ(convert("hf", "mg2", {"--copies", "drop"}).status, 0);
}

TEST_F(Cases, EqualCopiesComeBack) {
  HfModel model = fixture("deepseek_v3");
  const std::pair<const char *, const char *> copies[] = {
      {"model.layers.4.embed_tokens.weight", "model.embed_tokens.weight"},
      {"model.layers.4.shared_head.head.weight", "lm_head.weight"}};
  for (auto [copy, owner] : copies)
    model.contents[copy] = fixtures::fill(owner, "BF16", 0, 500 * 96);
  model.write(scratch_ / "hf");
  const Outcome outcome = convert("hf", "mg", {"--tp", "2", "--pp", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_EQ(convert("mg", "back").status, 0);
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

// 130 rows in blocks of 128, cut in the middle by TP 2: the values are those
// of the block a row came from.
TEST_F(Cases, RaggedBlocksAreCutByTensorParallelism) {
  HfModel model = fixture("deepseek_v3_fp8");
  const std::string mlp = "model.layers.0.mlp.";
  for (const char *name : {"gate_proj", "up_proj", "down_proj"}) {
    auto &weight = model.at(mlp + name + ".weight");
    const bool down = std::string(name) == "down_proj";
    weight.shape = down ? Extents{160, 130} : Extents{130, 160};
    model.contents[weight.name] =
        std::vector<std::byte>(130 * 160, std::byte{0x38}); // 1.0
    model.at(weight.name + "_scale_inv").shape = {2, 2};
    std::vector<std::byte> scales(16);
    const float values[] = {0.5F, 2, 4, 8};
    std::memcpy(scales.data(), values, 16);
    model.contents[weight.name + "_scale_inv"] = scales;
  }
  model.config["intermediate_size"] = 130;
  model.write(scratch_ / "hf");
  const Outcome outcome = convert(
      "hf", "mg", {"--tp", "2", "--format", "torch", "--copies", "drop"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  int seen = 0;
  for (const Json &row :
       Json::parse(mbc({"ls", scratch_ / "mg", "--json"}).out)) {
    if (row["name"] != "decoder.layers.0.mlp.linear_fc1.weight" ||
        !row["rank"].get<std::string>().starts_with("tp1"))
      continue;
    const std::string bytes = stored(scratch_ / "mg", row);
    auto at = [&](size_t i, size_t j) {
      uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * (i * 160 + j), 2);
      return std::bit_cast<float>(uint32_t{bits} << 16);
    };
    ++seen;
    for (size_t half : {size_t{0}, size_t{65}}) {
      EXPECT_EQ(at(half + 62, 127), 0.5F);
      EXPECT_EQ(at(half + 62, 128), 2.0F);
      EXPECT_EQ(at(half + 63, 127), 4.0F);
      EXPECT_EQ(at(half + 63, 128), 8.0F);
    }
  }
  EXPECT_EQ(seen, 1);
}

// The head's own norm, mapped from the decoder's: two findings with their
// places in the spec.
TEST_F(Cases, AnMtpNormMappedFromTheDecodersNormIsRefused) {
  for (const std::string family :
       {"deepseek_v3", "glm4_moe", "glm_moe_dsa", "glm5_next"}) {
    SCOPED_TRACE(family);
    fs::copy(MBC_SPECS, scratch_ / family, fs::copy_options::recursive);
    // The rule may stand in the family's own file or in a shared block.
    int replaced = 0;
    for (const auto &entry :
         fs::recursive_directory_iterator(scratch_ / family)) {
      if (entry.path().extension() != ".mbspec")
        continue;
      std::string text = readText(entry.path());
      const std::string right = "shared_head.norm.weight";
      for (size_t at = text.find(right); at != std::string::npos;
           at = text.find(right, at + 1), ++replaced)
        text.replace(at, right.size(),
                     family == "glm5_next" ? "^model.language_model.norm.weight"
                                           : "^model.norm.weight");
      writeText(entry.path(), text);
    }
    ASSERT_GT(replaced, 0);
    fixture(family).write(scratch_ / (family + "-hf"));
    const Outcome outcome =
        mbc({"check", scratch_ / (family + "-hf"), "--spec-path",
             scratch_ / family, "--copies", "drop"});
    EXPECT_EQ(outcome.status, 1);
    for (const char *word :
         {"norm.weight", "shared_head.norm.weight", ".mbspec:"})
      EXPECT_TRUE(outcome.err.contains(word)) << outcome.err;
    // The first of them without any file of weights.
    const Outcome alone =
        mbc({"check", "--spec", scratch_ / (family + "/" + family + ".mbspec"),
             "--config", scratch_ / (family + "-hf/config.json")});
    EXPECT_EQ(alone.status, 1);
    EXPECT_TRUE(
        alone.err.contains("norm.weight is read on import, and would be "
                           "written on export, by two rules"))
        << alone.err;
  }
}

// A pickle that calls something is refused with its name, and nothing is run.
TEST_F(Cases, PicklesThatCallSomethingAreRefused) {
  fixture("llama").write(scratch_ / "hf");
  ASSERT_EQ(convert("hf", "mg").status, 0);
  const std::string marker = scratch_ / "marker";
  const std::pair<std::string, std::string> pickles[] = {
      {"posix.system", "cposix\nsystem\n(S'touch " + marker + "'\ntR."},
      {"builtins.eval", "c__builtin__\neval\n(S'1'\ntR."},
      {"os.system", "\x80\x02"
                    "cos\nsystem\nX\x02\x00\x00\x00ls\x85R."}};
  for (const auto &[name, bytes] : pickles) {
    SCOPED_TRACE(name);
    writeText(scratch_ / "mg/release/.metadata",
              name == "os.system" ? std::string("\x80\x02"
                                                "cos\nsystem\nX\x02"
                                                "\0\0\0ls\x85R.",
                                                24)
                                  : bytes);
    for (const std::vector<std::string> &arguments :
         {std::vector<std::string>{"ls", scratch_ / "mg"},
          {"convert", scratch_ / "mg", scratch_ / "back"}}) {
      const Outcome outcome = mbc(arguments);
      EXPECT_EQ(outcome.status, 1) << spell(arguments);
      EXPECT_TRUE(outcome.err.contains(".metadata")) << outcome.err;
      EXPECT_TRUE(outcome.err.contains(name.substr(name.find('.') + 1)))
          << outcome.err;
    }
    EXPECT_FALSE(fs::exists(marker));
    EXPECT_FALSE(fs::exists(scratch_ / "back/config.json"));
  }
}

// Megatron-Core until 0.14 does not load without, though it has no parameters.
TEST_F(Cases, TheCoreOfSoftmaxAttentionHasAByteObject) {
  const std::string core = ".self_attention.core_attention._extra_state";
  struct Case {
    const char *fixture;
    std::vector<std::string> present, absent;
  };
  const Case cases[] = {
      {"llama", {"decoder.layers" + core + "/shard_2_3"}, {}},
      {"deepseek_v3", {"decoder.layers.3" + core + "/shard_0_1"}, {}},
      {"gpt_oss", {"decoder.layers" + core + "/shard_1_2"}, {}},
      {"exaone4", {"decoder.layers" + core + "/shard_3_4"}, {}},
      {"qwen3_next", {"decoder.layers.3" + core}, {"decoder.layers.0" + core}},
      {"glm_moe_dsa", {}, {core}}};
  for (const auto &[name, present, absent] : cases) {
    SCOPED_TRACE(name);
    for (const char *folder : {"hf", "mg"})
      fs::remove_all(scratch_ / folder);
    fixture(name).write(scratch_ / "hf");
    ASSERT_EQ(convert("hf", "mg", {"--copies", "drop"}).status, 0);
    const std::string index = readText(scratch_ / "mg/release/.metadata");
    for (const std::string &key : present)
      EXPECT_TRUE(index.contains(key)) << key;
    for (const std::string &key : absent)
      EXPECT_FALSE(index.contains(key)) << key;
  }
}

// torch_dist keeps all layers of a parameter in one tensor.
TEST_F(Cases, LayersOfDifferentDTypesAreRefusedForTorchDist) {
  HfModel model = fixture("qwen3");
  model.at("model.layers.0.mlp.down_proj.weight").dtype = "F32";
  model.write(scratch_ / "hf");
  const Outcome refused = mbc({"check", scratch_ / "hf"});
  EXPECT_EQ(refused.status, 1);
  for (const char *part :
       {"decoder.layers.0.mlp.linear_fc2.weight is F32",
        "decoder.layers.1.mlp.linear_fc2.weight is BF16", "--format torch"})
    EXPECT_TRUE(refused.err.contains(part)) << refused.err;
  EXPECT_EQ(convert("hf", "cast", {"--dtype", "f32"}).status, 0);
  ASSERT_EQ(convert("hf", "mg", {"--format", "torch"}).status, 0);
  ASSERT_EQ(convert("mg", "back").status, 0);
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

// The record knows one layout of experts, the user asks for the other.
TEST_F(Cases, TheOtherLayoutOfExpertsComesBackOnRequest) {
  const HfModel model = fixture("qwen3_moe");
  model.write(scratch_ / "hf");
  ASSERT_EQ(convert("hf", "mg").status, 0);
  const Outcome fused = convert("mg", "fused", {"--hf-experts", "fused"});
  ASSERT_EQ(fused.status, 0) << fused.err;
  const Tensors found = readSafetensors(scratch_ / "fused");
  EXPECT_TRUE(found.contains("model.layers.0.mlp.experts.gate_up_proj"));
  EXPECT_FALSE(found.contains("model.layers.0.mlp.experts.0.up_proj.weight"));
  ASSERT_EQ(convert("fused", "mg2").status, 0);
  ASSERT_EQ(convert("mg2", "back", {"--hf-experts", "per-expert"}).status, 0);
  EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
            "");
}

} // namespace
} // namespace mbc::test
