#include "runtime/Executor.h"
#include "runtime/TorchArchive.h"
#include "runtime/TorchDistWriter.h"
#include "runtime/TorchRanksWriter.h"
#include "tests/runtime/PlanBuilder.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace mbc::test {
namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Python's zipfile reads the archive at [offset, offset + length) and checks
/// every CRC-32; the content of data/0 comes back.
std::string dataByPython(const TemporaryDirectory &directory,
                         const std::string &file, uint64_t offset,
                         uint64_t length, std::string_view root,
                         int storage = 0) {
  std::string script = directory.write(
      "read.py", "import sys, io, zipfile\n"
                 "file, offset, length, entry, out = sys.argv[1:]\n"
                 "f = open(file, 'rb'); f.seek(int(offset))\n"
                 "z = zipfile.ZipFile(io.BytesIO(f.read(int(length))))\n"
                 "assert z.testzip() is None\n"
                 "open(out, 'wb').write(z.read(entry))\n");
  std::string command =
      fmt::format("python3 {} {} {} {} {}/data/{} {}", script, file, offset,
                  length, root, storage, directory / "out");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return readText(directory / "out");
}

std::string ramp(size_t count) {
  std::string bytes(count, '\0');
  for (size_t at = 0; at != count; ++at)
    bytes[at] = static_cast<char>(at * 31 + at / 256);
  return bytes;
}

class TorchTargets : public testing::Test {
protected:
  TorchTargets() : bytes_(ramp(60000)) {
    directory_.write("src/w.bin", bytes_);
  }

  /// Two tensors of F32, one after the other in the source.
  void addTensors(PlanBuilder &builder, uint32_t file, uint64_t firstOffset,
                  uint64_t secondOffset) {
    uint32_t source = builder.sourceFile("w.bin", bytes_.size());
    std::vector<plan::OutputT> outputs;
    outputs.push_back(
        output(DType::F32, {100, 100}, {box(0, 0, 0, {{10000, 1, 1}})}));
    outputs.push_back(
        output(DType::F32, {5000}, {box(0, 10000, 0, {{5000, 1, 1}})}));
    uint32_t a = builder.item(file, builder.tensor("a", DType::F32, {100, 100}),
                              firstOffset, {0, 0});
    uint32_t b = builder.item(file, builder.tensor("b", DType::F32, {5000}),
                              secondOffset, {0});
    addClass(builder, classOf({input(DType::F32, 15000)}, std::move(outputs),
                              {builder.source(source, 0)}, {a, b}));
  }

  TemporaryDirectory directory_;
  std::string bytes_;
};

TEST_F(TorchTargets, ItemsAreArchivesWithTheirChecksum) {
  const uint64_t object = extraStateObject().size();
  // Room enough for either archive, whatever its framing.
  const uint64_t first = (object + 63) / 64 * 64, second = first + 64 * 700;
  PlanBuilder builder(plan::TargetFormat_TorchDist);
  uint32_t file = builder.targetFile("__0_0.distcp", second + 64 * 400);
  builder.plan.objects = {"m._extra_state/shard_0_1"};
  builder.plan.object_files = {file};
  addTensors(builder, file, first, second);
  builder.sidecar("metadata.json", torchDistMarker());
  for (uint64_t memory : {uint64_t{20000}, uint64_t{1} << 30}) {
    std::filesystem::remove_all(directory_ / "dst");
    RunOptions options;
    options.memory = memory; // in bands, and whole
    options.sync = false;
    Result<RunSummary> summary =
        run(builder.build(), directory_ / "src", directory_ / "dst", options);
    ASSERT_TRUE(summary) << summary.error().message;
    std::string path = directory_ / "dst/release/__0_0.distcp";
    EXPECT_EQ(readText(path).substr(0, object), extraStateObject());
    uint64_t framing =
        archiveBytes("archive", std::string(300, 'p'), {}).size();
    ASSERT_LT(framing, 3000u);
    InputFile input = InputFile::open(path).value();
    Result<std::string> metadata =
        readWholeFile(directory_ / "dst/release/.metadata");
    EXPECT_TRUE(metadata &&
                metadata->find("__0_0.distcp") != std::string::npos);
    for (auto [offset, begin, size] :
         {std::tuple(first, 0, 40000), std::tuple(second, 40000, 20000)}) {
      // The archive ends where its end record does.
      std::string all = readText(path).substr(offset, size + 3000);
      uint64_t length = all.rfind("PK\x05\x06") + 22;
      EXPECT_EQ(dataByPython(directory_, path, offset, length, "archive"),
                bytes_.substr(begin, size));
    }
    EXPECT_EQ(readText(directory_ / "dst/latest_checkpointed_iteration.txt"),
              "release");
  }
}

TEST_F(TorchTargets, ARankFileIsOneArchive) {
  PlanBuilder builder(plan::TargetFormat_TorchRanks);
  std::string pickle(500, 'p');
  std::array<uint64_t, 2> sizes{40000, 20000};
  ArchiveLayout layout = layoutArchive(rankFileRoot, pickle.size(), sizes);
  uint32_t file =
      builder.targetFile("mp_rank_00/model_optim_rng.pt", layout.totalBytes);
  builder.plan.files[file]->literal.assign(pickle.begin(), pickle.end());
  addTensors(builder, file, layout.dataOffsets[0], layout.dataOffsets[1]);
  RunOptions options;
  options.memory = 20000;
  Result<RunSummary> summary =
      run(builder.build(), directory_ / "src", directory_ / "dst", options);
  ASSERT_TRUE(summary) << summary.error().message;
  std::string path = directory_ / "dst/release/mp_rank_00/model_optim_rng.pt";
  EXPECT_EQ(std::filesystem::file_size(path), layout.totalBytes);
  for (int storage : {0, 1})
    EXPECT_EQ(dataByPython(directory_, path, 0, layout.totalBytes, rankFileRoot,
                           storage),
              bytes_.substr(storage * 40000, storage ? 20000 : 40000));
}

TEST_F(TorchTargets, RefusesOffsetsThatAreNotTheArchives) {
  PlanBuilder builder(plan::TargetFormat_TorchDist);
  uint32_t file = builder.targetFile("__0_0.distcp", 100000);
  addTensors(builder, file, 0, 64);
  Result<RunSummary> summary =
      run(builder.build(), directory_ / "src", directory_ / "dst", {});
  ASSERT_FALSE(summary);
  EXPECT_NE(summary.error().message.find("__0_0.distcp: 'b' needs bytes 64 to"),
            std::string::npos)
      << summary.error().message;
}

} // namespace
} // namespace mbc::test
