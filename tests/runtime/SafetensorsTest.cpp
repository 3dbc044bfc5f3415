#include "runtime/Safetensors.h"
#include "runtime/Json.h"

#include "tests/runtime/TemporaryDirectory.h"

#include <cstring>

#include <gtest/gtest.h>

namespace mbc {
namespace {

/// A file with this header and `dataBytes` zeros; N as given or true.
std::string fileWith(std::string_view header, size_t dataBytes,
                     std::optional<uint64_t> length = {}) {
  uint64_t n = length.value_or(header.size());
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &n, 8);
  bytes += header;
  bytes.append(dataBytes, '\0');
  return bytes;
}

class Safetensors : public ::testing::Test {
protected:
  Result<std::vector<StoredTensor>> read(std::string_view bytes) {
    directory_.write("f", bytes);
    auto file = InputFile::open(path());
    return reader_.read(*file, 3);
  }
  /// The message, with the file's path cut off.
  std::string failure(std::string_view bytes) {
    auto tensors = read(bytes);
    if (tensors)
      return "no error";
    return tensors.error().message.substr(path().size());
  }
  std::string path() const { return directory_ / "f"; }

  test::TemporaryDirectory directory_;
  SafetensorsReader reader_;
};

TEST_F(Safetensors, TensorsComeInTheOrderOfTheirOffsets) {
  auto tensors = read(
      fileWith(R"({"__metadata__":{"format":"pt"},)"
               R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
               R"("a":{"data_offsets":[0,4],"shape":[2],"dtype":"BF16"}}  )",
               28));
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].dtype, DType::BF16);
  EXPECT_EQ(*(*tensors)[1].shape, (Shape{2, 3}));
  // 8 bytes of length, a header of 133 bytes, 4 bytes of tensor a.
  const StoredPiece &piece = (*tensors)[1].pieces.front();
  EXPECT_EQ(piece.offset, std::filesystem::file_size(path()) - 24);
  EXPECT_EQ(piece.file, 3u);
}

TEST_F(Safetensors, EmptyAndScalarTensorsAtBothEnds) {
  auto tensors = read(
      fileWith(R"({"x":{"dtype":"F32","shape":[0,16],"data_offsets":[0,0]},)"
               R"("s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
               R"("z":{"dtype":"F32","shape":[3,0],"data_offsets":[8,8]}})",
               8));
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ(*(*tensors)[0].shape, (Shape{0, 16}));
  EXPECT_EQ(*(*tensors)[1].shape, Shape());
  EXPECT_EQ(*(*tensors)[2].shape, (Shape{3, 0}));
}

TEST_F(Safetensors, LengthsThatLie) {
  std::string good = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  for (uint64_t length : {uint64_t{1000}, uint64_t{0}, uint64_t{1} << 63,
                          ~uint64_t{0}, uint64_t{100'000'001}})
    EXPECT_EQ(failure(fileWith(good, 4, length)),
              fmt::format(": the header's length is given as {}, the file has "
                          "{} bytes and the limit is 100000000",
                          length, 8 + good.size() + 4));
  EXPECT_NE(failure(fileWith(good, 4, good.size() / 2)).find("not valid JSON"),
            std::string::npos);
  EXPECT_NE(failure(fileWith(good, 4, good.size() + 1)), "no error");
}

TEST_F(Safetensors, TruncatedFiles) {
  std::string whole = fileWith(
      R"({"a":{"dtype":"U8","shape":[40],"data_offsets":[0,40]}})", 40);
  std::string cut = whole.substr(0, whole.size() - 1);
  EXPECT_EQ(failure(cut),
            fmt::format(": the file has {} bytes, its header describes {} (the "
                        "last tensor is a): it is truncated, fetch it again",
                        cut.size(), whole.size()));
  EXPECT_EQ(failure(""), ": has 0 bytes, a safetensors file has at least 8 "
                         "(the header's length)");
  EXPECT_EQ(failure(whole.substr(0, 7)),
            ": has 7 bytes, a safetensors file has at least 8 (the header's "
            "length)");
  EXPECT_NE(failure(whole + "x").find("bytes after the last tensor"),
            std::string::npos);
}

TEST_F(Safetensors, OverlapNamesBothTensors) {
  EXPECT_EQ(failure(fileWith(
                R"({"a":{"dtype":"U8","shape":[64],"data_offsets":[0,64]},)"
                R"("b":{"dtype":"U8","shape":[64],"data_offsets":[32,96]}})",
                96)),
            ": tensor b: begins at byte 32 of the data, but a ends at byte 64: "
            "the tensors overlap");
}

TEST_F(Safetensors, GapNamesTheTensor) {
  EXPECT_EQ(failure(fileWith(
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6)),
            ": tensor a: begins at byte 2 of the data, but the data begins at "
            "byte 0: the tensors leave a gap");
}

TEST_F(Safetensors, ShapesThatOverflow) {
  EXPECT_EQ(
      failure(fileWith(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],)"
                       R"("data_offsets":[0,0]}})",
                       0)),
      ": tensor a: shape [4294967296, 4294967296] of U8 needs more than 2^64 "
      "bytes, data_offsets span 0");
}

TEST_F(Safetensors, ExtentsBeforeAZeroThatOverflow) {
  EXPECT_EQ(
      failure(
          fileWith(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,0],)"
                   R"("data_offsets":[0,0]}})",
                   0)),
      ": tensor a: shape [4294967296, 4294967296, 0] of U8 needs more than "
      "2^64 bytes, data_offsets span 0");
}

TEST_F(Safetensors, FieldsThatComeTwice) {
  for (std::string_view field :
       {R"("dtype":"I8")", R"("shape":[4])", R"("data_offsets":[0,4])"}) {
    const std::string_view name = field.substr(1, field.find('"', 1) - 1);
    const std::string message =
        failure(fileWith(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],)"
                                     R"("data_offsets":[0,4],{}}}}})",
                                     field),
                         4));
    EXPECT_TRUE(
        message.starts_with(fmt::format(": tensor a: has {} twice", name)))
        << message;
  }
  const std::string message =
      failure(fileWith(R"({"__metadata__":{},"__metadata__":{}})", 0));
  EXPECT_TRUE(message.starts_with(": __metadata__ is in the header twice"))
      << message;
}

TEST_F(Safetensors, OffsetsThatDisagreeWithTheShape) {
  EXPECT_EQ(
      failure(fileWith(
          R"({"a":{"dtype":"BF16","shape":[3,2],"data_offsets":[0,8]}})", 8)),
      ": tensor a: shape [3, 2] of BF16 needs 12 bytes, data_offsets [0, "
      "8] span 8");
  EXPECT_EQ(
      failure(fileWith(
          R"({"a":{"dtype":"U8","shape":[64],"data_offsets":[64,0]}})", 64)),
      ": tensor a: data_offsets end at 0, before they begin at 64");
}

TEST_F(Safetensors, ExtentsThatAreNoExtents) {
  for (std::string_view extent : {"-1", "2.0", "1e3", "\"2\"", "null"}) {
    std::string message = failure(fileWith(
        fmt::format(
            R"({{"a":{{"dtype":"U8","shape":[{},4],"data_offsets":[0,8]}}}})",
            extent),
        8));
    EXPECT_NE(message.find(fmt::format(
                  ": tensor a: dimension 0 of the shape is {}, it must be a "
                  "whole number from 0 to 9223372036854775807",
                  extent)),
              std::string::npos)
        << message;
  }
}

TEST_F(Safetensors, AllUnknownDTypesInOneMessage) {
  std::string message = failure(
      fileWith(R"({"a":{"dtype":"F8_E3M4","shape":[1],"data_offsets":[0,1]},)"
               R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
               R"("c":{"dtype":"XYZ","shape":[1],"data_offsets":[2,3]}})",
               3));
  EXPECT_EQ(message,
            ": unknown dtype of a (F8_E3M4), c (XYZ); known are F64, F32, F16, "
            "BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, F8_E4M3, "
            "F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ, F8_E8M0, C64");
}

TEST_F(Safetensors, MetadataHoldsStrings) {
  EXPECT_NE(failure(fileWith(R"({"__metadata__":{"n":1}})", 0))
                .find(R"(__metadata__ entry "n" is not a string)"),
            std::string::npos);
}

TEST_F(Safetensors, HeadersAroundRoundSizes) {
  std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  for (size_t size : {99'999, 100'000, 100'001, 16'777'217}) {
    std::string padded = header;
    padded.resize(size, ' ');
    auto tensors = read(fileWith(padded, 1));
    ASSERT_TRUE(tensors) << tensors.error().message;
    EXPECT_EQ((*tensors)[0].pieces[0].offset, 8 + size);
  }
}

TEST_F(Safetensors, PaddingWithZeroBytesIsRefused) {
  std::string header(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})");
  header.append(3, '\0');
  EXPECT_NE(failure(fileWith(header, 1)), "no error");
}

TEST(JsonString, EscapesWhatJsonForbids) {
  std::string out = "x";
  appendJsonString(out, "\"a\\b\x01\x1f\xc3\xa4");
  EXPECT_EQ(out, "x\"\\\"a\\\\b\\u0001\\u001f\xc3\xa4\"");
  out.clear();
  appendJsonString(out, "");
  EXPECT_EQ(out, "\"\"");
}

TEST_F(Safetensors, WriterLayout) {
  std::vector<SafetensorsEntry> entries = {{"w\"1", DType::BF16, {2, 3}},
                                           {"s", DType::F32, {}}};
  auto header = layoutSafetensors(entries);
  ASSERT_TRUE(header);
  std::string_view json =
      R"({"__metadata__":{"format":"pt"},)"
      R"("w\"1":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("s":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})";
  std::string_view text = std::string_view(header->bytes).substr(8);
  EXPECT_EQ(text.substr(0, json.size()), json);
  EXPECT_EQ(text.find_first_not_of(' ', json.size()), text.npos);
  EXPECT_EQ(header->bytes.size() % 8, 0u);
  EXPECT_EQ(header->offsets[0], header->bytes.size());
  EXPECT_EQ(header->offsets[1], header->bytes.size() + 12);
  EXPECT_EQ(header->fileSize, header->bytes.size() + 16);
  uint64_t length = 0;
  std::memcpy(&length, header->bytes.data(), 8);
  EXPECT_EQ(length, text.size());
}

TEST(SafetensorsHeader, NameThatComesTwice) {
  std::vector<SafetensorsEntry> entries = {{"a", DType::F32, Shape{1}},
                                           {"b", DType::F32, Shape{1}},
                                           {"a", DType::F32, Shape{2}}};
  auto header = layoutSafetensors(entries);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().message.substr(0, 16), "tensor a: would ");
}

} // namespace
} // namespace mbc
