#include "tests/end-to-end/DecoderReference.h"

#include <fmt/format.h>

namespace mbc::test {

Decoder::Decoder(const HfModel &model, DecoderNames names)
    : ReferenceBuilder(model), names_(std::move(names)) {
  result_.experts = firstNumber({"n_routed_experts", "num_local_experts",
                                 "num_experts", "moe_num_experts"});
}

Reference Decoder::build() {
  ends();
  const int64_t layers = layerCount();
  for (int64_t i = 0; i != layers; ++i) {
    layer(i);
    layer_.reset();
  }
  // Qwen has one MTP layer or none, and need not say so in config.json.
  const int64_t depths =
      hasTensor("mtp.fc.weight")
          ? 1
          : firstNumber({"num_nextn_predict_layers", "mtp_num_hidden_layers"});
  for (int64_t t = 0; t != depths; ++t)
    mtp(t, layers + t);
  return std::move(result_);
}

int64_t Decoder::layerCount() const { return number("num_hidden_layers"); }

void Decoder::ends() {
  vocabulary(mgRoot_ + "embedding.word_embeddings.weight",
             hfRoot_ + names_.embedding + ".weight")
      .everywhereFirst = true;
  copy(mgRoot_ + finalNorm_, hfRoot_ + "norm.weight");
  if (!has("tie_word_embeddings") || text_["tie_word_embeddings"] != true)
    vocabulary(mgRoot_ + "output_layer.weight", "lm_head.weight");
}

void Decoder::layer(int64_t i) {
  layer_ = i;
  block(fmt::format("decoder.layers.{}.", i),
        fmt::format("model.layers.{}.", i));
}

void Decoder::mtp(int64_t t, int64_t i) {
  const std::string mg = fmt::format("mtp.layers.{}.", t);
  if (hasTensor("mtp.fc.weight")) { // as Qwen writes it
    copy(mg + "enorm.weight", "mtp.pre_fc_norm_embedding.weight");
    copy(mg + "hnorm.weight", "mtp.pre_fc_norm_hidden.weight");
    copy(mg + "eh_proj.weight", "mtp.fc.weight", Cut::Rows);
    copy(mg + "final_layernorm.weight", "mtp.norm.weight");
    block(mg + "mtp_model_layer.", fmt::format("mtp.layers.{}.", t));
    return;
  }
  const std::string hf = fmt::format("model.layers.{}.", i);
  copy(mg + "enorm.weight", hf + "enorm.weight");
  copy(mg + "hnorm.weight", hf + "hnorm.weight");
  copy(mg + "eh_proj.weight", hf + "eh_proj.weight", Cut::Rows);
  copy(mg + "final_layernorm.weight", hf + names_.mtpFinalNorm);
  block(mg + "mtp_model_layer.", hf);
}

void Decoder::block(const std::string &mg, const std::string &hf) {
  attention(mg, hf);
  feedForward(mg, hf);
}

void Decoder::attention(const std::string &mg, const std::string &hf) {
  if (has("kv_lora_rank")) {
    copy(mg + "input_layernorm.weight", hf + "input_layernorm.weight");
    latentAttention(mg + "self_attention.", hf + "self_attn.");
  } else {
    copy(mg + "self_attention.linear_qkv.layer_norm_weight",
         hf + "input_layernorm.weight");
    groupedAttention(mg + "self_attention.", hf + "self_attn.");
  }
}

Parameter &Decoder::grouped(const std::string &mg, const Tensor &q,
                            const Tensor &k, const Tensor &v, int64_t heads,
                            int64_t groups) {
  std::vector<Tensor> parts;
  for (int64_t g = 0; g != groups; ++g)
    for (const Tensor *tensor : {&q, &k, &v}) {
      const int64_t n = tensor->shape[0] / groups;
      parts.push_back(rows(*tensor, g * n, (g + 1) * n));
    }
  Parameter &qkv = put(mg, joinRows(parts), Cut::Rows);
  qkv.heads = heads;
  qkv.groups = groups;
  return qkv;
}

void Decoder::groupedAttention(const std::string &mg, const std::string &hf) {
  const int64_t heads = number("num_attention_heads");
  const int64_t groups = number("num_key_value_heads");
  for (const char *kind : {"weight", "bias"}) {
    if (!hasTensor(hf + "q_proj." + kind))
      continue;
    grouped(mg + "linear_qkv." + kind, get(hf + "q_proj." + kind),
            get(hf + "k_proj." + kind), get(hf + "v_proj." + kind), heads,
            groups);
  }
  copy(mg + "linear_proj.weight", hf + "o_proj.weight", Cut::Columns);
  if (hasTensor(hf + "q_norm.weight"))
    qkNorms(mg, hf);
}

void Decoder::qkNorms(const std::string &mg, const std::string &hf) {
  copy(mg + "q_layernorm.weight", hf + "q_norm.weight");
  copy(mg + "k_layernorm.weight", hf + "k_norm.weight");
}

void Decoder::latentAttention(const std::string &mg, const std::string &hf) {
  const int64_t heads = number("num_attention_heads");
  const bool sparse = hasTensor(hf + "indexer.wk.weight");
  // Only beside an indexer the norms stand alone.
  auto norm = [&](const char *up, const char *alone) {
    return mg + (sparse ? fmt::format("{}.weight", alone)
                        : fmt::format("{}.layer_norm_weight", up));
  };
  if (hasTensor(hf + "q_proj.weight")) {
    copy(mg + "linear_q_proj.weight", hf + "q_proj.weight", Cut::Rows).heads =
        heads;
  } else {
    copy(mg + "linear_q_down_proj.weight", hf + "q_a_proj.weight");
    copy(mg + "linear_q_up_proj.weight", hf + "q_b_proj.weight", Cut::Rows)
        .heads = heads;
    copy(norm("linear_q_up_proj", "q_layernorm"), hf + "q_a_layernorm.weight");
  }
  copy(mg + "linear_kv_down_proj.weight", hf + "kv_a_proj_with_mqa.weight");
  copy(mg + "linear_kv_up_proj.weight", hf + "kv_b_proj.weight", Cut::Rows)
      .heads = heads;
  copy(norm("linear_kv_up_proj", "kv_layernorm"), hf + "kv_a_layernorm.weight");
  copy(mg + "linear_proj.weight", hf + "o_proj.weight", Cut::Columns);
  if (sparse)
    indexer(mg + "core_attention.indexer.", hf + "indexer.");
}

void Decoder::indexer(const std::string &mg, const std::string &hf) {
  copy(mg + "linear_wq_b.weight", hf + "wq_b.weight");
  copy(mg + "linear_wk.weight", hf + "wk.weight");
  copy(mg + "k_norm.weight", hf + "k_norm.weight");
  copy(mg + "k_norm.bias", hf + "k_norm.bias");
  copy(mg + "linear_weights_proj.weight", hf + "weights_proj.weight");
}

void Decoder::feedForward(const std::string &mg, const std::string &hf) {
  hasTensor(hf + names_.router) ? sparseFeedForward(mg, hf)
                                : denseFeedForward(mg, hf);
}

void Decoder::denseFeedForward(const std::string &mg, const std::string &hf) {
  copy(mg + "mlp.linear_fc1.layer_norm_weight",
       hf + "post_attention_layernorm.weight");
  sections(mg + "mlp.linear_fc1.weight",
           {get(hf + "mlp.gate_proj.weight"), get(hf + "mlp.up_proj.weight")});
  copy(mg + "mlp.linear_fc2.weight", hf + "mlp.down_proj.weight", Cut::Columns);
}

void Decoder::sparseFeedForward(const std::string &mg, const std::string &hf) {
  copy(mg + "pre_mlp_layernorm.weight", hf + "post_attention_layernorm.weight");
  copy(mg + "mlp.router.weight", hf + names_.router);
  if (hasTensor(hf + names_.expertBias))
    expertBias(mg + "mlp.router.expert_bias", hf + names_.expertBias);
  if (hasTensor(hf + names_.shared + names_.gate + ".weight"))
    gated(mg + "mlp.shared_experts.", hf + names_.shared);
  for (int64_t e = 0; e != result_.experts; ++e)
    expert(mg + "mlp.experts.", hf + names_.experts, e);
}

void Decoder::expertBias(const std::string &mg, const std::string &hf) {
  copy(mg, hf);
}

void Decoder::gated(const std::string &mg, const std::string &hf) {
  sections(mg + "linear_fc1.weight", {get(hf + names_.gate + ".weight"),
                                      get(hf + names_.up + ".weight")});
  copy(mg + "linear_fc2.weight", hf + names_.down + ".weight", Cut::Columns);
}

void Decoder::expert(const std::string &mg, const std::string &hf, int64_t e) {
  if (hasTensor(hf + "gate_up_proj")) {
    const Tensor both = pick(get(hf + "gate_up_proj"), e);
    const int64_t width = both.shape[0] / 2;
    putExpert(mg, e, {rows(both, 0, width), rows(both, width, 2 * width)},
              pick(get(hf + "down_proj"), e));
    return;
  }
  const std::string from = fmt::format("{}{}.", hf, e);
  putExpert(
      mg, e,
      {get(from + names_.gate + ".weight"), get(from + names_.up + ".weight")},
      get(from + names_.down + ".weight"));
}

void Decoder::putExpert(const std::string &mg, int64_t e,
                        const std::vector<Tensor> &halves, Tensor down) {
  sections(fmt::format("{}linear_fc1.weight{}", mg, e), halves).expert = e;
  put(fmt::format("{}linear_fc2.weight{}", mg, e), std::move(down),
      Cut::Columns)
      .expert = e;
}

} // namespace mbc::test
