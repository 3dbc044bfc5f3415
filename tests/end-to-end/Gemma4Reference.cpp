#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

namespace mbc::test {

namespace {

/// Layers of two geometries, with values that are copies of the keys, without
/// keys, with inputs of their own; dense, or with experts beside a dense
/// branch.
class Gemma4 : public Decoder {
public:
  explicit Gemma4(const HfModel &model)
      : Decoder(model, {.experts = "experts."}) {
    result_.experts =
        text_["enable_moe_block"] == true ? number("num_experts") : 0;
  }

private:
  void ends() override {
    Decoder::ends();
    if (!hasTensor("model.embed_tokens_per_layer.weight"))
      return;
    const std::pair<const char *, const char *> shared[] = {
        {"per_layer_embedding", "embed_tokens_per_layer"},
        {"per_layer_model_proj", "per_layer_model_projection"},
        {"per_layer_proj_norm", "per_layer_projection_norm"}};
    for (const auto &[mg, hf] : shared)
      copy(std::string(mg) + ".weight", "model." + std::string(hf) + ".weight")
          .everywhereFirst = true;
  }

  void attention(const std::string &mg, const std::string &hf) override {
    const bool full =
        text_["layer_types"][static_cast<size_t>(*layer_)] == "full_attention";
    const bool copied = full && text_["attention_k_eq_v"] == true;
    queriesKeysValues(
        mg + "self_attention.", hf + "self_attn.",
        number(copied ? "num_global_key_value_heads" : "num_key_value_heads"),
        number(full ? "global_head_dim" : "head_dim"), copied);
    copy(mg + "self_attention.linear_proj.weight",
         hf + "self_attn.o_proj.weight", Cut::Columns);
    copy(mg + "self_attention.q_layernorm.weight",
         hf + "self_attn.q_norm.weight");
    copy(mg + "layer_scalar", hf + "layer_scalar");
    if (!hasTensor(hf + "per_layer_input_gate.weight"))
      return;
    for (const std::string name :
         {"per_layer_input_gate.weight", "per_layer_projection.weight",
          "post_per_layer_input_norm.weight"})
      copy(mg + name, hf + name);
  }

  /// Without keys: zeros, and a norm of ones (BF16 0x3F80).
  void queriesKeysValues(const std::string &mg, const std::string &hf,
                         int64_t groups, int64_t d, bool copied) {
    const int64_t heads = number("num_attention_heads"), n = heads / groups;
    const Tensor q = get(hf + "q_proj.weight");
    Tensor k{q.dtype, {groups * d, q.shape[1]}, {}};
    k.bytes.resize(static_cast<size_t>(groups * d * q.shape[1] * 2));
    Tensor norm{q.dtype, {d}, {}};
    for (int64_t at = 0; at != d; ++at)
      norm.bytes.insert(norm.bytes.end(), {std::byte{0x80}, std::byte{0x3F}});
    Tensor v = k;
    if (hasTensor(hf + "k_proj.weight")) {
      k = get(hf + "k_proj.weight");
      v = copied ? k : get(hf + "v_proj.weight");
      norm = get(hf + "k_norm.weight");
    }
    std::vector<Tensor> parts;
    for (int64_t g = 0; g != groups; ++g) {
      parts.push_back(rows(q, g * n * d, (g + 1) * n * d));
      parts.push_back(rows(k, g * d, (g + 1) * d));
      parts.push_back(rows(v, g * d, (g + 1) * d));
    }
    Parameter &qkv = put(mg + "linear_qkv.weight", joinRows(parts), Cut::Rows);
    qkv.heads = heads;
    qkv.groups = groups;
    put(mg + "k_layernorm.weight", norm);
  }

  void feedForward(const std::string &mg, const std::string &hf) override {
    if (result_.experts != 0)
      return sparseFeedForward(mg, hf);
    copy(mg + "input_layernorm.weight", hf + "input_layernorm.weight");
    copy(mg + "post_self_attn_layernorm.weight",
         hf + "post_attention_layernorm.weight");
    copy(mg + "pre_mlp_layernorm.weight",
         hf + "pre_feedforward_layernorm.weight");
    copy(mg + "post_mlp_layernorm.weight",
         hf + "post_feedforward_layernorm.weight");
    gated(mg + "mlp.", hf + "mlp.");
  }

  void sparseFeedForward(const std::string &mg,
                         const std::string &hf) override {
    const std::pair<const char *, const char *> norms[] = {
        {"self_attention.linear_qkv.layer_norm_weight",
         "input_layernorm.weight"},
        {"self_attention.linear_proj.post_layernorm.weight",
         "post_attention_layernorm.weight"},
        {"pre_mlp_layernorm.weight", "pre_feedforward_layernorm_2.weight"},
        {"pre_shared_expert_layernorm.weight",
         "pre_feedforward_layernorm.weight"},
        {"mlp.post_shared_expert_layernorm.weight",
         "post_feedforward_layernorm_1.weight"},
        {"mlp.post_moe_layernorm.weight",
         "post_feedforward_layernorm_2.weight"},
        {"post_ffn_layernorm.weight", "post_feedforward_layernorm.weight"}};
    for (const auto &[to, from] : norms)
      copy(mg + to, hf + from);
    copy(mg + "mlp.router.weight", hf + "router.proj.weight");
    copy(mg + "mlp.router.scale", hf + "router.scale");
    copy(mg + "mlp.router.per_expert_scale", hf + "router.per_expert_scale");
    gated(mg + "mlp.shared_experts.", hf + "mlp.");
    for (int64_t e = 0; e != result_.experts; ++e)
      expert(mg + "mlp.experts.", hf + names_.experts, e);
  }
};

} // namespace

Reference gemma4Reference(const HfModel &model) {
  return Gemma4(model).build();
}

} // namespace mbc::test
