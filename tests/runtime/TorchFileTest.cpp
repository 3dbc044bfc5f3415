#include "runtime/TorchFile.h"
#include "runtime/File.h"
#include "runtime/PickleWriter.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <bit>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

// The container of torch.save before PyTorch 1.6, put together here opcode by
// opcode; tests/interop/torch_bin.py has PyTorch write it.

namespace mbc::test {
namespace {

using namespace std::string_literals;

const std::string magic = "\x80\x02\x8a\x0al\xfc\x9c"
                          "F\xf9 j\xa8P\x19."s;
const std::string protocol = "\x80\x02M\xe9\x03."s;

std::string systemPickle(bool littleEndian) {
  PickleWriter out;
  out.json(Json{{"protocol_version", 1001}, {"little_endian", littleEndian}});
  return std::move(out).finish();
}

/// One element of the persistent id more than the archive's tensors have.
std::string tensorText(const std::string &key, char elements, char offset,
                       char extent) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage"
         "\nU"s +
         static_cast<char>(key.size()) + key +
         "U\x03"
         "cpuK"s +
         elements + "NtQK"s + offset + "K"s + extent +
         "\x85K\x01\x85\x89"
         "ccollections\nOrderedDict\n)RtR"s;
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes;
  auto add = [&](auto value) {
    auto raw = std::bit_cast<std::array<char, sizeof(value)>>(value);
    bytes.append(raw.data(), raw.size());
  };
  add(static_cast<int64_t>(values.size()));
  for (float value : values)
    add(value);
  return bytes;
}

/// Two tensors of one storage and one of another.
struct Sequence {
  std::string system = systemPickle(true);
  std::string content = "\x80\x02}(U\x01"
                        "a"s +
                        tensorText("11", 5, 0, 2) +
                        "U\x01"
                        "b"s +
                        tensorText("11", 5, 2, 3) +
                        "U\x01"
                        "c"s +
                        tensorText("7", 1, 0, 1) + "u."s;
  std::string keys = "\x80\x02](U\x02"
                     "11U\x01"
                     "7e."s;
  std::string storages = floats({1, 2, 3, 4, 5}) + floats({6});

  std::string bytes() const {
    return magic + protocol + system + content + keys + storages;
  }
};

class TorchSequence : public testing::Test {
protected:
  Result<std::vector<TorchTensor>> read(const std::string &bytes) {
    const std::string path = folder_.path() + "/" + std::to_string(files_++);
    std::ofstream(path, std::ios::binary) << bytes;
    Result<InputFile> file = InputFile::open(path);
    if (!file)
      return std::unexpected(file.error());
    return readStateDict(*file);
  }

  std::string failure(const std::string &bytes) {
    auto tensors = read(bytes);
    return tensors ? "no failure" : tensors.error().message;
  }

  TemporaryDirectory folder_;
  int files_ = 0;
};

TEST_F(TorchSequence, StoragesFollowInTheOrderOfTheKeys) {
  const Sequence sequence;
  auto tensors = read(sequence.bytes());
  ASSERT_TRUE(tensors) << tensors.error().message;
  const uint64_t first = sequence.bytes().size() - sequence.storages.size() + 8;
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].offset, first);
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_EQ((*tensors)[1].offset, first + 2 * 4);
  EXPECT_EQ((*tensors)[1].shape, Shape{3});
  EXPECT_EQ((*tensors)[2].name, "c");
  EXPECT_EQ((*tensors)[2].offset, first + 5 * 4 + 8);
}

TEST_F(TorchSequence, EveryTruncationIsRefused) {
  const std::string bytes = Sequence().bytes();
  for (size_t length = 0; length != bytes.size(); ++length)
    EXPECT_NE(failure(bytes.substr(0, length)), "no failure") << length;
}

TEST_F(TorchSequence, WhatDoesNotFitIsNamed) {
  Sequence other;
  other.system = systemPickle(false);
  EXPECT_TRUE(failure(other.bytes()).contains("little-endian"));
  Sequence counts;
  counts.storages = floats({1, 2, 3, 4}) + floats({6});
  EXPECT_TRUE(failure(counts.bytes())
                  .contains("storage \"11\" has 4 elements of 4 bytes, its "
                            "tensors want 5"))
      << failure(counts.bytes());
  Sequence longer;
  longer.content.replace(longer.content.find("K\x02K\x03"s), 4, "K\x02K\x04"s);
  EXPECT_TRUE(failure(longer.bytes())
                  .contains("tensor b: needs 24 bytes, its storage has 20"))
      << failure(longer.bytes());
  Sequence unknown;
  unknown.keys = "\x80\x02](U\x02"
                 "11U\x01"
                 "8e."s;
  EXPECT_TRUE(failure(unknown.bytes()).contains("storage \"8\""))
      << failure(unknown.bytes());
}

TEST_F(TorchSequence, AFileOfATrainingRunIsNoModel) {
  Sequence nested;
  nested.content = "\x80\x02}(U\x0astate_dict}u."s;
  nested.keys = "\x80\x02]."s;
  nested.storages.clear();
  const std::string text = failure(nested.bytes());
  EXPECT_TRUE(text.contains("\"state_dict\"") && text.contains("is a dict"))
      << text;
}

} // namespace
} // namespace mbc::test
