#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

#include <fmt/format.h>

// Families that differ from the usual decoder in names or in one part.

namespace mbc::test {

namespace {

/// The router's bias has an axis of one more.
struct ErnieMoe : Decoder {
  explicit ErnieMoe(const HfModel &model)
      : Decoder(model,
                {.expertBias = "mlp.moe_statics.e_score_correction_bias"}) {}

  void expertBias(const std::string &mg, const std::string &hf) override {
    put(mg, reshaped(get(hf), {result_.experts}));
  }
};

/// MTP layers outside the decoder's, one set of ends.
struct QwenMtp : Decoder {
  explicit QwenMtp(const HfModel &model, DecoderNames names = {})
      : Decoder(model, std::move(names)) {}

  void mtp(int64_t t, int64_t) override {
    copy("mtp.layers.0.enorm.weight", "mtp.pre_fc_norm_embedding.weight");
    copy("mtp.layers.0.hnorm.weight", "mtp.pre_fc_norm_hidden.weight");
    copy("mtp.layers.0.eh_proj.weight", "mtp.fc.weight", Cut::Rows);
    copy("mtp.layers.0.final_layernorm.weight", "mtp.norm.weight");
    block(fmt::format("mtp.layers.{}.mtp_model_layer.", t),
          fmt::format("mtp.layers.{}.", t));
  }
};

struct ExaoneMoe : QwenMtp {
  explicit ExaoneMoe(const HfModel &model)
      : QwenMtp(model, {.expertBias = "mlp.e_score_correction_bias"}) {}
};

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

/// Biases everywhere, sinks; the experts' matrices lie transposed, and their
/// gate and up columns alternate.
struct GptOss : Decoder {
  explicit GptOss(const HfModel &model)
      : Decoder(model, {.router = "mlp.router.weight"}) {}

  void attention(const std::string &mg, const std::string &hf) override {
    Decoder::attention(mg, hf);
    copy(mg + "self_attention.linear_proj.bias", hf + "self_attn.o_proj.bias");
    copy(mg + "self_attention.core_attention.softmax_offset",
         hf + "self_attn.sinks", Cut::Rows);
    copy(mg + "mlp.router.bias", hf + "mlp.router.bias");
  }

  void expert(const std::string &mg, const std::string &hf,
              int64_t e) override {
    const Tensor columns = transposed(pick(get(hf + "gate_up_proj"), e));
    putExpert(mg, e, {everyRow(columns, 0, 2), everyRow(columns, 1, 2)},
              transposed(pick(get(hf + "down_proj"), e)));
    const Tensor bias = pick(get(hf + "gate_up_proj_bias"), e);
    sections(fmt::format("{}linear_fc1.bias{}", mg, e),
             {everyRow(bias, 0, 2), everyRow(bias, 1, 2)})
        .expert = e;
    put(fmt::format("{}linear_fc2.bias{}", mg, e),
        pick(get(hf + "down_proj_bias"), e))
        .expert = e;
  }
};

struct Hunyuan : Decoder {
  explicit Hunyuan(const HfModel &model)
      : Decoder(model, {.router = "mlp.router.gate.weight",
                        .expertBias = "mlp.expert_bias",
                        .shared = "mlp.shared_mlp.",
                        .mtpFinalNorm = "final_layernorm.weight"}) {}
};

/// Norms of queries and keys span all heads.
struct MiniMax : Decoder {
  explicit MiniMax(const HfModel &model)
      : Decoder(model,
                {.router = "block_sparse_moe.gate.weight",
                 .expertBias = "block_sparse_moe.e_score_correction_bias",
                 .experts = "block_sparse_moe.experts.",
                 .gate = "w1",
                 .up = "w3",
                 .down = "w2"}) {}

  void qkNorms(const std::string &mg, const std::string &hf) override {
    copy(mg + "q_layernorm.weight", hf + "q_norm.weight", Cut::Rows).heads =
        number("num_attention_heads");
    copy(mg + "k_layernorm.weight", hf + "k_norm.weight", Cut::Rows).heads =
        number("num_key_value_heads");
  }
};

struct Mixtral : Decoder {
  explicit Mixtral(const HfModel &model)
      : Decoder(model, {.router = "block_sparse_moe.gate.weight",
                        .experts = "block_sparse_moe.experts.",
                        .gate = "w1",
                        .up = "w3",
                        .down = "w2"}) {}
};

/// A shared expert with a gate.
struct Qwen2Moe : Decoder {
  explicit Qwen2Moe(const HfModel &model)
      : Decoder(model, {.shared = "mlp.shared_expert."}) {}

  void layer(int64_t i) override {
    Decoder::layer(i);
    const std::string gate =
        fmt::format("model.layers.{}.mlp.shared_expert_gate.weight", i);
    if (hasTensor(gate))
      copy(fmt::format("decoder.layers.{}.mlp.shared_experts.gate_weight", i),
           gate);
  }
};

} // namespace

Reference ernieMoeReference(const HfModel &model) {
  return decoderReference<ErnieMoe>(model);
}
Reference exaoneMoeReference(const HfModel &model) {
  return decoderReference<ExaoneMoe>(model);
}
Reference glm4Reference(const HfModel &model) {
  return decoderReference<Glm4>(model);
}
Reference gptOssReference(const HfModel &model) {
  return decoderReference<GptOss>(model);
}
Reference hunyuanReference(const HfModel &model) {
  return decoderReference<Hunyuan>(model);
}
Reference miniMaxReference(const HfModel &model) {
  return decoderReference<MiniMax>(model);
}
Reference mixtralReference(const HfModel &model) {
  return decoderReference<Mixtral>(model);
}
Reference qwen2MoeReference(const HfModel &model) {
  return decoderReference<Qwen2Moe>(model);
}
Reference qwen3Reference(const HfModel &model) {
  return decoderReference<QwenMtp>(model);
}

} // namespace mbc::test
