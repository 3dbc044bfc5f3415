#include "tests/end-to-end/Reference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mbc::test {

namespace {

/// Builds the parameters of one model. Paths: `hf` and `mg` are what all names
/// of the current layer begin with.
class Builder {
public:
  explicit Builder(const HfModel &model)
      : text_(textConfig(model.config)), type_(model.config["model_type"]),
        tensors_(model.tensors()) {
    hybrid_ = type_ == "glm5_next";
    hfRoot_ = hybrid_ ? "model.language_model." : "model.";
    mgRoot_ = hybrid_ ? "language_model." : "";
    for (const char *field : {"n_routed_experts", "num_local_experts"})
      if (has(field))
        result_.experts = number(field);
  }

  Reference build() {
    ends();
    const int64_t layers = number("num_hidden_layers");
    for (int64_t i = 0; i != layers; ++i)
      hybrid_ ? hybridLayer(i) : layer(i);
    const int64_t depths = has("num_nextn_predict_layers")
                               ? number("num_nextn_predict_layers")
                               : 0;
    for (int64_t t = 0; t != depths; ++t)
      mtp(t, layers + t);
    for (const auto &[name, tensor] : tensors_)
      if (name.starts_with("model.visual."))
        put(name.substr(6), tensor).everywhereFirst = true;
    return std::move(result_);
  }

private:
  bool has(const char *field) const {
    return text_.contains(field) && !text_[field].is_null();
  }
  int64_t number(const char *field) const { return text_.at(field); }

  /// A source tensor, dequantised if it has a scale.
  Tensor get(const std::string &name) const {
    auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      ADD_FAILURE() << "the reference looks for " << name;
      return {"BF16", {1, 1}, std::vector<std::byte>(2)};
    }
    auto scale = tensors_.find(name + "_scale_inv");
    return scale == tensors_.end() ? found->second
                                   : dequantised(found->second, scale->second);
  }
  Parameter &put(const std::string &name, Tensor whole, Cut cut = Cut::None) {
    Parameter &parameter = result_.parameters[name];
    parameter.whole = std::move(whole);
    parameter.cut = cut;
    parameter.layer = layer_;
    return parameter;
  }
  void copy(const std::string &mg, const std::string &hf, Cut cut = Cut::None) {
    put(mg, get(hf), cut);
  }
  /// Sections one below the other, each cut on its own.
  Parameter &sections(const std::string &mg, const std::vector<Tensor> &parts) {
    Parameter &parameter = put(mg, joinRows(parts), Cut::Sections);
    for (const Tensor &part : parts)
      parameter.sections.push_back(part.shape[0]);
    return parameter;
  }

  void ends() {
    const std::string embedding = mgRoot_ + "embedding.word_embeddings.weight";
    copy(embedding, hfRoot_ + "embed_tokens.weight", Cut::Rows);
    result_.parameters[embedding].everywhereFirst = true;
    result_.vocabulary.insert(embedding);
    copy(mgRoot_ + (hybrid_ ? "decoder.final_norm.weight"
                            : "decoder.final_layernorm.weight"),
         hfRoot_ + "norm.weight");
    if (has("tie_word_embeddings") && text_["tie_word_embeddings"] == true)
      return;
    copy(mgRoot_ + "output_layer.weight", "lm_head.weight", Cut::Rows);
    result_.vocabulary.insert(mgRoot_ + "output_layer.weight");
  }

  bool sparse(int64_t i) const {
    if (has("mlp_layer_types") &&
        i < static_cast<int64_t>(text_["mlp_layer_types"].size()))
      return text_["mlp_layer_types"][static_cast<size_t>(i)] == "sparse";
    return result_.experts != 0 && (!has("first_k_dense_replace") ||
                                    i >= number("first_k_dense_replace"));
  }

  void layer(int64_t i) {
    layer_ = i;
    block(fmt::format("decoder.layers.{}.", i),
          fmt::format("model.layers.{}.", i), sparse(i));
    layer_.reset();
  }

  void block(const std::string &mg, const std::string &hf, bool isSparse) {
    if (has("kv_lora_rank")) {
      copy(mg + "input_layernorm.weight", hf + "input_layernorm.weight");
      latentAttention(mg + "self_attention.", hf + "self_attn.");
    } else {
      copy(mg + "self_attention.linear_qkv.layer_norm_weight",
           hf + "input_layernorm.weight");
      groupedAttention(mg + "self_attention.", hf + "self_attn.");
    }
    isSparse ? sparseFeedForward(mg, hf) : denseFeedForward(mg, hf);
  }

  /// For each key/value head: the query heads that share it, then its key,
  /// then its value.
  void groupedAttention(const std::string &mg, const std::string &hf) {
    const int64_t heads = number("num_attention_heads");
    const int64_t groups = number("num_key_value_heads");
    for (const char *kind : {"weight", "bias"}) {
      if (!tensors_.contains(hf + "q_proj." + kind))
        continue;
      const Tensor q = get(hf + "q_proj." + kind),
                   k = get(hf + "k_proj." + kind),
                   v = get(hf + "v_proj." + kind);
      const int64_t d = k.shape[0] / groups, n = heads / groups * d;
      std::vector<Tensor> parts;
      for (int64_t g = 0; g != groups; ++g) {
        parts.push_back(rows(q, g * n, (g + 1) * n));
        parts.push_back(rows(k, g * d, (g + 1) * d));
        parts.push_back(rows(v, g * d, (g + 1) * d));
      }
      put(mg + "linear_qkv." + kind, joinRows(parts), Cut::Rows);
    }
    copy(mg + "linear_proj.weight", hf + "o_proj.weight", Cut::Columns);
    if (tensors_.contains(hf + "q_norm.weight")) {
      copy(mg + "q_layernorm.weight", hf + "q_norm.weight");
      copy(mg + "k_layernorm.weight", hf + "k_norm.weight");
    }
  }

  void latentAttention(const std::string &mg, const std::string &hf) {
    const bool fused = type_ == "deepseek_v3"; // the norm sits in the linear
    copy(mg + "linear_q_down_proj.weight", hf + "q_a_proj.weight");
    copy(mg + "linear_q_up_proj.weight", hf + "q_b_proj.weight", Cut::Rows);
    copy(mg + (fused ? "linear_q_up_proj.layer_norm_weight"
                     : "q_layernorm.weight"),
         hf + "q_a_layernorm.weight");
    copy(mg + "linear_kv_down_proj.weight", hf + "kv_a_proj_with_mqa.weight");
    copy(mg + "linear_kv_up_proj.weight", hf + "kv_b_proj.weight", Cut::Rows);
    copy(mg + (fused ? "linear_kv_up_proj.layer_norm_weight"
                     : "kv_layernorm.weight"),
         hf + "kv_a_layernorm.weight");
    copy(mg + "linear_proj.weight", hf + "o_proj.weight", Cut::Columns);
    if (fused)
      return;
    const std::string to = mg + "core_attention.indexer.",
                      from = hf + "indexer.";
    copy(to + "linear_wq_b.weight", from + "wq_b.weight");
    copy(to + "linear_wk.weight", from + "wk.weight");
    copy(to + "k_norm.weight", from + "k_norm.weight");
    copy(to + "k_norm.bias", from + "k_norm.bias");
    copy(to + "linear_weights_proj.weight", from + "weights_proj.weight");
    if (hybrid_)
      for (const char *name :
           {"index_kpool_compress_ape", "index_kpool_compress_gate"})
        copy(to + name, from + name);
  }

  void denseFeedForward(const std::string &mg, const std::string &hf) {
    copy(mg + "mlp.linear_fc1.layer_norm_weight",
         hf + "post_attention_layernorm.weight");
    gated(mg + "mlp.", hf + "mlp.");
  }

  void gated(const std::string &mg, const std::string &hf) {
    sections(mg + "linear_fc1.weight",
             {get(hf + "gate_proj.weight"), get(hf + "up_proj.weight")});
    copy(mg + "linear_fc2.weight", hf + "down_proj.weight", Cut::Columns);
  }

  void sparseFeedForward(const std::string &mg, const std::string &hf) {
    copy(mg + "pre_mlp_layernorm.weight",
         hf + "post_attention_layernorm.weight");
    copy(mg + "mlp.router.weight", hf + "mlp.gate.weight");
    if (tensors_.contains(hf + "mlp.gate.e_score_correction_bias"))
      copy(mg + "mlp.router.expert_bias",
           hf + "mlp.gate.e_score_correction_bias");
    if (has("n_shared_experts"))
      gated(mg + "mlp.shared_experts.", hf + "mlp.shared_experts.");
    for (int64_t e = 0; e != result_.experts; ++e)
      expert(mg + "mlp.experts.", hf + "mlp.experts.", e);
  }

  void expert(const std::string &mg, const std::string &hf, int64_t e) {
    std::vector<Tensor> halves;
    Tensor down;
    if (tensors_.contains(hf + "gate_up_proj")) {
      const Tensor both = pick(get(hf + "gate_up_proj"), e);
      const int64_t width = both.shape[0] / 2;
      halves = {rows(both, 0, width), rows(both, width, 2 * width)};
      down = pick(get(hf + "down_proj"), e);
    } else {
      const std::string from = fmt::format("{}{}.", hf, e);
      halves = {get(from + "gate_proj.weight"), get(from + "up_proj.weight")};
      down = get(from + "down_proj.weight");
    }
    sections(fmt::format("{}linear_fc1.weight{}", mg, e), halves).expert = e;
    put(fmt::format("{}linear_fc2.weight{}", mg, e), down, Cut::Columns)
        .expert = e;
  }

  void mtp(int64_t t, int64_t i) {
    const std::string mg = fmt::format("{}mtp.layers.{}.", mgRoot_, t);
    const std::string hf = fmt::format("{}layers.{}.", hfRoot_, i);
    copy(mg + "enorm.weight", hf + "enorm.weight");
    copy(mg + "hnorm.weight", hf + "hnorm.weight");
    copy(mg + "final_layernorm.weight", hf + "shared_head.norm.weight");
    if (!hybrid_) {
      copy(mg + "eh_proj.weight", hf + "eh_proj.weight", Cut::Rows);
      block(mg + "mtp_model_layer.", hf, true);
      return;
    }
    const Tensor both = get(hf + "eh_proj.weight");
    const int64_t h = number("hidden_size");
    put(mg + "e_proj.weight", columns(both, 0, h), Cut::Rows);
    put(mg + "h_proj.weight", columns(both, h, 2 * h), Cut::Rows);
    const std::string inner = mg + "mtp_model_layer.layers.";
    copy(inner + "0.inner_layer.input_layernorm.weight",
         hf + "input_layernorm.weight");
    latentAttention(inner + "0.inner_layer.self_attention.", hf + "self_attn.");
    sparseFeedForward(inner + "1.inner_layer.", hf);
  }

  /// One Hugging Face block is two physical layers: attention, feed-forward.
  void hybridLayer(int64_t i) {
    const std::string hf = fmt::format("{}layers.{}.", hfRoot_, i);
    auto physical = [&](int64_t p) {
      layer_ = p;
      return fmt::format("{}decoder.layers.{}.", mgRoot_, p);
    };
    std::string mg = physical(2 * i);
    hyperConnection(mg, hf + "hc_attn_");
    copy(mg + "inner_layer.input_layernorm.weight",
         hf + "input_layernorm.weight");
    const bool linear =
        text_["layer_types"][static_cast<size_t>(i)] == "linear_attention";
    const std::string attention = mg + "inner_layer.self_attention.";
    linear ? linearAttention(attention, hf + "self_attn.")
           : latentAttention(attention, hf + "self_attn.");
    mg = physical(2 * i + 1);
    hyperConnection(mg, hf + "hc_ffn_");
    sparse(i) ? sparseFeedForward(mg + "inner_layer.", hf)
              : denseFeedForward(mg + "inner_layer.", hf);
    layer_.reset();
  }

  void hyperConnection(const std::string &mg, const std::string &hf) {
    const std::string to = mg + "hyper_connection.";
    put(to + "mapping_proj.weight", widened(get(hf + "fn")));
    copy(to + "bias", hf + "base");
    const Tensor scale = get(hf + "scale");
    put(to + "alpha_pre", rows(scale, 0, 1));
    put(to + "alpha_post", rows(scale, 1, 2));
    put(to + "alpha_res", rows(scale, 2, 3));
  }

  void linearAttention(const std::string &mg, const std::string &hf) {
    auto three = [&](const char *tail) {
      return std::vector{get(hf + "q_" + tail), get(hf + "k_" + tail),
                         get(hf + "v_" + tail)};
    };
    sections(mg + "in_proj.weight", three("proj.weight"));
    sections(mg + "conv1d.weight", three("conv1d.weight"));
    copy(mg + "beta_proj.weight", hf + "b_proj.weight", Cut::Rows);
    copy(mg + "f_a_proj.weight", hf + "f_a_proj.weight");
    copy(mg + "f_b_proj.weight", hf + "f_b_proj.weight", Cut::Rows);
    copy(mg + "g_a_proj.weight", hf + "g_a_proj.weight");
    copy(mg + "g_b_proj.weight", hf + "g_b_proj.weight", Cut::Rows);
    copy(mg + "A_log", hf + "A_log", Cut::Rows);
    copy(mg + "dt_bias", hf + "dt_bias", Cut::Rows);
    copy(mg + "out_norm.weight", hf + "o_norm.weight");
    copy(mg + "out_proj.weight", hf + "o_proj.weight", Cut::Columns);
  }

  const Json &text_;
  const std::string type_;
  const Tensors tensors_;
  bool hybrid_ = false;
  std::string hfRoot_, mgRoot_;
  std::optional<int64_t> layer_;
  Reference result_;
};

} // namespace

Reference reference(const HfModel &model) { return Builder(model).build(); }

} // namespace mbc::test
