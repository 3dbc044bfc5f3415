#include "tests/end-to-end/MegatronArgs.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <gtest/gtest.h>

// Megatron's arguments against a second statement of them: args.json beside
// config.json has the value of each, derived from the published tables of the
// families (what each field of config.json is in Megatron) and not from specs.

namespace mbc::test {
namespace {

std::string tableOf(const std::string &name) {
  return std::string(MBC_TEST_DATA) + "/" + name + "/args.json";
}

std::vector<std::string> fixturesWithTable() {
  std::vector<std::string> names = allFixtures();
  std::erase_if(names, [](const std::string &name) {
    return !std::filesystem::exists(tableOf(name));
  });
  return names;
}

/// What every checkpoint has of its layout, of its vocabulary and of a state
/// without an optimizer; other tests have their values.
bool isOfTheCheckpoint(const std::string &name) {
  static const std::set<std::string> names = {
      "bf16",
      "ckpt_format",
      "consumed_train_samples",
      "consumed_valid_samples",
      "context_parallel_size",
      "data_parallel_size",
      "decoder_first_pipeline_num_layers",
      "decoder_last_pipeline_num_layers",
      "expert_model_parallel_size",
      "expert_tensor_parallel_size",
      "fp16",
      "make_vocab_size_divisible_by",
      "no_save_optim",
      "no_save_rng",
      "num_layers_per_virtual_pipeline_stage",
      "padded_vocab_size",
      "params_dtype",
      "pipeline_model_parallel_size",
      "skipped_train_samples",
      "tensor_model_parallel_size",
      "virtual_pipeline_model_parallel_size",
      "vocab_size",
      "world_size"};
  return names.contains(name);
}

class MegatronArgs : public testing::TestWithParam<std::string> {};

TEST_P(MegatronArgs, AreThoseOfTheTable) {
  const Scratch scratch;
  fixture(GetParam()).write(scratch / "hf");
  std::vector<std::string> call = {"convert", scratch / "hf", scratch / "mg"};
  for (const std::string &option : importOptions(GetParam()))
    call.push_back(option);
  const Outcome done = mbc(call);
  ASSERT_EQ(done.status, 0) << done.err;
  const Json found = megatronArgs(scratch / "mg");
  const Json table = Json::parse(readText(tableOf(GetParam())));
  for (const auto &[name, value] : found.items()) {
    if (isOfTheCheckpoint(name))
      continue;
    if (!table.contains(name))
      ADD_FAILURE() << "no expected value for " << name << ", which is "
                    << value;
    else
      EXPECT_EQ(value, table[name]) << name;
  }
  for (const auto &[name, value] : table.items())
    EXPECT_TRUE(found.contains(name)) << name << " is not written";
}

INSTANTIATE_TEST_SUITE_P(Fixtures, MegatronArgs,
                         testing::ValuesIn(fixturesWithTable()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace mbc::test
