#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

namespace mbc::test {

namespace {

/// Some layers have experts, which are one tensor [E, in, out].
class Llama4 : public Decoder {
public:
  explicit Llama4(const HfModel &model)
      : Decoder(model, {.router = "feed_forward.router.weight",
                        .shared = "feed_forward.shared_expert."}) {}

private:
  void feedForward(const std::string &mg, const std::string &hf) override {
    if (hasTensor(hf + names_.router))
      return sparseFeedForward(mg, hf);
    copy(mg + "mlp.linear_fc1.layer_norm_weight",
         hf + "post_attention_layernorm.weight");
    gated(mg + "mlp.", hf + "feed_forward.");
  }

  void sparseFeedForward(const std::string &mg,
                         const std::string &hf) override {
    copy(mg + "pre_mlp_layernorm.weight",
         hf + "post_attention_layernorm.weight");
    copy(mg + "mlp.router.weight", hf + names_.router);
    gated(mg + "mlp.shared_experts.", hf + names_.shared);
    const Tensor both = get(hf + "feed_forward.experts.gate_up_proj"),
                 down = get(hf + "feed_forward.experts.down_proj");
    for (int64_t e = 0; e != result_.experts; ++e) {
      const Tensor out = transposed(pick(both, e));
      const int64_t width = out.shape[0] / 2;
      putExpert(mg + "mlp.experts.", e,
                {rows(out, 0, width), rows(out, width, 2 * width)},
                transposed(pick(down, e)));
    }
  }
};

} // namespace

Reference llama4Reference(const HfModel &model) {
  return Llama4(model).build();
}

} // namespace mbc::test
