#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <cstring>
#include <optional>

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

/// A damaged source is refused by `check` and by `convert`, from headers alone,
/// with the words given; nothing that looks like a checkpoint is left.
class BadInput : public testing::Test {
protected:
  void expectRefused(const std::vector<std::string> &words) const {
    const std::string target = scratch_ / "target";
    for (const std::vector<std::string> &arguments :
         {std::vector<std::string>{"check", source_},
          {"convert", source_, target}}) {
      const Outcome outcome = mbc(arguments);
      EXPECT_EQ(outcome.status, 1) << spell(arguments) << "\n" << outcome.err;
      for (const std::string &word : words)
        EXPECT_TRUE((outcome.err + outcome.out).contains(word))
            << spell(arguments) << " does not say \"" << word << "\":\n"
            << outcome.err;
    }
    EXPECT_FALSE(fs::exists(target + "/release"));
    EXPECT_FALSE(fs::exists(target + "/latest_checkpointed_iteration.txt"));
  }

  /// A file with this header text and data; the length field is the header's
  /// unless another is given.
  void writeFile(const std::string &header, uint64_t dataBytes,
                 std::optional<uint64_t> length = {}) {
    uint64_t number = length.value_or(header.size());
    std::string text(8, '\0');
    std::memcpy(text.data(), &number, 8);
    writeText(file_, text + header + std::string(dataBytes, '\0'));
  }

  /// llama with one tensor's entry in the header replaced.
  void replaceEntry(const std::string &name, const std::string &entry) {
    const std::string text = readText(file_);
    uint64_t length = 0;
    std::memcpy(&length, text.data(), 8);
    std::string header = text.substr(8, length);
    const size_t begin = header.find('"' + name + "\":") + name.size() + 3;
    const size_t end = header.find('}', begin) + 1;
    header.replace(begin, end - begin, entry);
    writeFile(header, text.size() - 8 - length);
  }

  void SetUp() override { fixture("llama").write(source_); }

  Scratch scratch_;
  const std::string source_ = scratch_ / "hf";
  const std::string file_ = source_ + "/model.safetensors";
  const std::string norm_ = "model.norm.weight"; // [112] BF16: 224 bytes
};

TEST_F(BadInput, FileEndsEarly) {
  const auto whole = fs::file_size(file_);
  for (uint64_t size : {whole - 1, whole / 2, uint64_t{7}, uint64_t{0}}) {
    SCOPED_TRACE(size);
    fs::resize_file(file_, size);
    std::vector<std::string> words{"model.safetensors", std::to_string(size)};
    if (size > 100000) // the header is whole, so the full size is known
      words.push_back(std::to_string(whole));
    expectRefused(words);
  }
}

TEST_F(BadInput, FileIsTooLong) {
  const auto whole = fs::file_size(file_);
  fs::resize_file(file_, whole + 1);
  expectRefused(
      {"model.safetensors", std::to_string(whole), std::to_string(whole + 1)});
}

TEST_F(BadInput, HeaderLengthLies) {
  const std::string text = readText(file_);
  uint64_t right = 0;
  std::memcpy(&right, text.data(), 8);
  for (uint64_t length : {uint64_t{text.size()}, uint64_t{0}, uint64_t{1} << 63,
                          ~uint64_t{0}, right / 2, right + 1}) {
    SCOPED_TRACE(length);
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    overwrite(file_, 0, bytes);
    expectRefused({"model.safetensors"});
    if (length >= text.size()) {
      expectRefused({std::to_string(length), std::to_string(text.size())});
    }
  }
}

TEST_F(BadInput, HeaderIsNoJson) {
  writeFile("{\"a\": nonsense", 0);
  expectRefused({"model.safetensors"});
}

TEST_F(BadInput, OffsetsContradictTheShape) {
  replaceEntry(norm_,
               R"({"dtype":"BF16","shape":[113],"data_offsets":[0,224]})");
  expectRefused({norm_, "226", "224"});
}

TEST_F(BadInput, OffsetsRunBackwards) {
  replaceEntry(norm_, R"({"dtype":"BF16","shape":[0],"data_offsets":[64,0]})");
  expectRefused({norm_, "64"});
}

TEST_F(BadInput, ExtentsAreNegativeOrFractions) {
  for (const std::string extent : {"-1", "2.0", "\"112\"", "null"}) {
    SCOPED_TRACE(extent);
    fixture("llama").write(source_);
    replaceEntry(norm_, R"({"dtype":"BF16","shape":[)" + extent +
                            R"(],"data_offsets":[0,224]})");
    expectRefused({norm_});
  }
}

TEST_F(BadInput, SizeOverflowsSixtyFourBits) {
  replaceEntry(norm_, R"({"dtype":"U8","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,0]})");
  expectRefused({norm_, "4294967296"});
}

TEST_F(BadInput, TensorsOverlap) {
  writeFile(R"({"a":{"dtype":"U8","shape":[64],"data_offsets":[0,64]},)"
            R"("b":{"dtype":"U8","shape":[64],"data_offsets":[32,96]}})",
            96);
  expectRefused({"model.safetensors", "b", "32", "64"});
}

TEST_F(BadInput, BytesBelongToNoTensor) {
  writeFile(R"({"a":{"dtype":"U8","shape":[32],"data_offsets":[0,32]},)"
            R"("b":{"dtype":"U8","shape":[32],"data_offsets":[64,96]}})",
            96);
  expectRefused({"model.safetensors", "32", "64"});
}

TEST_F(BadInput, DtypesAreUnknownEvenIfIgnored) {
  HfModel model = fixture("llama");
  const std::string ignored = "model.layers.0.self_attn.rotary_emb.inv_freq";
  model.add(ignored, "U8", {224});
  model.write(source_);
  replaceEntry(ignored,
               R"({"dtype":"XYZ","shape":[224],"data_offsets":[0,224]})");
  replaceEntry(norm_,
               R"({"dtype":"F8_E3M4","shape":[112],"data_offsets":[0,224]})");
  expectRefused({norm_, "F8_E3M4", ignored, "XYZ", "BF16"});
}

TEST_F(BadInput, NoTensorAtAll) {
  writeFile("{}", 0);
  expectRefused({"model.embed_tokens.weight"});
}

TEST_F(BadInput, ConfigIsMissing) {
  fs::remove(source_ + "/config.json");
  expectRefused({"config.json"});
}

// LoRA's factors alone.
TEST_F(BadInput, AnAdapterIsNoModel) {
  fs::remove_all(source_);
  fs::create_directories(source_);
  writeText(source_ + "/adapter_config.json", R"({"peft_type": "LORA"})");
  expectRefused({"is an adapter (adapter_config.json), not a model",
                 "merge it into its model first"});
}

TEST_F(BadInput, ConfigIsNoJson) {
  writeText(source_ + "/config.json", "{\"model_type\": \"llama\",\n]");
  expectRefused({"config.json"});
}

TEST_F(BadInput, ConfigLacksAField) {
  HfModel model = fixture("llama");
  for (const char *field : {"num_hidden_layers", "num_attention_heads",
                            "hidden_size", "intermediate_size", "vocab_size"}) {
    SCOPED_TRACE(field);
    HfModel changed = model;
    changed.config.erase(field);
    changed.write(source_);
    expectRefused({field});
  }
}

TEST_F(BadInput, ArchitectureIsUnknown) {
  HfModel model = fixture("llama");
  model.config["architectures"] = {"LlamaForCausalLn"};
  model.config["model_type"] = "llamma";
  model.write(source_);
  expectRefused({"LlamaForCausalLn", "--spec"});
}

TEST_F(BadInput, TargetIsNotEmpty) {
  writeText(scratch_ / "full/notes.txt", "mine");
  const Outcome outcome = mbc({"convert", source_, scratch_ / "full"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.contains("--force")) << outcome.err;
  EXPECT_EQ(readText(scratch_ / "full/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(scratch_ / "full/release"));
}

TEST_F(BadInput, UsageErrorsHaveTheirOwnStatus) {
  EXPECT_EQ(mbc({"convert"}).status, 2);
  EXPECT_EQ(mbc({"no-such-command"}).status, 2);
  EXPECT_EQ(mbc({"convert", source_, scratch_ / "t", "--no-such"}).status, 2);
  EXPECT_EQ(mbc({"convert", source_, scratch_ / "t", "--quant", "awq"}).status,
            2);
  EXPECT_EQ(mbc({"convert", source_, scratch_ / "t", "--tp", "two"}).status, 2);
  EXPECT_FALSE(fs::exists(scratch_ / "t"));
}

} // namespace
} // namespace mbc::test
