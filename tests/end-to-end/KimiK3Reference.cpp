#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"
#include "tests/end-to-end/Wrapper.h"

#include <fmt/format.h>

namespace mbc::test {

namespace {

DecoderNames kimiNames() {
  DecoderNames names = blockSparseNames();
  names.expertBias = "block_sparse_moe.gate.e_score_correction_bias";
  return names;
}

/// Attention keeps Hugging Face's names; every input norm stands alone.
class KimiK3 : public Decoder {
public:
  explicit KimiK3(const HfModel &model) : Decoder(model, kimiNames()) {}

private:
  void layer(int64_t i) override {
    Decoder::layer(i);
    const std::string mg = fmt::format("decoder.layers.{}.", i);
    residuals(mg, fmt::format("model.layers.{}.", i), "self_attention_res_");
    residuals(mg, fmt::format("model.layers.{}.", i), "mlp_res_");
    if (i + 1 == layerCount())
      residuals(mg, "model.", "output_attn_res_");
  }

  void residuals(const std::string &mg, const std::string &hf,
                 const std::string &part) {
    copy(mg + part + "norm.weight", hf + part + "norm.weight");
    copy(mg + part + "proj.weight", hf + part + "proj.weight");
  }

  void attention(const std::string &mg, const std::string &hf) override {
    copy(mg + "input_layernorm.weight", hf + "input_layernorm.weight");
    const std::string to = mg + "self_attention.", from = hf + "self_attn.";
    auto same = [&](const char *name, Cut cut = Cut::None) -> Parameter & {
      return copy(to + name, from + name, cut);
    };
    same("g_proj.weight", Cut::Rows);
    same("o_proj.weight", Cut::Columns);
    hasTensor(from + "A_log") ? linear(to, from, same) : latent(same);
  }

  template <typename Same>
  void linear(const std::string &to, const std::string &from, Same same) {
    const int64_t heads = text_["linear_attn_config"]["num_heads"];
    for (const char *name : {"q_proj", "k_proj", "v_proj"})
      same(fmt::format("{}.weight", name).c_str(), Cut::Rows).heads = heads;
    for (const char *name :
         {"q_conv1d", "k_conv1d", "v_conv1d", "f_b_proj", "b_proj"})
      same(fmt::format("{}.weight", name).c_str(), Cut::Rows);
    same("f_a_proj.weight");
    same("o_norm.weight");
    same("dt_bias", Cut::Rows);
    put(to + "A_log", rows(get(from + "A_log"), 0, heads), Cut::Rows);
  }

  template <typename Same> void latent(Same same) {
    for (const char *name :
         {"q_a_proj.weight", "q_a_layernorm.weight",
          "kv_a_proj_with_mqa.weight", "kv_a_layernorm.weight"})
      same(name);
    for (const char *name : {"q_b_proj.weight", "kv_b_proj.weight"})
      same(name, Cut::Rows).heads = number("num_attention_heads");
  }

  void denseFeedForward(const std::string &mg, const std::string &hf) override {
    copy(mg + "pre_mlp_layernorm.weight",
         hf + "post_attention_layernorm.weight");
    gatedUnder(mg + "mlp.", hf + "mlp.");
  }

  void sparseFeedForward(const std::string &mg,
                         const std::string &hf) override {
    Decoder::sparseFeedForward(mg, hf);
    const std::string from = hf + "block_sparse_moe.";
    gatedUnder(mg + "mlp.shared_experts.", from + "shared_experts.");
    for (const auto &[to, name] :
         {std::pair{"fc1_latent_proj", "routed_expert_down_proj"},
          {"routed_expert_norm", "routed_expert_norm"},
          {"fc2_latent_proj", "routed_expert_up_proj"}})
      copy(fmt::format("{}mlp.{}.weight", mg, to),
           fmt::format("{}{}.weight", from, name));
  }

  /// Feed-forward under the usual names, which the routed experts do not have.
  void gatedUnder(const std::string &mg, const std::string &hf) {
    sections(mg + "linear_fc1.weight",
             {get(hf + "gate_proj.weight"), get(hf + "up_proj.weight")});
    copy(mg + "linear_fc2.weight", hf + "down_proj.weight", Cut::Columns);
  }
};

} // namespace

Reference kimiK3Reference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<KimiK3>, "language_model.model.",
                "language_model.lm_head.")
      .whole("vision_tower.")
      .whole("mm_projector.")
      .build();
}

} // namespace mbc::test
