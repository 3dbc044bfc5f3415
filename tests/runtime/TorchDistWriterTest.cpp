#include "runtime/TorchDistWriter.h"

#include "runtime/PickleWriter.h"
#include "runtime/Sha256.h"
#include "runtime/TorchArchive.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

namespace mbc {
namespace {

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.hex();
}

std::string sixFloats() {
  std::array<float, 6> values = {0, 1, 2, 3, 4, 5};
  return {reinterpret_cast<const char *>(values.data()), sizeof values};
}

TEST(Sha256, IsTheStandardsExample) {
  // FIPS 180-4, message "abc".
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb41"
                           "0ff61f20015ad");
}

// A checkpoint with one float tensor w [2, 3], values 0 to 5, which PyTorch's
// distributed checkpoint reader has loaded; these are the hashes of its files.
TEST(TorchDistWriter, ItemIsByteExact) {
  std::string pickle = tensorPickle(DType::F32, Shape{2, 3}.dims());
  EXPECT_EQ(pickle.size(), 142u);
  std::string data = sixFloats();
  std::string_view storage = data;
  std::string item = archiveBytes("archive", pickle, {&storage, 1});
  EXPECT_EQ(item.size(), 1577u);
  EXPECT_EQ(sha256(item),
            "9663af4f02a03cf0a286ea8ada003ddce6bc0dddb8ae8dada540f"
            "7a55318495b");
}

TEST(TorchDistWriter, MetadataIsByteExact) {
  Shape shape{2, 3}, start{0, 0};
  TorchDistTensor tensor{"w", DType::F32, shape.dims()};
  TorchDistChunk chunk{0, 0, 0, 1577, start.dims(), shape.dims()};
  std::string_view file = "__0_0.distcp";
  std::string metadata =
      torchDistMetadata({&tensor, 1}, {&chunk, 1}, {}, {&file, 1});
  EXPECT_EQ(metadata.size(), 988u);
  EXPECT_EQ(sha256(metadata),
            "0f5ae731521bd5438edc25a3911d8c0812ad23beb3d757d65"
            "7f50b015c9e06cf");
}

TEST(TorchDistWriter, FramingAroundDataIsTheSameArchive) {
  test::TemporaryDirectory directory;
  std::string pickle = tensorPickle(DType::F32, Shape{2, 3}.dims());
  std::string data = sixFloats();
  std::array<uint64_t, 1> sizes = {data.size()};
  std::array<uint32_t, 1> crcs = {crc32(0, std::as_bytes(std::span(data)))};
  constexpr uint64_t base = 4096;
  ArchiveLayout layout = layoutArchive("archive", pickle.size(), sizes, base);
  EXPECT_EQ(layout.totalBytes, 1577u);
  ASSERT_EQ(layout.dataOffsets, std::vector<uint64_t>{base + 0x2c0});

  auto file = OutputFile::create(directory / "item");
  ASSERT_TRUE(file);
  for (const FramingRun &run :
       archiveFraming(base, "archive", pickle, sizes, crcs))
    ASSERT_TRUE(file->writeAt(run.offset, std::string_view(run.bytes)));
  ASSERT_TRUE(file->writeAt(layout.dataOffsets[0], std::string_view(data)));
  auto bytes = readWholeFile(directory / "item");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(sha256(bytes->substr(base)),
            "9663af4f02a03cf0a286ea8ada003ddce6bc0dddb8ae8dada540f7a55318495b");
}

TEST(TorchArchive, LayoutAgreesWithTheBytesForManyStorages) {
  std::vector<std::string> contents;
  std::vector<std::string_view> views;
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i != 120; ++i)
    contents.emplace_back(i * 7 % 100, static_cast<char>('a' + i % 26));
  for (const std::string &content : contents) {
    views.push_back(content);
    sizes.push_back(content.size());
  }
  std::string bytes = archiveBytes("model_optim_rng", "\x80\x02N.", views);
  ArchiveLayout layout = layoutArchive("model_optim_rng", 4, sizes);
  EXPECT_EQ(layout.totalBytes, bytes.size());
  for (size_t i = 0; i != contents.size(); ++i) {
    EXPECT_EQ(layout.dataOffsets[i] % 64, 0u);
    EXPECT_EQ(bytes.substr(layout.dataOffsets[i], sizes[i]), contents[i]);
  }
}

TEST(TorchArchive, ReaderFindsWhatTheWriterPlaced) {
  test::TemporaryDirectory directory;
  std::vector<std::string_view> storages = {"first", "", "third one"};
  std::string bytes = archiveBytes("x", "\x80\x02N.", storages);
  auto file = InputFile::open(
      directory.write("a", fmt::format("before{}behind", bytes)));
  ASSERT_TRUE(file);
  auto archive = TorchArchive::open(*file, 6, bytes.size());
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->pickle().value(), "\x80\x02N.");
  auto entry = archive->find("data/2");
  ASSERT_TRUE(entry);
  EXPECT_EQ(file->readAt(entry->offset, entry->size).value(), "third one");
  EXPECT_EQ(archive->find("data/1")->size, 0u);
  EXPECT_FALSE(archive->find("data/3"));
}

TEST(TorchArchive, EveryTruncationIsAnError) {
  test::TemporaryDirectory directory;
  std::string_view storage = "payload";
  std::string bytes = archiveBytes("x", "\x80\x02N.", {&storage, 1});
  for (size_t size = 0; size < bytes.size(); size += 13) {
    std::string name = fmt::format("a{}", size);
    auto file = InputFile::open(directory.write(name, bytes.substr(0, size)));
    ASSERT_TRUE(file);
    EXPECT_FALSE(TorchArchive::open(*file, 0, size)) << size;
  }
}

TEST(TorchArchive, Zip64FormsFromFourGigabytesOn) {
  // Two storages, the first as large as a 32-bit size cannot say: the second
  // header has the offset form, 12 more bytes of extra field.
  std::array<uint64_t, 2> sizes = {uint64_t{1} << 32, 8};
  ArchiveLayout layout = layoutArchive("archive", 142, sizes);
  EXPECT_EQ(layout.dataOffsets[0], 0x2c0u);
  uint64_t second = 0x2c0 + (uint64_t{1} << 32) + 24;
  EXPECT_EQ(layout.dataOffsets[1], (second + 30 + 14 + 12 + 4 + 63) / 64 * 64);
}

} // namespace
} // namespace mbc
