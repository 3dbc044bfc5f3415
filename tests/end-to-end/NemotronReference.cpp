#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

namespace mbc::test {

namespace {

/// Layer norms with biases, feed-forward without a gate.
class Nemotron : public Decoder {
public:
  using Decoder::Decoder;

private:
  void ends() override {
    Decoder::ends();
    copy("decoder.final_layernorm.bias", "model.norm.bias");
  }

  void attention(const std::string &mg, const std::string &hf) override {
    norm(mg + "self_attention.linear_qkv.", hf + "input_layernorm.");
    groupedAttention(mg + "self_attention.", hf + "self_attn.");
  }

  void feedForward(const std::string &mg, const std::string &hf) override {
    norm(mg + "mlp.linear_fc1.", hf + "post_attention_layernorm.");
    copy(mg + "mlp.linear_fc1.weight", hf + "mlp.up_proj.weight", Cut::Rows);
    copy(mg + "mlp.linear_fc2.weight", hf + "mlp.down_proj.weight",
         Cut::Columns);
  }

  void norm(const std::string &mg, const std::string &hf) {
    copy(mg + "layer_norm_weight", hf + "weight");
    copy(mg + "layer_norm_bias", hf + "bias");
  }
};

} // namespace

Reference nemotronReference(const HfModel &model) {
  return Nemotron(model).build();
}

} // namespace mbc::test
