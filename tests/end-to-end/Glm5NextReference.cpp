#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

#include <fmt/format.h>

namespace mbc::test {

namespace {

/// What all Megatron models of it share.
class Glm5NextParts : public Decoder {
protected:
  explicit Glm5NextParts(const HfModel &model) : Decoder(model) {
    hfRoot_ = "model.language_model.";
  }

  void vision() {
    for (const auto &[name, tensor] : tensors_)
      if (name.starts_with("model.visual."))
        put(name.substr(6), tensor).everywhereFirst = true;
  }

  bool isLinear(int64_t i) const {
    return text_["layer_types"][static_cast<size_t>(i)] == "linear_attention";
  }

  void mtpEnds(const std::string &mg, const std::string &hf) {
    copy(mg + "enorm.weight", hf + "enorm.weight");
    copy(mg + "hnorm.weight", hf + "hnorm.weight");
    copy(mg + "final_layernorm.weight", hf + "shared_head.norm.weight");
    const Tensor both = get(hf + "eh_proj.weight");
    const int64_t h = number("hidden_size");
    put(mg + "e_proj.weight", columns(both, 0, h), Cut::Rows);
    put(mg + "h_proj.weight", columns(both, h, 2 * h), Cut::Rows);
  }

  void indexer(const std::string &mg, const std::string &hf) override {
    Decoder::indexer(mg, hf);
    pooling(mg, hf);
  }

  void pooling(const std::string &mg, const std::string &hf) {
    for (const char *name :
         {"index_kpool_compress_ape", "index_kpool_compress_gate"})
      copy(mg + name, hf + name);
  }

  void streams(const std::string &mg, const std::string &hf) {
    put(mg + "mapping_proj.weight", widened(get(hf + "fn")));
    copy(mg + "bias", hf + "base");
    alphas(mg, get(hf + "scale"));
  }

  /// The three projections or convolutions.
  std::vector<Tensor> three(const std::string &hf, const char *tail) const {
    return {get(hf + "q_" + tail), get(hf + "k_" + tail),
            get(hf + "v_" + tail)};
  }

  void linearAttention(const std::string &mg, const std::string &hf) {
    sections(mg + "in_proj.weight", three(hf, "proj.weight")).heads =
        number("linear_num_heads");
    sections(mg + "conv1d.weight", three(hf, "conv1d.weight"));
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
};

/// A HybridModel: a Hugging Face block is two physical layers.
class Glm5Next : public Glm5NextParts {
public:
  explicit Glm5Next(const HfModel &model) : Glm5NextParts(model) {
    mgRoot_ = "language_model.";
    finalNorm_ = "decoder.final_norm.weight";
  }

  Reference build() {
    vision();
    return Decoder::build();
  }

private:
  void layer(int64_t i) override {
    const std::string hf = fmt::format("{}layers.{}.", hfRoot_, i);
    auto physical = [&](int64_t p) {
      layer_ = p;
      return fmt::format("{}decoder.layers.{}.", mgRoot_, p);
    };
    std::string mg = physical(2 * i);
    streams(mg + "hyper_connection.", hf + "hc_attn_");
    copy(mg + "inner_layer.input_layernorm.weight",
         hf + "input_layernorm.weight");
    const std::string attention = mg + "inner_layer.self_attention.";
    isLinear(i) ? linearAttention(attention, hf + "self_attn.")
                : latentAttention(attention, hf + "self_attn.");
    mg = physical(2 * i + 1);
    streams(mg + "hyper_connection.", hf + "hc_ffn_");
    feedForward(mg + "inner_layer.", hf);
  }

  void mtp(int64_t t, int64_t i) override {
    const std::string mg = fmt::format("{}mtp.layers.{}.", mgRoot_, t);
    const std::string hf = fmt::format("{}layers.{}.", hfRoot_, i);
    mtpEnds(mg, hf);
    const std::string inner = mg + "mtp_model_layer.layers.";
    copy(inner + "0.inner_layer.input_layernorm.weight",
         hf + "input_layernorm.weight");
    latentAttention(inner + "0.inner_layer.self_attention.", hf + "self_attn.");
    feedForward(inner + "1.inner_layer.", hf);
  }
};

/// A GPTModel: one layer for each of Hugging Face's.
class Glm5NextGpt : public Glm5NextParts {
public:
  Glm5NextGpt(const HfModel &model, Glm5NextPort port, bool fusedNorms)
      : Glm5NextParts(model), port_(port), fusedNorms_(fusedNorms) {
    if (isBridge())
      mgRoot_ = "language_model.";
  }

  Reference build() {
    if (isBridge())
      vision();
    return Decoder::build();
  }

private:
  bool isBridge() const { return port_ == Glm5NextPort::Bridge; }

  void layer(int64_t i) override {
    layer_ = i;
    const std::string mg = fmt::format("{}decoder.layers.{}.", mgRoot_, i),
                      hf = fmt::format("{}layers.{}.", hfRoot_, i),
                      to = mg + "self_attention.", from = hf + "self_attn.";
    streams(mg + "self_attention_hyper_connection.", hf + "hc_attn_");
    streams(mg + "mlp_hyper_connection.", hf + "hc_ffn_");
    copy(mg + "input_layernorm.weight", hf + "input_layernorm.weight");
    if (!isLinear(i))
      sparseAttention(to, from);
    else if (isBridge())
      linearAttention(to, from);
    else if (port_ == Glm5NextPort::Skyrl)
      namedAsInHf(to, from);
    else
      joinedConvolution(to + "kda.", from);
    feedForward(mg, hf);
  }

  void mtp(int64_t t, int64_t i) override {
    if (!isBridge())
      return;
    const std::string mg = fmt::format("{}mtp.layers.{}.", mgRoot_, t),
                      hf = fmt::format("{}layers.{}.", hfRoot_, i),
                      inner = mg + "mtp_model_layer.";
    mtpEnds(mg, hf);
    copy(inner + "input_layernorm.weight", hf + "input_layernorm.weight");
    sparseAttention(inner + "self_attention.", hf + "self_attn.");
    feedForward(inner, hf);
  }

  /// Latent attention puts norms beside an indexer alone.
  void sparseAttention(const std::string &mg, const std::string &hf) {
    latentAttention(mg, hf);
    if (!fusedNorms_)
      return;
    for (const auto &[alone, up] :
         {std::pair{"q_layernorm.weight", "linear_q_up_proj."},
          {"kv_layernorm.weight", "linear_kv_up_proj."}}) {
      auto norm = result_.parameters.extract(mg + alone);
      norm.key() = mg + up + "layer_norm_weight";
      result_.parameters.insert(std::move(norm));
    }
  }

  void indexer(const std::string &mg, const std::string &hf) override {
    if (isBridge() || port_ == Glm5NextPort::Skyrl)
      return Glm5NextParts::indexer(mg, hf);
    const std::string inside = "core_attention.indexer.";
    const std::string to = mg.substr(0, mg.size() - inside.size());
    for (const char *name : {"wq_b.weight", "wk.weight", "k_norm.weight",
                             "k_norm.bias", "weights_proj.weight"})
      copy(to + name, hf + name);
    pooling(to, hf);
  }

  /// All of linear attention but the convolutions.
  void projections(const std::string &mg, const std::string &hf) {
    for (const char *name :
         {"q_proj.weight", "k_proj.weight", "v_proj.weight", "b_proj.weight",
          "f_b_proj.weight", "g_b_proj.weight", "A_log", "dt_bias"})
      copy(mg + name, hf + name, Cut::Rows);
    for (const char *name :
         {"f_a_proj.weight", "g_a_proj.weight", "o_norm.weight"})
      copy(mg + name, hf + name);
    copy(mg + "o_proj.weight", hf + "o_proj.weight", Cut::Columns);
  }

  void namedAsInHf(const std::string &mg, const std::string &hf) {
    projections(mg, hf);
    for (const char *name :
         {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"})
      copy(mg + name, hf + name, Cut::Rows);
  }

  void joinedConvolution(const std::string &mg, const std::string &hf) {
    projections(mg, hf);
    sections(mg + "conv1d.weight", three(hf, "conv1d.weight"));
    if (port_ == Glm5NextPort::MilesWhole)
      for (auto &[name, parameter] : result_.parameters)
        if (name.starts_with(mg)) {
          parameter.cut = Cut::None;
          parameter.sections.clear();
        }
  }

  const Glm5NextPort port_;
  const bool fusedNorms_;
};

} // namespace

Reference glm5NextReference(const HfModel &model) {
  return Glm5Next(model).build();
}

Reference glm5NextGptReference(const HfModel &model, Glm5NextPort port,
                               bool fusedNorms) {
  return Glm5NextGpt(model, port, fusedNorms).build();
}

StageStarts glm5NextStageStarts(const Json &text) {
  StageStarts starts{{}, 2 * text["num_hidden_layers"].get<int64_t>()};
  for (size_t block = 1; block < text["layer_types"].size(); ++block)
    if (text["layer_types"][block] == "deepseek_sparse_attention")
      starts.places.push_back(2 * static_cast<int64_t>(block));
  return starts;
}

} // namespace mbc::test
