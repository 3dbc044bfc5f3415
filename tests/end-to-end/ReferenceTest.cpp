#include "tests/end-to-end/Reference.h"
#include "tests/fixtures/Sha256.h"

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

/// The tests' own reference against the answers that other software made.
class ReferenceTest : public testing::TestWithParam<const char *> {
protected:
  const HfModel model_ = fixture(GetParam());
  const Json answers_ = expected(GetParam());
  const Reference reference_ = reference(model_);

  static void expectEqual(const std::string &name, const Tensor &tensor,
                          const std::string &dtype, const Json &shape,
                          const std::string &hash) {
    EXPECT_EQ(tensor.dtype, dtype) << name;
    EXPECT_EQ(Json(tensor.shape), shape) << name;
    EXPECT_EQ(fixtures::sha256(tensor.bytes), hash) << name;
  }
};

TEST_P(ReferenceTest, HasEveryTensor) {
  for (const auto &[name, answer] : answers_["tensors"].items()) {
    ASSERT_TRUE(reference_.parameters.contains(name)) << name;
    expectEqual(name, reference_.whole(name, 1), answer["dtype"],
                answer["shape"], answer["sha256"]);
  }
  EXPECT_EQ(reference_.parameters.size(), answers_["tensors"].size());
  for (const auto &[name, answer] : answers_["vocab_padded_to_128"].items())
    expectEqual(name, reference_.whole(name, 128), answer["dtype"],
                answer["shape"], answer["sha256"]);
}

TEST_P(ReferenceTest, HasEveryRank) {
  size_t compared = 0;
  for (const auto &[key, answer] : answers_["layouts"].items()) {
    const Layout layout{answer["tp"], answer["pp"], answer["ep"],
                        answer["etp"]};
    const int64_t multiple =
        answer.contains("vocab_multiple")
            ? answer["vocab_multiple"].get<int64_t>() * layout.tp
            : 1;
    const bool sequential = key.ends_with("_sequential");
    for (const auto &[rank, tensors] : answer["ranks"].items()) {
      const int64_t s = std::stoll(rank) % layout.ranksPerStage();
      for (const auto &[name, parameter] : reference_.parameters) {
        const std::string spelt = sequential ? sequentialName(name) : name;
        if (!tensors.contains(spelt))
          continue;
        const auto part = reference_.onRank(name, layout, s, multiple);
        ASSERT_TRUE(part) << key << " rank " << rank << " " << name;
        const Json &is = tensors[spelt];
        expectEqual(key + " rank " + rank + " " + spelt, *part, is[0], is[1],
                    is[2]);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0u);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ReferenceTest,
                         testing::Values("llama", "qwen3_moe", "deepseek_v3",
                                         "glm_moe_dsa", "glm_moe_dsa_fp8",
                                         "glm5_next", "glm5_next_fp8"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace mbc::test
