#include "tests/end-to-end/Families.h"
#include "tests/end-to-end/ReferenceBuilder.h"

#include <fmt/format.h>

namespace mbc::test {

namespace {

/// Compressed attention, hyper-connections, and experts that the first layers
/// look up by the token.
class DeepseekV4 : public ReferenceBuilder {
public:
  explicit DeepseekV4(const HfModel &model) : ReferenceBuilder(model) {}

  Reference build() {
    result_.experts = number("n_routed_experts");
    vocabulary("embedding.word_embeddings.weight", "embed.weight")
        .everywhereFirst = true;
    vocabulary("output_layer.weight", "head.weight");
    copy("decoder.final_layernorm.weight", "norm.weight");
    for (const char *name : {"hc_head_fn", "hc_head_base", "hc_head_scale"})
      copy(fmt::format("decoder.{}", name), name);
    for (int64_t i = 0; i != number("num_hidden_layers"); ++i) {
      layer_ = i;
      layer(fmt::format("decoder.layers.{}.", i), fmt::format("layers.{}.", i));
    }
    return std::move(result_);
  }

protected:
  void layer(const std::string &mg, const std::string &hf) {
    streams(mg + "self_attention_hyper_connection.", hf + "hc_attn_");
    streams(mg + "mlp_hyper_connection.", hf + "hc_ffn_");
    copy(mg + "input_layernorm.weight", hf + "attn_norm.weight");
    attention(mg + "self_attention.", hf + "attn.");
    copy(mg + "pre_mlp_layernorm.weight", hf + "ffn_norm.weight");
    feedForward(mg + "mlp.", hf + "ffn.");
  }

  void streams(const std::string &mg, const std::string &hf) {
    copy(mg + "mapping_proj.weight", hf + "fn");
    copy(mg + "bias", hf + "base");
    alphas(mg, get(hf + "scale"));
  }

  void attention(const std::string &mg, const std::string &hf) {
    const int64_t heads = number("num_attention_heads");
    copy(mg + "linear_q_down_proj.weight", hf + "wq_a.weight");
    copy(mg + "q_layernorm.weight", hf + "q_norm.weight");
    copy(mg + "linear_q_up_proj.weight", hf + "wq_b.weight", Cut::Rows).heads =
        heads;
    copy(mg + "linear_kv_proj.weight", hf + "wkv.weight");
    copy(mg + "kv_layernorm.weight", hf + "kv_norm.weight");
    copy(mg + "linear_o_group_proj", hf + "wo_a.weight");
    copy(mg + "linear_proj.weight", hf + "wo_b.weight", Cut::Columns);
    const std::string core = mg + "core_attention.";
    copy(core + "attn_sink", hf + "attn_sink", Cut::Rows);
    if (hasTensor(hf + "compressor.ape"))
      compressor(core + "compressor.", hf + "compressor.");
    if (!hasTensor(hf + "indexer.compressor.ape"))
      return;
    copy(core + "indexer.linear_wq_b.weight", hf + "indexer.wq_b.weight");
    copy(core + "indexer.linear_weights_proj.weight",
         hf + "indexer.weights_proj.weight");
    compressor(core + "indexer.compressor.", hf + "indexer.compressor.");
  }

  void compressor(const std::string &mg, const std::string &hf) {
    copy(mg + "linear_wkv.weight", hf + "wkv.weight");
    copy(mg + "linear_wgate.weight", hf + "wgate.weight");
    copy(mg + "norm.weight", hf + "norm.weight");
    copy(mg + "ape", hf + "ape");
  }

  void feedForward(const std::string &mg, const std::string &hf) {
    copy(mg + "router.weight", hf + "gate.weight");
    if (hasTensor(hf + "gate.tid2eid"))
      copy(mg + "router.tid2eid", hf + "gate.tid2eid");
    else
      copy(mg + "router.expert_bias", hf + "gate.bias");
    experts(mg, hf);
  }

  /// `drafts`: how many there are in a draft module.
  void experts(const std::string &mg, const std::string &hf,
               int64_t drafts = 0) {
    drafts_ = drafts;
    linears(mg + "shared_experts.linear_fc{}.weight", hf + "shared_experts.");
    for (int64_t e = 0; e != (drafts != 0 ? drafts : result_.experts); ++e)
      linears(mg + "experts.linear_fc{}.weight" + std::to_string(e),
              fmt::format("{}experts.{}.", hf, e), e);
  }

  /// w1 is the gate, w3 up, w2 down.
  void linears(const std::string &pattern, const std::string &hf,
               std::optional<int64_t> expert = {}) {
    auto name = [&](int linear) {
      return fmt::format(fmt::runtime(pattern), linear);
    };
    for (Parameter *parameter :
         {&sections(name(1), {get(hf + "w1.weight"), get(hf + "w3.weight")}),
          &copy(name(2), hf + "w2.weight", Cut::Columns)}) {
      parameter->expert = expert;
      parameter->draftExperts = drafts_;
    }
  }

  int64_t drafts_ = 0;
};

/// Each layer is two physical ones; some compress keys for those behind them.
class DeepseekV41 : public DeepseekV4 {
public:
  using DeepseekV4::DeepseekV4;

  Reference build() {
    result_.experts = number("n_routed_experts");
    vocabulary("embedding.word_embeddings.weight", "embed.weight")
        .everywhereFirst = true;
    vocabulary("output_layer.weight", "head.weight");
    copy("decoder.final_norm.weight", "norm.weight");
    for (int64_t i = 0; i != number("num_hidden_layers"); ++i)
      twoLayers(i, fmt::format("layers.{}.", i));
    layer_.reset();
    draft(number("num_nextn_predict_layers"));
    for (const auto &[name, tensor] : tensors_)
      if (name.starts_with("vision.") || name.starts_with("aligner.") ||
          name.starts_with("image_"))
        copy(name, name).everywhereFirst = true;
    return std::move(result_);
  }

private:
  void attentionLayer(const std::string &mg, const std::string &hf) {
    streams(mg + "hyper_connection.", hf + "hc_attn_");
    copy(mg + "inner_layer.input_layernorm.weight", hf + "attn_norm.weight");
    attention(mg + "inner_layer.self_attention.", hf + "attn.");
  }

  /// `mg` ends before the layer's parts; its router's bias is the caller's.
  void expertLayer(const std::string &mg, const std::string &hf,
                   int64_t drafts = 0) {
    streams(mg + "hyper_connection.", hf + "hc_ffn_");
    copy(mg + "inner_layer.pre_mlp_layernorm.weight", hf + "ffn_norm.weight");
    experts(mg + "inner_layer.mlp.", hf + "ffn.", drafts);
    copy(mg + "inner_layer.mlp.router.weight", hf + "ffn.gate.weight",
         Cut::Rows);
  }

  /// Layers without compression, and experts that only text chooses.
  void draft(int64_t layers) {
    if (layers == 0)
      return;
    for (int64_t t = 0; t != layers; ++t) {
      const std::string hf = fmt::format("mtp.{}.", t);
      attentionLayer(fmt::format("dspark.decoder.layers.{}.", 2 * t), hf);
      const std::string mg =
          fmt::format("dspark.decoder.layers.{}.", 2 * t + 1);
      expertLayer(mg, hf, number("dspark_n_routed_experts"));
      copy(mg + "inner_layer.mlp.router.expert_bias", hf + "ffn.gate.bias");
    }
    for (const char *name : {"main_proj.weight", "main_norm.weight"})
      copy(fmt::format("dspark.{}", name), fmt::format("mtp.0.{}", name));
    for (const auto &[to, from] :
         {std::pair{"norm.weight", "norm.weight"},
          {"markov_embed.weight", "markov_head.embed.weight"},
          {"markov_head.weight", "markov_head.head.weight"},
          {"confidence_head.weight", "confidence_head.proj.weight"}})
      copy(fmt::format("dspark.{}", to),
           fmt::format("mtp.{}.{}", layers - 1, from));
  }

  void twoLayers(int64_t i, const std::string &hf) {
    layer_ = 2 * i;
    std::string mg = fmt::format("decoder.layers.{}.", 2 * i);
    attentionLayer(mg, hf);
    const std::string core = mg + "inner_layer.self_attention.core_attention.";
    for (const auto &[to, from] :
         {std::pair{"compressor.linear_wkv", "compressor.wkv"},
          {"compressor.linear_wgate", "compressor.wgate"},
          {"compressor.norm", "compressor.norm"},
          {"indexer.linear_wq_b", "indexer.wq_b"},
          {"indexer.linear_weights_proj", "indexer.weights_proj"},
          {"indexer.linear_wk", "indexer.wk"},
          {"indexer.k_norm", "indexer.k_norm"}})
      same(core + to + ".weight", fmt::format("{}attn.{}.weight", hf, from));
    same(mg + "engram.embed.tables.0.weight", hf + "engram.embed.weight",
         Cut::ExpertRows);
    for (const char *name : {"wkv.weight", "q_weight", "k_weight"})
      same(mg + "engram." + name, hf + "engram." + name);

    layer_ = 2 * i + 1;
    mg = fmt::format("decoder.layers.{}.", 2 * i + 1);
    expertLayer(mg, hf);
    mg += "inner_layer.mlp.router.";
    copy(mg + "text_balance.expert_bias", hf + "ffn.gate.bias");
    copy(mg + "image_balance.expert_bias", hf + "ffn.gate.bias_vl");
  }

  /// What only some layers have.
  void same(const std::string &mg, const std::string &hf, Cut cut = Cut::None) {
    if (hasTensor(hf))
      copy(mg, hf, cut);
  }
};

} // namespace

Reference deepseekV41Reference(const HfModel &model) {
  return DeepseekV41(model).build();
}

/// Any physical layer may begin a stage.
StageStarts deepseekV41StageStarts(const Json &text) {
  StageStarts starts{{}, 2 * text["num_hidden_layers"].get<int64_t>()};
  for (int64_t layer = 1; layer < starts.layers; ++layer)
    starts.places.push_back(layer);
  return starts;
}

Reference deepseekV4Reference(const HfModel &model) {
  return DeepseekV4(model).build();
}

} // namespace mbc::test
