#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"

#include <fmt/format.h>

namespace mbc::test {

namespace {

/// A HybridModel: a Hugging Face block is two physical layers.
class Glm5Next : public Decoder {
public:
  explicit Glm5Next(const HfModel &model) : Decoder(model) {
    hfRoot_ = "model.language_model.";
    mgRoot_ = "language_model.";
    finalNorm_ = "decoder.final_norm.weight";
  }

  Reference build() {
    for (const auto &[name, tensor] : tensors_)
      if (name.starts_with("model.visual."))
        put(name.substr(6), tensor).everywhereFirst = true;
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
    feedForward(mg + "inner_layer.", hf);
  }

  void mtp(int64_t t, int64_t i) override {
    const std::string mg = fmt::format("{}mtp.layers.{}.", mgRoot_, t);
    const std::string hf = fmt::format("{}layers.{}.", hfRoot_, i);
    copy(mg + "enorm.weight", hf + "enorm.weight");
    copy(mg + "hnorm.weight", hf + "hnorm.weight");
    copy(mg + "final_layernorm.weight", hf + "shared_head.norm.weight");
    const Tensor both = get(hf + "eh_proj.weight");
    const int64_t h = number("hidden_size");
    put(mg + "e_proj.weight", columns(both, 0, h), Cut::Rows);
    put(mg + "h_proj.weight", columns(both, h, 2 * h), Cut::Rows);
    const std::string inner = mg + "mtp_model_layer.layers.";
    copy(inner + "0.inner_layer.input_layernorm.weight",
         hf + "input_layernorm.weight");
    latentAttention(inner + "0.inner_layer.self_attention.", hf + "self_attn.");
    feedForward(inner + "1.inner_layer.", hf);
  }

  void indexer(const std::string &mg, const std::string &hf) override {
    Decoder::indexer(mg, hf);
    for (const char *name :
         {"index_kpool_compress_ape", "index_kpool_compress_gate"})
      copy(mg + name, hf + name);
  }

  void hyperConnection(const std::string &mg, const std::string &hf) {
    const std::string to = mg + "hyper_connection.";
    put(to + "mapping_proj.weight", widened(get(hf + "fn")));
    copy(to + "bias", hf + "base");
    alphas(to, get(hf + "scale"));
  }

  void linearAttention(const std::string &mg, const std::string &hf) {
    auto three = [&](const char *tail) {
      return std::vector{get(hf + "q_" + tail), get(hf + "k_" + tail),
                         get(hf + "v_" + tail)};
    };
    sections(mg + "in_proj.weight", three("proj.weight")).heads =
        number("linear_num_heads");
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
};

} // namespace

Reference glm5NextReference(const HfModel &model) {
  return Glm5Next(model).build();
}

StageStarts glm5NextStageStarts(const Json &text) {
  StageStarts starts{{}, 2 * text["num_hidden_layers"].get<int64_t>()};
  for (size_t block = 1; block < text["layer_types"].size(); ++block)
    if (text["layer_types"][block] == "deepseek_sparse_attention")
      starts.places.push_back(2 * static_cast<int64_t>(block));
  return starts;
}

} // namespace mbc::test
