#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

// What a conversion may use of memory.

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

} // namespace
} // namespace mbc::test
