#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

namespace mbc::test {

namespace {

/// Gemma 2 and 3 have norms before and behind attention and feed-forward,
/// EXAONE 4 behind them only.
class PostNorm : public Decoder {
public:
  using Decoder::Decoder;

private:
  void attention(const std::string &mg, const std::string &hf) override {
    if (hasTensor(hf + "input_layernorm.weight"))
      copy(mg + "self_attention.linear_qkv.layer_norm_weight",
           hf + "input_layernorm.weight");
    groupedAttention(mg + "self_attention.", hf + "self_attn.");
    copy(mg + "self_attention.linear_proj.post_layernorm.weight",
         hf + "post_attention_layernorm.weight");
  }

  void feedForward(const std::string &mg, const std::string &hf) override {
    if (hasTensor(hf + "pre_feedforward_layernorm.weight"))
      copy(mg + "mlp.linear_fc1.layer_norm_weight",
           hf + "pre_feedforward_layernorm.weight");
    gated(mg + "mlp.", hf + "mlp.");
    copy(mg + "mlp.linear_fc2.post_layernorm.weight",
         hf + "post_feedforward_layernorm.weight");
  }
};

} // namespace

Reference postNormReference(const HfModel &model) {
  return PostNorm(model).build();
}

} // namespace mbc::test
