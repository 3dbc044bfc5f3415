#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

namespace mbc::test {

namespace {

/// A Mamba mixer and attention behind one norm in each layer.
class FalconH1 : public Decoder {
public:
  using Decoder::Decoder;

private:
  void ends() override {
    vocabulary("embedding.word_embeddings.weight", "model.embed_tokens.weight")
        .everywhereFirst = true;
    vocabulary("output_layer.weight", "lm_head.weight");
    copy("decoder.final_norm.weight", "model.final_layernorm.weight");
  }

  void attention(const std::string &mg, const std::string &hf) override {
    copy(mg + "norm.weight", hf + "input_layernorm.weight");
    groupedAttention(mg + "self_attention.", hf + "self_attn.");
    mamba(mg + "mamba_mixer.", hf + "mamba.",
          {number("mamba_n_heads"), number("mamba_d_head"),
           number("mamba_n_groups"), number("mamba_d_state")});
  }

  void feedForward(const std::string &mg, const std::string &hf) override {
    copy(mg + "mlp.linear_fc1.layer_norm_weight",
         hf + "pre_ff_layernorm.weight");
    gated(mg + "mlp.", hf + "feed_forward.");
  }
};

} // namespace

Reference falconH1Reference(const HfModel &model) {
  return FalconH1(model).build();
}

} // namespace mbc::test
