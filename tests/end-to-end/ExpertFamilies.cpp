#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

// The same with experts.

namespace mbc::test {

namespace {

/// Query, key and value projection in one tensor, one after the other.
struct Bailing : Decoder {
  explicit Bailing(const HfModel &model)
      : Decoder(model, {.expertBias = "mlp.gate.expert_bias",
                        .mtpFinalNorm = "final_layernorm.weight",
                        .embedding = "word_embeddings"}) {}

  void attention(const std::string &mg, const std::string &hf) override {
    const std::string to = mg + "self_attention.", from = hf + "attention.";
    copy(to + "linear_qkv.layer_norm_weight", hf + "input_layernorm.weight");
    const int64_t heads = number("num_attention_heads"),
                  groups = number("num_key_value_heads"),
                  d = number("head_dim");
    const Tensor flat = get(from + "query_key_value.weight");
    const int64_t k = heads * d, v = k + groups * d;
    grouped(to + "linear_qkv.weight", rows(flat, 0, k), rows(flat, k, v),
            rows(flat, v, v + groups * d), heads, groups);
    copy(to + "linear_proj.weight", from + "dense.weight", Cut::Columns);
    copy(to + "q_layernorm.weight", from + "query_layernorm.weight");
    copy(to + "k_layernorm.weight", from + "key_layernorm.weight");
  }
};

/// The router's bias has an axis of one more.
struct ErnieMoe : Decoder {
  explicit ErnieMoe(const HfModel &model)
      : Decoder(model,
                {.expertBias = "mlp.moe_statics.e_score_correction_bias"}) {}

  void expertBias(const std::string &mg, const std::string &hf) override {
    put(mg, reshaped(get(hf), {result_.experts}));
  }
};

struct ExaoneMoe : Decoder {
  explicit ExaoneMoe(const HfModel &model)
      : Decoder(model, {.expertBias = "mlp.e_score_correction_bias"}) {}
};

/// Biases everywhere, sinks; the experts' matrices lie transposed unless they
/// were quantised, and their gate and up columns alternate.
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

  /// Expert e of [E, in, out] or [E, out, in] as [out, in].
  static Tensor byRows(const Tensor &experts, int64_t e, int64_t in,
                       int64_t out) {
    EXPECT_NE(in, out) << "a square matrix does not say which way round it is";
    const Tensor one = pick(experts, e);
    return one.shape[0] == in ? transposed(one) : one;
  }

  void expert(const std::string &mg, const std::string &hf,
              int64_t e) override {
    const int64_t h = number("hidden_size"), I = number("intermediate_size");
    const Tensor both = byRows(get(hf + "gate_up_proj"), e, h, 2 * I);
    putExpert(mg, e, {everyRow(both, 0, 2), everyRow(both, 1, 2)},
              byRows(get(hf + "down_proj"), e, I, h));
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

/// Key/value heads by the layer's kind, values of another width, sinks.
struct MiMoV2 : Decoder {
  using Decoder::Decoder;

  void attention(const std::string &mg, const std::string &hf) override {
    const std::string to = mg + "self_attention.", from = hf + "self_attn.";
    copy(to + "linear_qkv.layer_norm_weight", hf + "input_layernorm.weight");
    const Tensor k = get(from + "k_proj.weight");
    grouped(to + "linear_qkv.weight", get(from + "q_proj.weight"), k,
            get(from + "v_proj.weight"), number("num_attention_heads"),
            k.shape[0] / number("head_dim"));
    copy(to + "linear_proj.weight", from + "o_proj.weight", Cut::Columns);
    if (hasTensor(from + "attention_sink_bias"))
      copy(to + "core_attention.softmax_offset", from + "attention_sink_bias",
           Cut::Rows);
  }
  void mtp(int64_t t, int64_t) override {
    const std::string mg = fmt::format("mtp.layers.{}.", t);
    const std::string hf = fmt::format("model.mtp.layers.{}.", t);
    for (const char *name : {"enorm", "hnorm", "final_layernorm"})
      copy(fmt::format("{}{}.weight", mg, name),
           fmt::format("{}{}.weight", hf, name));
    copy(mg + "eh_proj.weight", hf + "eh_proj.weight", Cut::Rows);
    const std::string layer = mg + "mtp_model_layer.";
    attention(layer, hf);
    copy(layer + "mlp.linear_fc1.layer_norm_weight",
         hf + "pre_mlp_layernorm.weight");
    gated(layer + "mlp.", hf + "mlp.");
  }
};

/// Norms of queries and keys span all heads.
struct MiniMax : Decoder {
  explicit MiniMax(const HfModel &model) : Decoder(model, blockSparseNames()) {}

  void qkNorms(const std::string &mg, const std::string &hf) override {
    copy(mg + "q_layernorm.weight", hf + "q_norm.weight", Cut::Rows).heads =
        number("num_attention_heads");
    copy(mg + "k_layernorm.weight", hf + "k_norm.weight", Cut::Rows).heads =
        number("num_key_value_heads");
  }
};

struct Mixtral : Decoder {
  explicit Mixtral(const HfModel &model) : Decoder(model, blockSparseNames()) {}
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

/// The gates' rows follow the fused projection; stacked experts beside the
/// shared one; sliding layers have heads of their own.
struct Step : Decoder {
  explicit Step(const HfModel &model)
      : Decoder(model,
                {.router = "moe.gate.weight",
                 .expertBias = "moe.router_bias",
                 .experts = "moe.",
                 .shared = "share_expert.",
                 .mtpFinalNorm = "transformer.shared_head.norm.weight"}) {}

  void attention(const std::string &mg, const std::string &hf) override {
    const std::string to = mg + "self_attention.", from = hf + "self_attn.";
    copy(to + "linear_qkv.layer_norm_weight", hf + "input_layernorm.weight");
    const Tensor q = get(from + "q_proj.weight"),
                 k = get(from + "k_proj.weight"),
                 gate = get(from + "g_proj.weight");
    const int64_t heads = gate.shape[0],
                  groups = heads * k.shape[0] / q.shape[0];
    Parameter &qkv = grouped(to + "linear_qkv.weight", q, k,
                             get(from + "v_proj.weight"), heads, groups);
    qkv.whole = joinRows({qkv.whole, gate});
    copy(to + "linear_proj.weight", from + "o_proj.weight", Cut::Columns);
    qkNorms(to, from);
  }
  void expert(const std::string &mg, const std::string &hf,
              int64_t e) override {
    putExpert(mg, e,
              {pick(get(hf + "gate_proj.weight"), e),
               pick(get(hf + "up_proj.weight"), e)},
              pick(get(hf + "down_proj.weight"), e));
  }
};

} // namespace

Reference bailingReference(const HfModel &model) {
  return decoderReference<Bailing>(model);
}
Reference ernieMoeReference(const HfModel &model) {
  return decoderReference<ErnieMoe>(model);
}
Reference exaoneMoeReference(const HfModel &model) {
  return decoderReference<ExaoneMoe>(model);
}
Reference gptOssReference(const HfModel &model) {
  return decoderReference<GptOss>(model);
}
Reference hunyuanReference(const HfModel &model) {
  return decoderReference<Hunyuan>(model);
}
Reference miMoV2Reference(const HfModel &model) {
  return decoderReference<MiMoV2>(model);
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
Reference stepReference(const HfModel &model) {
  return decoderReference<Step>(model);
}

} // namespace mbc::test
