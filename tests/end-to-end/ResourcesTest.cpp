#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

// What a conversion may use: memory by its bound, time by the number of
// tensors.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

class Resources : public testing::Test {
protected:
  Outcome done(const std::vector<std::string> &arguments) const {
    Outcome outcome = mbc(arguments);
    EXPECT_EQ(outcome.status, 0) << spell(arguments) << "\n" << outcome.err;
    return outcome;
  }

  Scratch scratch_;
};

/// A Llama of one layer, whose gate and up projection are 24 MiB each.
HfModel wideLlama() {
  HfModel model = fixture("llama");
  const int64_t width = 112352;
  model.config["intermediate_size"] = width;
  model.config["num_hidden_layers"] = 1;
  for (auto &file : model.files)
    std::erase_if(file.tensors, [](const auto &tensor) {
      return tensor.name.starts_with("model.layers.") &&
             !tensor.name.starts_with("model.layers.0.");
    });
  const std::string mlp = "model.layers.0.mlp.";
  model.at(mlp + "gate_proj.weight").shape = {width, 112};
  model.at(mlp + "up_proj.weight").shape = {width, 112};
  model.at(mlp + "down_proj.weight").shape = {112, width};
  return model;
}

// The fused tensor of 48 MiB is never in memory as a whole, nor are its parts
// of 24: with a bound of 8 MiB, 16 more than a small model needs are enough.
TEST_F(Resources, ATensorMayBeLargerThanTheMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a sanitizer has more memory of its own";
#endif
  const std::vector<std::string> bound{"--memory", "8MiB", "--threads", "2"};
  auto convert = [&](uint64_t limit, const std::string &from,
                     const std::string &to,
                     const std::vector<std::string> &options = {}) {
    std::vector<std::string> call{"convert", scratch_ / from, scratch_ / to};
    for (const auto *more : {&bound, &options})
      call.insert(call.end(), more->begin(), more->end());
    return mbcWithMemoryLimit(limit, call);
  };
  fixture("llama").write(scratch_ / "small");
  uint64_t program = 32 << 10;
  while (convert(program, "small", "small-mg").status != 0) {
    fs::remove_all(scratch_ / "small-mg");
    program += 8 << 10;
    ASSERT_LT(program, uint64_t{1} << 20);
  }
  const uint64_t limit = program + (16 << 10);
  const HfModel model = wideLlama();
  model.write(scratch_ / "hf");
  for (const char *tp : {"1", "2"}) {
    const Outcome there = convert(limit, "hf", "mg", {"--tp", tp});
    ASSERT_EQ(there.status, 0) << there.err;
    const Outcome back = convert(limit, "mg", "back");
    ASSERT_EQ(back.status, 0) << back.err;
    EXPECT_EQ(difference(model.tensors(), readSafetensors(scratch_ / "back")),
              "");
    fs::remove_all(scratch_ / "mg");
    fs::remove_all(scratch_ / "back");
  }
}

/// A qwen3_moe of this many layers with 1,000 experts of 3 small tensors each.
HfModel manyTensors(int64_t layers) {
  HfModel model = fixture("qwen3_moe");
  model.config["num_hidden_layers"] = layers;
  model.config["num_local_experts"] = 1000;
  model.config["moe_intermediate_size"] = 2;
  const std::string first = "model.layers.0.";
  std::vector<fixtures::ManifestTensor> ofLayer, others;
  for (const auto &file : model.files)
    for (const auto &tensor : file.tensors)
      if (tensor.name.starts_with(first) && !tensor.name.contains(".experts."))
        ofLayer.push_back(tensor);
      else if (!tensor.name.starts_with("model.layers."))
        others.push_back(tensor);
  model.files = {{"model-00000.safetensors", others}};
  for (int64_t i = 0; i != layers; ++i) {
    auto &file = model.files.emplace_back();
    file.name = fmt::format("model-{:05}.safetensors", i + 1);
    const std::string layer = fmt::format("model.layers.{}.", i);
    for (fixtures::ManifestTensor tensor : ofLayer) {
      if (tensor.name.ends_with("mlp.gate.weight"))
        tensor.shape[0] = 1000;
      tensor.name = layer + tensor.name.substr(first.size());
      file.tensors.push_back(std::move(tensor));
    }
    for (int64_t e = 0; e != 1000; ++e) {
      const std::string expert = fmt::format("{}mlp.experts.{}.", layer, e);
      file.tensors.push_back({expert + "gate_proj.weight", "BF16", {2, 80}});
      file.tensors.push_back({expert + "up_proj.weight", "BF16", {2, 80}});
      file.tensors.push_back({expert + "down_proj.weight", "BF16", {80, 2}});
    }
  }
  return model;
}

// Four times the tensors take four times the work, not sixteen times.
TEST_F(Resources, BookkeepingGrowsWithTheNumberOfTensors) {
  std::vector<double> seconds[3];
  for (int64_t layers : {8, 32}) {
    const std::string name = fmt::format("many{}", layers);
    manyTensors(layers).write(scratch_ / name);
    seconds[0].push_back(done({"check", scratch_ / name}).cpuSeconds);
    seconds[1].push_back(
        done({"convert", scratch_ / name, scratch_ / (name + "-mg"), "--ep",
              "4", "--no-sync"})
            .cpuSeconds);
    seconds[2].push_back(done({"convert", scratch_ / (name + "-mg"),
                               scratch_ / (name + "-back"), "--no-sync"})
                             .cpuSeconds);
    for (const char *part : {"", "-mg", "-back"})
      fs::remove_all(scratch_ / (name + part));
  }
  for (const auto &step : seconds)
    EXPECT_LE(step[1], 5 * step[0] + 0.05) << step[0] << " and " << step[1];
}

} // namespace
} // namespace mbc::test
