#include "tests/end-to-end/Families.h"
#include "tests/end-to-end/ReferenceBuilder.h"

#include <fmt/format.h>

namespace mbc::test {

namespace {

/// What kind each layer is, from the pattern or from the words.
std::string kindsOf(const Json &text, const char *pattern, const char *words) {
  if (text.contains(pattern))
    return text[pattern];
  std::string kinds;
  for (const Json &word : text.value(words, Json::array()))
    kinds += word == "linear_attention" ? 'M'
             : word == "full_attention" ? '*'
             : word == "moe"            ? 'E'
                                        : '-';
  return kinds;
}

std::string mainKinds(const Json &text) {
  return kindsOf(text, "hybrid_override_pattern", "layers_block_type");
}

/// A HybridModel of Mamba, attention, feed-forward and expert layers. Every
/// layer's parameters are called `mixer` in Hugging Face, its norm `norm`.
class NemotronH : public ReferenceBuilder {
public:
  explicit NemotronH(const HfModel &model) : ReferenceBuilder(model) {}

  Reference build() {
    result_.experts = firstNumber({"n_routed_experts"});
    vocabulary("embedding.word_embeddings.weight", "backbone.embeddings.weight")
        .everywhereFirst = true;
    vocabulary("output_layer.weight", "lm_head.weight");
    copy("decoder.final_norm.weight", "backbone.norm_f.weight");
    const std::string kinds = mainKinds(text_);
    for (size_t i = 0; i != kinds.size(); ++i) {
      layer_ = static_cast<int64_t>(i);
      layer(fmt::format("decoder.layers.{}.", i),
            fmt::format("backbone.layers.{}.", i), kinds[i]);
    }
    layer_.reset();
    for (int64_t t = 0; t != firstNumber({"num_nextn_predict_layers"}); ++t)
      mtp(t);
    return std::move(result_);
  }

private:
  /// Hugging Face counts the parts of all MTP layers on.
  void mtp(int64_t t) {
    const std::string kinds =
        kindsOf(text_, "mtp_hybrid_override_pattern", "mtp_layers_block_type");
    const auto parts = static_cast<int64_t>(kinds.size());
    const std::string mg = fmt::format("mtp.layers.{}.", t);
    const std::string first = fmt::format("mtp.layers.{}.", t * parts);
    copy(mg + "enorm.weight", first + "enorm.weight");
    copy(mg + "hnorm.weight", first + "hnorm.weight");
    copy(mg + "eh_proj.weight", first + "eh_proj.weight", Cut::Rows);
    copy(mg + "final_layernorm.weight",
         fmt::format("mtp.layers.{}.final_layernorm.weight",
                     t * parts + parts - 1));
    for (int64_t j = 0; j != parts; ++j)
      layer(fmt::format("{}mtp_model_layer.layers.{}.", mg, j),
            fmt::format("mtp.layers.{}.", t * parts + j),
            kinds[static_cast<size_t>(j)]);
  }

  void layer(const std::string &mg, const std::string &hf, char kind) {
    const std::string from = hf + "mixer.";
    std::string norm = "pre_mlp_layernorm.weight";
    if (kind == 'M') {
      norm = "mixer.in_proj.layer_norm_weight";
      mamba(mg + "mixer.", from,
            {number("mamba_num_heads"), number("mamba_head_dim"),
             number("n_groups"), number("ssm_state_size")});
    } else if (kind == '*') {
      norm = "self_attention.linear_qkv.layer_norm_weight";
      attention(mg + "self_attention.", from);
    } else if (kind == '-') {
      norm = "mlp.linear_fc1.layer_norm_weight";
      linears(mg + "mlp.", from);
    } else {
      experts(mg + "mlp.", from);
    }
    copy(mg + norm, hf + "norm.weight");
  }

  void attention(const std::string &mg, const std::string &hf) {
    const int64_t heads = number("num_attention_heads"),
                  groups = number("num_key_value_heads"),
                  d = number("head_dim"), n = heads / groups * d;
    const Tensor q = get(hf + "q_proj.weight"), k = get(hf + "k_proj.weight"),
                 v = get(hf + "v_proj.weight");
    std::vector<Tensor> parts;
    for (int64_t g = 0; g != groups; ++g) {
      parts.push_back(rows(q, g * n, (g + 1) * n));
      parts.push_back(rows(k, g * d, (g + 1) * d));
      parts.push_back(rows(v, g * d, (g + 1) * d));
    }
    Parameter &qkv = put(mg + "linear_qkv.weight", joinRows(parts), Cut::Rows);
    qkv.heads = heads;
    qkv.groups = groups;
    copy(mg + "linear_proj.weight", hf + "o_proj.weight", Cut::Columns);
  }

  void linears(const std::string &mg, const std::string &hf) {
    copy(mg + "linear_fc1.weight", hf + "up_proj.weight", Cut::Rows);
    copy(mg + "linear_fc2.weight", hf + "down_proj.weight", Cut::Columns);
  }

  void experts(const std::string &mg, const std::string &hf) {
    copy(mg + "router.weight", hf + "gate.weight");
    copy(mg + "router.expert_bias", hf + "gate.e_score_correction_bias");
    linears(mg + "shared_experts.", hf + "shared_experts.");
    if (has("moe_latent_size"))
      for (const char *name : {"fc1_latent_proj", "fc2_latent_proj"})
        copy(fmt::format("{}{}.weight", mg, name),
             fmt::format("{}{}.weight", hf, name));
    for (int64_t e = 0; e != result_.experts; ++e) {
      copy(fmt::format("{}experts.linear_fc1.weight{}", mg, e),
           fmt::format("{}experts.{}.up_proj.weight", hf, e), Cut::Rows)
          .expert = e;
      copy(fmt::format("{}experts.linear_fc2.weight{}", mg, e),
           fmt::format("{}experts.{}.down_proj.weight", hf, e), Cut::Columns)
          .expert = e;
    }
  }
};

} // namespace

Reference nemotronHReference(const HfModel &model) {
  return NemotronH(model).build();
}

/// Any layer may begin a stage.
StageStarts nemotronHStageStarts(const Json &text) {
  StageStarts starts{{}, static_cast<int64_t>(mainKinds(text).size())};
  for (int64_t layer = 1; layer < starts.layers; ++layer)
    starts.places.push_back(layer);
  return starts;
}

} // namespace mbc::test
