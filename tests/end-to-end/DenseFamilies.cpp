#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

#include <fmt/format.h>

// Decoders without experts that differ from the usual one in names or in a
// part.

namespace mbc::test {

namespace {

/// Gate and up projection in one tensor, gate first; norms behind both parts.
struct Glm4 : Decoder {
  using Decoder::Decoder;

  void attention(const std::string &mg, const std::string &hf) override {
    Decoder::attention(mg, hf);
    copy(mg + "post_self_attn_layernorm.weight",
         hf + "post_self_attn_layernorm.weight");
  }

  void denseFeedForward(const std::string &mg, const std::string &hf) override {
    copy(mg + "mlp.linear_fc1.layer_norm_weight",
         hf + "post_attention_layernorm.weight");
    const Tensor both = get(hf + "mlp.gate_up_proj.weight");
    const int64_t width = number("intermediate_size");
    sections(mg + "mlp.linear_fc1.weight",
             {rows(both, 0, width), rows(both, width, 2 * width)});
    copy(mg + "mlp.linear_fc2.weight", hf + "mlp.down_proj.weight",
         Cut::Columns);
    copy(mg + "post_mlp_layernorm.weight", hf + "post_mlp_layernorm.weight");
  }
};

/// Llama under other names, in config.json, too.
struct Llada : Decoder {
  using Decoder::Decoder;

  int64_t layerCount() const override { return number("n_layers"); }
  void ends() override {
    vocabulary("embedding.word_embeddings.weight",
               "model.transformer.wte.weight")
        .everywhereFirst = true;
    copy("decoder.final_layernorm.weight", "model.transformer.ln_f.weight");
    vocabulary("output_layer.weight", "model.transformer.ff_out.weight");
  }
  void layer(int64_t i) override {
    layer_ = i;
    const std::string mg = fmt::format("decoder.layers.{}.", i);
    const std::string hf = fmt::format("model.transformer.blocks.{}.", i);
    copy(mg + "self_attention.linear_qkv.layer_norm_weight",
         hf + "attn_norm.weight");
    grouped(mg + "self_attention.linear_qkv.weight", get(hf + "q_proj.weight"),
            get(hf + "k_proj.weight"), get(hf + "v_proj.weight"),
            number("n_heads"), number("n_kv_heads"));
    copy(mg + "self_attention.linear_proj.weight", hf + "attn_out.weight",
         Cut::Columns);
    copy(mg + "mlp.linear_fc1.layer_norm_weight", hf + "ff_norm.weight");
    sections(mg + "mlp.linear_fc1.weight",
             {get(hf + "ff_proj.weight"), get(hf + "up_proj.weight")});
    copy(mg + "mlp.linear_fc2.weight", hf + "ff_out.weight", Cut::Columns);
  }
};

/// The MTP projection's halves are the other way round.
struct MiMo : Decoder {
  using Decoder::Decoder;

  void mtp(int64_t t, int64_t) override {
    const std::string mg = fmt::format("mtp.layers.{}.", t);
    const std::string hf = fmt::format("model.mtp_layers.{}.", t);
    copy(mg + "enorm.weight", hf + "token_layernorm.weight");
    copy(mg + "hnorm.weight", hf + "hidden_layernorm.weight");
    copy(mg + "final_layernorm.weight", hf + "final_layernorm.weight");
    const Tensor both = transposed(get(hf + "input_proj.weight"));
    const int64_t h = number("hidden_size");
    put(mg + "eh_proj.weight",
        transposed(joinRows({rows(both, h, 2 * h), rows(both, 0, h)})),
        Cut::Rows);
    block(mg + "mtp_model_layer.", hf);
  }
};

/// Layers that differ in their numbers of key/value heads, and may lack a part.
struct NemotronNas : Decoder {
  using Decoder::Decoder;

  void layer(int64_t i) override {
    layer_ = i;
    const std::string mg = fmt::format("decoder.layers.{}.", i);
    const std::string hf = fmt::format("model.layers.{}.", i);
    const std::string to = mg + "self_attention.", from = hf + "self_attn.";
    if (hasTensor(from + "k_proj.weight")) {
      copy(to + "linear_qkv.layer_norm_weight", hf + "input_layernorm.weight");
      const int64_t heads = number("num_attention_heads"),
                    d = number("hidden_size") / heads;
      const Tensor k = get(from + "k_proj.weight");
      grouped(to + "linear_qkv.weight", get(from + "q_proj.weight"), k,
              get(from + "v_proj.weight"), heads, k.shape[0] / d);
      copy(to + "linear_proj.weight", from + "o_proj.weight", Cut::Columns);
    }
    if (hasTensor(hf + "mlp.gate_proj.weight"))
      denseFeedForward(mg, hf);
  }
};

} // namespace

Reference glm4Reference(const HfModel &model) {
  return decoderReference<Glm4>(model);
}
Reference lladaReference(const HfModel &model) {
  return decoderReference<Llada>(model);
}
Reference miMoReference(const HfModel &model) {
  return decoderReference<MiMo>(model);
}
Reference nemotronNasReference(const HfModel &model) {
  return decoderReference<NemotronNas>(model);
}

} // namespace mbc::test
