#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

#include <cstring>

#include <fmt/format.h>

namespace mbc::test {

namespace {

/// float32(w) - 1 of a BF16 tensor.
Tensor lessOne(const Tensor &tensor) {
  Tensor result = widened(tensor);
  for (size_t at = 0; at != result.bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, &result.bytes[at], sizeof value);
    value -= 1;
    std::memcpy(&result.bytes[at], &value, sizeof value);
  }
  return result;
}

/// Qwen3-Next and Qwen3.5: gated delta layers and gated attention, a shared
/// expert with a gate.
class QwenHybrid : public Decoder {
public:
  explicit QwenHybrid(const HfModel &model)
      : Decoder(model, {.shared = "mlp.shared_expert."}) {}

private:
  void attention(const std::string &mg, const std::string &hf) override {
    const std::string to = mg + "self_attention.";
    const bool linear = hasTensor(hf + "linear_attn.A_log");
    copy(to + (linear ? "in_proj" : "linear_qkv") + ".layer_norm_weight",
         hf + "input_layernorm.weight");
    linear ? gatedDelta(to, hf + "linear_attn.")
           : gatedAttention(to, hf + "self_attn.");
  }

  /// q_proj: head by head, query rows, then gate rows. Megatron: for each
  /// key/value head its query heads, their gates, its key, its value.
  void gatedAttention(const std::string &mg, const std::string &hf) {
    const int64_t heads = number("num_attention_heads"),
                  groups = number("num_key_value_heads"),
                  d = number("head_dim"), n = heads / groups;
    const Tensor q = get(hf + "q_proj.weight"), k = get(hf + "k_proj.weight"),
                 v = get(hf + "v_proj.weight");
    std::vector<Tensor> parts;
    for (int64_t g = 0; g != groups; ++g) {
      for (int64_t gate : {0, 1})
        for (int64_t head = g * n; head != (g + 1) * n; ++head)
          parts.push_back(
              rows(q, (2 * head + gate) * d, (2 * head + gate + 1) * d));
      parts.push_back(rows(k, g * d, (g + 1) * d));
      parts.push_back(rows(v, g * d, (g + 1) * d));
    }
    Parameter &qkv = put(mg + "linear_qkv.weight", joinRows(parts), Cut::Rows);
    qkv.heads = heads;
    qkv.groups = groups;
    copy(mg + "linear_proj.weight", hf + "o_proj.weight", Cut::Columns);
    copy(mg + "q_layernorm.weight", hf + "q_norm.weight");
    copy(mg + "k_layernorm.weight", hf + "k_norm.weight");
  }

  void gatedDelta(const std::string &mg, const std::string &hf) {
    const int64_t heads = number("linear_num_key_heads"),
                  keys = heads * number("linear_key_head_dim"),
                  values = number("linear_num_value_heads") *
                           number("linear_value_head_dim");
    auto threeOf = [&](const Tensor &flat) {
      return std::vector{rows(flat, 0, keys), rows(flat, keys, 2 * keys),
                         rows(flat, 2 * keys, 2 * keys + values)};
    };
    std::vector<Tensor> parts;
    if (hasTensor(hf + "in_proj_qkvz.weight")) {
      parts = unpacked(get(hf + "in_proj_qkvz.weight"),
                       get(hf + "in_proj_ba.weight"));
    } else {
      parts = threeOf(get(hf + "in_proj_qkv.weight"));
      for (const char *name : {"z", "b", "a"})
        parts.push_back(get(fmt::format("{}in_proj_{}.weight", hf, name)));
    }
    sections(mg + "in_proj.weight", parts).heads = heads;
    sections(mg + "conv1d.weight", threeOf(get(hf + "conv1d.weight")));
    copy(mg + "A_log", hf + "A_log", Cut::Rows);
    copy(mg + "dt_bias", hf + "dt_bias", Cut::Rows);
    put(mg + "out_norm.weight", lessOne(get(hf + "norm.weight")));
    copy(mg + "out_proj.weight", hf + "out_proj.weight", Cut::Columns);
  }

  /// Key head by key head: its query, its key, its m values, their m gates;
  /// and its m betas, then its m alphas. Given as six sections of all heads.
  std::vector<Tensor> unpacked(const Tensor &qkvz, const Tensor &ba) const {
    const int64_t heads = number("linear_num_key_heads"),
                  m = number("linear_num_value_heads") / heads,
                  dk = number("linear_key_head_dim"),
                  values = m * number("linear_value_head_dim"),
                  width = 2 * dk + 2 * values;
    std::vector<std::vector<Tensor>> found(6);
    for (int64_t head = 0; head != heads; ++head) {
      int64_t at = head * width;
      for (size_t section = 0; section != 4; ++section) {
        const int64_t extent = section < 2 ? dk : values;
        found[section].push_back(rows(qkvz, at, at + extent));
        at += extent;
      }
      found[4].push_back(rows(ba, 2 * head * m, (2 * head + 1) * m));
      found[5].push_back(rows(ba, (2 * head + 1) * m, (2 * head + 2) * m));
    }
    std::vector<Tensor> parts;
    for (const std::vector<Tensor> &section : found)
      parts.push_back(joinRows(section));
    return parts;
  }

  void sparseFeedForward(const std::string &mg,
                         const std::string &hf) override {
    Decoder::sparseFeedForward(mg, hf);
    copy(mg + "mlp.shared_experts.gate_weight",
         hf + "mlp.shared_expert_gate.weight");
  }
};

} // namespace

Reference qwenHybridReference(const HfModel &model) {
  return QwenHybrid(model).build();
}

} // namespace mbc::test
