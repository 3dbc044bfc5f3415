#include "runtime/mbc.h"
#include "tests/end-to-end/RankConversion.h"

#include <cstring>
#include <dlpack/dlpack.h>
#include <memory>

// Tensors loaded into memory by lib/libmbc.so are those that a run writes.

namespace mbc::test {
namespace {

struct TensorsFree {
  void operator()(mbc_tensors *tensors) const { mbc_tensors_free(tensors); }
};
using LoadedTensors = std::unique_ptr<mbc_tensors, TensorsFree>;

mbc_load_options onHost(int tp = 0, int pp = 0, int ep = 0) {
  return {sizeof(mbc_load_options), tp, pp, ep, -1, 2, 0, 0};
}

struct Loaded {
  LoadedTensors tensors;
  std::string error;
};

Loaded load(const std::string &plan, const std::string &source,
            const mbc_load_options &options) {
  char error[1024] = "";
  Loaded loaded;
  loaded.tensors.reset(
      mbc_load(plan.c_str(), source.c_str(), &options, error, sizeof(error)));
  loaded.error = error;
  return loaded;
}

std::string dtypeOf(DLDataType type) {
  switch (type.code) {
  case kDLBfloat:
    return "BF16";
  case kDLFloat:
    return "F" + std::to_string(type.bits);
  case kDLInt:
    return "I" + std::to_string(type.bits);
  default:
    return "U" + std::to_string(type.bits);
  }
}

/// The tensors as another library sees them, which outlive what they came from.
Tensors shared(Loaded loaded) {
  std::map<std::string, DLManagedTensor *> exported;
  for (size_t i = 0; i != mbc_tensor_count(loaded.tensors.get()); ++i) {
    const char *name = mbc_tensor_name(loaded.tensors.get(), i);
    EXPECT_FALSE(exported.contains(name)) << name;
    exported[name] = mbc_tensor_dlpack(loaded.tensors.get(), i);
  }
  EXPECT_EQ(mbc_tensor_dlpack(loaded.tensors.get(), exported.size()), nullptr);
  loaded.tensors.reset();
  Tensors tensors;
  for (auto &[name, managed] : exported) {
    const DLTensor &tensor = managed->dl_tensor;
    EXPECT_EQ(tensor.device.device_type, kDLCPU);
    EXPECT_EQ(tensor.strides, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 256, 0u);
    Tensor copy{
        dtypeOf(tensor.dtype), {tensor.shape, tensor.shape + tensor.ndim}, {}};
    size_t bytes = tensor.dtype.bits / 8;
    for (int64_t extent : copy.shape)
      bytes *= extent;
    const auto *first = static_cast<const std::byte *>(tensor.data);
    copy.bytes.assign(first, first + bytes);
    tensors[name] = std::move(copy);
    managed->deleter(managed);
  }
  return tensors;
}

struct Case {
  const char *fixture;
  int tp, pp, vpp, ep;
};

/// The key of a row in its file. With virtual stages, here of one layer each,
/// the file has a model for each of them.
std::string keyOf(const Json &row, const Case &sizes) {
  const std::string name = row["name"], key = row.value("key", name);
  if (sizes.vpp == 1)
    return key;
  const std::string layers = "decoder.layers.";
  int model = name.starts_with(layers)
                  ? std::stoi(name.substr(layers.size())) / sizes.pp
              : name.starts_with("embedding.") ? 0
                                               : sizes.vpp - 1;
  return "model" + std::to_string(model) + "." + key;
}

/// What `ls` shows of a rank.
Tensors ofRank(const std::string &checkpoint, const Json &rows,
               const std::string &rank, const Case &sizes) {
  Tensors tensors;
  for (const Json &row : rows)
    if (row["rank"] == rank) {
      const std::string bytes = stored(checkpoint, row);
      Tensor tensor{row["dtype"], row["shape"].get<Extents>(), {}};
      const auto *first = reinterpret_cast<const std::byte *>(bytes.data());
      tensor.bytes.assign(first, first + bytes.size());
      tensors[keyOf(row, sizes)] = std::move(tensor);
    }
  return tensors;
}

class Load : public RankConversion, public testing::WithParamInterface<Case> {};

TEST_P(Load, GivesARankWhatItsFileHolds) {
  const Case &sizes = GetParam();
  model_ = fixture(sizes.fixture);
  std::vector<std::string> layout{"--tp", std::to_string(sizes.tp),
                                  "--pp", std::to_string(sizes.pp),
                                  "--ep", std::to_string(sizes.ep)};
  if (sizes.vpp > 1)
    layout.insert(layout.end(), {"--vpp", std::to_string(sizes.vpp)});
  for (const std::string &option : importOptions(sizes.fixture))
    layout.push_back(option);
  Outcome done = import(layout);
  ASSERT_EQ(done.status, 0) << done.err;
  std::vector<std::string> compile{"compile",  scratch_ / "hf",
                                   "-o",       scratch_ / "plan.mbc",
                                   "--format", "torch"};
  compile.insert(compile.end(), layout.begin(), layout.end());
  done = mbc(compile);
  ASSERT_EQ(done.status, 0) << done.err;
  const Json rows = listing();
  for (int tp = 0; tp != sizes.tp; ++tp)
    for (int pp = 0; pp != sizes.pp; ++pp)
      for (int ep = 0; ep != sizes.ep; ++ep) {
        const std::string rank = "tp" + std::to_string(tp) + ".pp" +
                                 std::to_string(pp) + ".ep" +
                                 std::to_string(ep);
        SCOPED_TRACE(rank);
        Loaded loaded =
            load(scratch_ / "plan.mbc", scratch_ / "hf", onHost(tp, pp, ep));
        ASSERT_TRUE(loaded.tensors) << loaded.error;
        const Tensors expected = ofRank(scratch_ / "mg", rows, rank, sizes);
        ASSERT_FALSE(expected.empty());
        EXPECT_EQ(difference(expected, shared(std::move(loaded))), "");
      }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Load,
                         testing::Values(Case{"llama", 2, 1, 1, 1},
                                         Case{"qwen3_moe", 2, 1, 1, 2},
                                         Case{"exaone4", 1, 2, 2, 1},
                                         Case{"glm5_next", 2, 2, 1, 2},
                                         Case{"deepseek_v3_fp8", 2, 1, 1, 2},
                                         Case{"gpt_oss_mxfp4", 1, 1, 1, 2}),
                         [](const auto &info) { return info.param.fixture; });

class LoadOf : public RankConversion {};

TEST_F(LoadOf, APlanToHuggingFaceGivesItsTensors) {
  model_ = fixture("qwen3_moe");
  ASSERT_EQ(import({"--tp", "2"}).status, 0);
  const Outcome done =
      mbc({"compile", scratch_ / "mg", "-o", scratch_ / "plan.mbc"});
  ASSERT_EQ(done.status, 0) << done.err;
  Loaded loaded = load(scratch_ / "plan.mbc", scratch_ / "mg", onHost());
  ASSERT_TRUE(loaded.tensors) << loaded.error;
  EXPECT_EQ(difference(model_.tensors(), shared(std::move(loaded))), "");
}

TEST_F(LoadOf, WhatCannotBeLoadedIsSaid) {
  model_ = fixture("llama");
  model_.write(scratch_ / "hf");
  for (const char *format : {"torch", "torch_dist"}) {
    const Outcome done = mbc({"compile", scratch_ / "hf", "-o",
                              scratch_ / (std::string(format) + ".mbc"),
                              "--format", format, "--tp", "2"});
    ASSERT_EQ(done.status, 0) << done.err;
  }
  const std::string plan = scratch_ / "torch.mbc", hf = scratch_ / "hf";
  mbc_load_options newer = onHost();
  newer.size += 8;
  const struct {
    std::string plan, source;
    mbc_load_options options;
    std::string said;
  } cases[] = {
      {plan, hf, onHost(2), "no rank tp=2: it was compiled with --tp 2"},
      {plan, hf, onHost(0, 1), "no rank pp=1: it was compiled with --pp 1"},
      {plan, hf, onHost(0, 0, -1), "no rank ep=-1"},
      {plan, hf, newer, "options.size is sizeof(mbc_load_options)"},
      {plan, scratch_ / "nothing", onHost(), "nothing"},
      {scratch_ / "none.mbc", hf, onHost(), "none.mbc"},
      {scratch_ / "torch_dist.mbc", hf, onHost(),
       "compile it with --format torch"},
  };
  for (const auto &bad : cases) {
    Loaded loaded = load(bad.plan, bad.source, bad.options);
    EXPECT_FALSE(loaded.tensors) << bad.said;
    EXPECT_TRUE(loaded.error.contains(bad.said)) << loaded.error;
  }
  EXPECT_EQ(mbc_tensor_count(nullptr), 0u);
  char tooShort[5] = "";
  EXPECT_EQ(mbc_load("none", hf.c_str(), &newer, tooShort, sizeof(tooShort)),
            nullptr);
  EXPECT_EQ(std::string(tooShort), "mbc_");
}

} // namespace
} // namespace mbc::test
