#include "tests/end-to-end/Families.h"
#include "tests/end-to-end/RankConversion.h"
#include "tests/fixtures/Fill.h"

#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

// Multi-token prediction: what config.json declares and files lack, names, and
// values that are easily taken from the wrong place.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

/// Whether a Hugging Face tensor belongs to an MTP layer: it says so, or its
/// layer comes after the decoder's.
bool isOfMtp(const std::string &name, int64_t layers) {
  if (name.contains("mtp"))
    return true;
  const size_t at = name.find("layers.");
  return at != std::string::npos && name.contains("model.") &&
         !name.contains("visual") &&
         std::strtoll(name.c_str() + at + 7, nullptr, 10) >= layers;
}

/// The field that counts MTP layers, of those that configs use.
Json *declaredCount(Json &config) {
  Json &text = config.contains("text_config") ? config["text_config"] : config;
  for (const char *field :
       {"num_nextn_predict_layers", "mtp_num_hidden_layers"})
    if (text.contains(field) && text[field].is_number() && text[field] > 0)
      return &text[field];
  return nullptr;
}

/// Fixtures whose config.json declares MTP layers, or a draft module's.
std::vector<std::string> declaring() {
  std::vector<std::string> names = allFixtures();
  std::erase_if(names, [](const std::string &name) {
    Json config = fixture(name).config;
    return !declaredCount(config);
  });
  return names;
}

class DeclaredMtp : public RankConversion,
                    public testing::WithParamInterface<std::string> {
protected:
  DeclaredMtp() {
    model_ = fixture(GetParam());
    const Json &text = textConfig(model_.config);
    // A hybrid model's pattern has a symbol a layer; its MTP layers say so.
    const int64_t layers = text.value("num_hidden_layers", int64_t{1} << 20);
    for (auto &file : model_.files)
      std::erase_if(file.tensors, [&](const auto &tensor) {
        return isOfMtp(tensor.name, layers);
      });
  }
};

// Many models are published without the MTP layers that config.json counts.
TEST_P(DeclaredMtp, AndAbsentFromTheFilesIsANote) {
  const Outcome done =
      import({"--pp", "1", "--make-vocab-size-divisible-by", "1"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(done.err.contains("note: config.json: ")) << done.err;
  EXPECT_TRUE(done.err.contains("converted without")) << done.err;
  for (const std::string &name : names())
    EXPECT_FALSE(name.contains("mtp.") || name.contains("dspark.")) << name;

  // As if it were not declared, to the arguments.
  HfModel undeclared = model_;
  *declaredCount(undeclared.config) = 0;
  const Answers answers(undeclared, {});
  EXPECT_EQ(answers.compareRanks(list(scratch_ / "mg"), {}, 1, false, true),
            "");
  const std::string file =
      readText(scratch_ / "mg/release/mp_rank_00/model_optim_rng.pt");
  const std::string key = "mtp_num_layers";
  const size_t at = file.find(key);
  ASSERT_NE(at, std::string::npos);
  // The name, then where the pickle keeps it ("q" and a byte), then None ("N").
  EXPECT_EQ(file[at + key.size() + 2], 'N');

  // What was declared stays declared.
  const Outcome back = exportBack();
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(difference(exportOf(model_), readSafetensors(scratch_ / "back")),
            "");
  Json config = Json::parse(readText(scratch_ / "back/config.json"));
  EXPECT_EQ(*declaredCount(config), *declaredCount(model_.config));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DeclaredMtp, testing::ValuesIn(declaring()),
                         [](const auto &info) { return info.param; });

TEST(MtpLayers, ThatNoFileWasPublishedWithAreANote) {
  HfModel model = fixture("minimax_m2");
  const Scratch scratch;
  for (const char *field : {"num_nextn_predict_layers", "num_mtp_modules"}) {
    model.config.erase("num_nextn_predict_layers");
    model.config.erase("num_mtp_modules");
    model.config[field] = 1;
    model.write(scratch / "hf");
    const Outcome outcome = mbc({"check", scratch / "hf"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.contains(fmt::format(
        "note: config.json: {} is 1, but the source has no tensor below "
        "model.layers.2 (Megatron: mtp.layers.0): converted without",
        field)))
        << outcome.err;
  }
}

/// MiMo-V2-Flash, whose published config.json does not count its MTP layers.
class UncountedMtp : public RankConversion {
protected:
  /// As many layers as the files are to have, each like the fixture's one.
  void setLayers(int64_t count) {
    model_ = fixture("mimo_v2_flash");
    const std::string first = "model.mtp.layers.0.";
    for (auto &file : model_.files) {
      const auto tensors = file.tensors;
      for (const auto &tensor : tensors)
        for (int64_t layer = 1; layer < count; ++layer)
          if (tensor.name.starts_with(first)) {
            auto copy = tensor;
            copy.name = fmt::format("model.mtp.layers.{}.{}", layer,
                                    tensor.name.substr(first.size()));
            file.tensors.push_back(copy);
          }
      if (count == 0)
        std::erase_if(file.tensors, [&](const auto &tensor) {
          return tensor.name.starts_with(first);
        });
    }
    counted_ = model_;
    counted_.config["num_nextn_predict_layers"] = count;
    model_.config.erase("num_nextn_predict_layers");
  }

  HfModel counted_;
};

TEST_F(UncountedMtp, AreThoseThatTheFilesHave) {
  for (int64_t count : {0, 1, 2, 3}) {
    SCOPED_TRACE(count);
    for (const char *folder : {"hf", "mg", "back"})
      fs::remove_all(scratch_ / folder);
    setLayers(count);
    const Outcome done = import({"--make-vocab-size-divisible-by", "1"});
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_FALSE(done.err.contains("note:")) << done.err;
    const Answers answers(counted_, {});
    EXPECT_EQ(answers.compareRanks(list(scratch_ / "mg"), {}, 1, false, true),
              "");
    expectSourceBack();
  }
}

/// MTP layers behind the decoder's, without an embedding and a head of their
/// own.
class TwoMtp : public RankConversion,
               public testing::WithParamInterface<const char *> {
protected:
  TwoMtp() {
    model_ = fixture(GetParam());
    const int64_t layers = model_.config["num_hidden_layers"];
    const std::string first = fmt::format("model.layers.{}.", layers);
    for (auto &file : model_.files) {
      std::erase_if(file.tensors, [&](const auto &tensor) {
        return tensor.name == first + "embed_tokens.weight" ||
               tensor.name == first + "shared_head.head.weight";
      });
      for (size_t i = 0, count = file.tensors.size(); i != count; ++i)
        if (file.tensors[i].name.starts_with(first)) {
          auto second = file.tensors[i];
          second.name = fmt::format("model.layers.{}.{}", layers + 1,
                                    second.name.substr(first.size()));
          file.tensors.push_back(second);
        }
    }
    model_.config["num_nextn_predict_layers"] = 2;
  }
};

// A norm or projection of the wrong one has the right shape.
TEST_P(TwoMtp, EachHasItsOwnTensors) {
  const Answers answers(model_, {});
  const Outcome done = import({"--make-vocab-size-divisible-by", "1"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(names().contains("mtp.layers.1.final_layernorm.weight"));
  EXPECT_EQ(answers.compareRanks(list(scratch_ / "mg"), {}, 1, false, true),
            "");
  expectSourceBack();
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TwoMtp,
                         testing::Values("deepseek_v3", "deepseek_v32",
                                         "glm4_moe", "glm4_moe_lite",
                                         "glm_moe_dsa", "bailing_moe_v2",
                                         "hy_v3"),
                         [](const auto &info) { return info.param; });

// Absence in part is damage.
TEST(MtpLayers, WithoutOneOfTheirTensorsAreRefused) {
  const std::pair<const char *, const char *> cases[] = {
      {"glm4_moe", "model.layers.3.enorm.weight"},
      {"deepseek_v3", "model.layers.4.eh_proj.weight"},
      {"mimo", "model.mtp_layers.0.token_layernorm.weight"},
      {"qwen3_5", "mtp.fc.weight"},
      {"exaone_moe", "mtp.norm.weight"},
      {"glm5_next", "model.language_model.layers.5.hnorm.weight"}};
  const Scratch scratch;
  for (auto [name, tensor] : cases) {
    HfModel model = fixture(name);
    model.erase(tensor);
    fs::remove_all(scratch / "hf");
    model.write(scratch / "hf");
    const Outcome outcome =
        mbc({"convert", scratch / "hf", scratch / "mg", "--copies", "drop"});
    EXPECT_EQ(outcome.status, 1) << name;
    EXPECT_TRUE(outcome.err.contains(fmt::format("{} is not in", tensor)))
        << outcome.err;
    EXPECT_FALSE(fs::exists(scratch / "mg"));
  }
}

/// One config.json and a Megatron checkpoint that was trained without the MTP
/// layer that it declares.
TEST(MtpLayers, ThatTrainingLeftOutAreNotPromisedByAnExport) {
  const HfModel whole = fixture("glm4_moe_lite");
  HfModel trained = whole;
  const int64_t layers = whole.config["num_hidden_layers"];
  for (auto &file : trained.files)
    std::erase_if(file.tensors, [&](const auto &tensor) {
      return isOfMtp(tensor.name, layers);
    });
  const Scratch scratch;
  whole.write(scratch / "template");
  trained.write(scratch / "hf");
  ASSERT_EQ(mbc({"convert", scratch / "hf", scratch / "mg"}).status, 0);
  fs::remove_all(scratch / "mg/release/mbc");
  const Outcome outcome =
      mbc({"convert", scratch / "mg", scratch / "back", "--hf-config",
           scratch / "template", "--max-shard-size", "100KB"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.contains(
      "note: config.json: num_nextn_predict_layers is 1, but the source has no "
      "tensor below mtp.layers.0 (Hugging Face: model.layers.3): converted "
      "without"))
      << outcome.err;
  const Tensors written = readSafetensors(scratch / "back");
  EXPECT_EQ(difference(trained.tensors(), written), "");
  const Json index =
      Json::parse(readText(scratch / "back/model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"].size(), written.size());
  uint64_t total = 0;
  for (const auto &[name, tensor] : written) {
    EXPECT_TRUE(index["weight_map"].contains(name)) << name;
    total += tensor.bytes.size();
  }
  EXPECT_EQ(index["metadata"]["total_size"], total);
}

using MtpConversion = RankConversion;

/// F32; element [i, j] is 1000 i + j.
void placeTagged(HfModel &model, const std::string &name) {
  auto &tensor = model.at(name);
  tensor.dtype = "F32";
  std::vector<std::byte> &bytes = model.contents[name];
  bytes.clear();
  for (int64_t i = 0; i != tensor.shape[0]; ++i)
    for (int64_t j = 0; j != tensor.shape[1]; ++j) {
      const float value = static_cast<float>(1000 * i + j);
      const auto *begin = reinterpret_cast<const std::byte *>(&value);
      bytes.insert(bytes.end(), begin, begin + sizeof value);
    }
}

float elementOf(const std::string &bytes, int64_t at) {
  float value = 0;
  std::memcpy(&value, bytes.data() + 4 * at, sizeof value);
  return value;
}

// Hugging Face's MiMo multiplies [hidden; embedding], Megatron the other way
// round.
TEST_F(MtpConversion, HalvesChangePlacesForOneFamilyOnly) {
  model_ = fixture("mimo");
  placeTagged(model_, "model.mtp_layers.0.input_proj.weight");
  const int64_t h = model_.config["hidden_size"];
  ASSERT_EQ(import().status, 0);
  const std::string swapped =
      parameter("tp0.pp0.ep0", "mtp.layers.0.eh_proj.weight");
  for (int64_t i = 0; i != h; ++i)
    for (int64_t j = 0; j != h; ++j) {
      EXPECT_EQ(elementOf(swapped, 2 * h * i + j),
                static_cast<float>(1000 * i + h + j));
      EXPECT_EQ(elementOf(swapped, 2 * h * i + h + j),
                static_cast<float>(1000 * i + j));
    }
  expectSourceBack();

  model_ = fixture("deepseek_v3");
  placeTagged(model_, "model.layers.4.eh_proj.weight");
  ASSERT_EQ(import({"--copies", "drop"}).status, 0);
  EXPECT_EQ(elementOf(parameter("tp0.pp0.ep0", "mtp.layers.0.eh_proj.weight"),
                      2 * 2 * model_.config["hidden_size"].get<int64_t>() + 1),
            2001);
}

/// deepseek_v3 whose MTP layer repeats embedding and head.
class MtpCopies : public MtpConversion {
protected:
  MtpCopies() {
    model_ = fixture("deepseek_v3");
    for (auto [copy, owner] :
         {std::pair{copy_, owner_},
          {"model.layers.4.shared_head.head.weight", "lm_head.weight"}})
      model_.contents[copy] =
          fixtures::fill(owner, "BF16", 0, model_.at(owner).elements());
  }

  static constexpr const char *copy_ = "model.layers.4.embed_tokens.weight",
                              *owner_ = "model.embed_tokens.weight";
};

// A copy from the source would undo training.
TEST_F(MtpCopies, FollowWhatTrainingChanged) {
  ASSERT_EQ(import({"--pp", "2"}).status, 0);
  const uint64_t row = 2 * model_.config["hidden_size"].get<uint64_t>();
  const std::string changed(row, '\x11');
  for (const char *rank : {"tp0.pp0.ep0", "tp0.pp1.ep0"}) {
    change(rank, "embedding.word_embeddings.weight", 5 * row, changed);
    const Outcome outcome = exportBack();
    // The last stage's copy is compared; then both are as training left them.
    if (std::string(rank).contains("pp0")) {
      EXPECT_EQ(outcome.status, 1);
      EXPECT_TRUE(outcome.err.contains("row 5 ")) << outcome.err;
    } else {
      ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
  }
  Tensors expected = model_.tensors();
  for (const char *name : {copy_, owner_})
    std::memset(expected.at(name).bytes.data() + 5 * row, 0x11, row);
  EXPECT_EQ(difference(expected, readSafetensors(scratch_ / "back")), "");
}

TEST_F(MtpCopies, ThatDifferAreRefusedWithTheRow) {
  const uint64_t row = 2 * model_.config["hidden_size"].get<uint64_t>();
  model_.contents[copy_][9 * row] ^= std::byte{1};
  const Outcome outcome = import();
  EXPECT_EQ(outcome.status, 1);
  for (const char *word : {copy_, owner_, "row 9 ", "--copies drop"})
    EXPECT_TRUE(outcome.err.contains(word)) << outcome.err;
}

// A torch_dist says transformer_layer, per-rank files mtp_model_layer; a file
// of either kind is read under either name.
TEST_F(MtpCopies, StandUnderTheNameOfTheirFormat) {
  ASSERT_EQ(import().status, 0);
  const std::string file = "mg/release/mp_rank_00/model_optim_rng.pt";
  EXPECT_TRUE(
      readText(scratch_ / file).contains("mtp.layers.0.mtp_model_layer."));
  EXPECT_FALSE(readText(scratch_ / file).contains("transformer_layer"));
  expectSourceBack();
  ASSERT_EQ(mbc({"convert", scratch_ / "hf", scratch_ / "dist"}).status, 0);
  const std::string metadata = readText(scratch_ / "dist/release/.metadata");
  EXPECT_TRUE(metadata.contains("mtp.layers.0.transformer_layer."));
  EXPECT_FALSE(metadata.contains("mtp_model_layer"));
  ASSERT_EQ(mbc({"convert", scratch_ / "dist", scratch_ / "from-dist"}).status,
            0);
  EXPECT_EQ(
      difference(model_.tensors(), readSafetensors(scratch_ / "from-dist")),
      "");
}

} // namespace
} // namespace mbc::test
