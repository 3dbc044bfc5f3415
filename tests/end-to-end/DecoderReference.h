#pragma once

#include "tests/end-to-end/ReferenceBuilder.h"

namespace mbc::test {

/// Hugging Face names below a layer, where families differ in nothing else.
struct DecoderNames {
  std::string router = "mlp.gate.weight",
              expertBias = "mlp.gate.e_score_correction_bias",
              experts = "mlp.experts.", shared = "mlp.shared_experts.",
              gate = "gate_proj", up = "up_proj", down = "down_proj",
              mtpFinalNorm = "shared_head.norm.weight",
              embedding = "embed_tokens";
};

/// Mixtral's names of the experts, and of the router's bias where there is one.
inline DecoderNames blockSparseNames() {
  return {.router = "block_sparse_moe.gate.weight",
          .expertBias = "block_sparse_moe.e_score_correction_bias",
          .experts = "block_sparse_moe.experts.",
          .gate = "w1",
          .up = "w3",
          .down = "w2"};
}

/// A decoder of the usual parts: softmax attention with query groups or latent
/// attention, dense or routed feed-forward, MTP layers. What a layer has is
/// seen from its tensors.
class Decoder : public ReferenceBuilder {
public:
  explicit Decoder(const HfModel &model, DecoderNames names = {});
  virtual ~Decoder() = default;

  Reference build();

protected:
  virtual int64_t layerCount() const;
  virtual void ends();
  virtual void layer(int64_t i);
  virtual void mtp(int64_t t, int64_t i);

  /// One decoder layer; names begin with `mg` and `hf`.
  void block(const std::string &mg, const std::string &hf);
  virtual void attention(const std::string &mg, const std::string &hf);
  virtual void qkNorms(const std::string &mg, const std::string &hf);
  void groupedAttention(const std::string &mg, const std::string &hf);
  /// For each key/value head: the query heads that share it, then its key, then
  /// its value.
  Parameter &grouped(const std::string &mg, const Tensor &q, const Tensor &k,
                     const Tensor &v, int64_t heads, int64_t groups);
  void latentAttention(const std::string &mg, const std::string &hf);
  virtual void indexer(const std::string &mg, const std::string &hf);

  virtual void feedForward(const std::string &mg, const std::string &hf);
  virtual void denseFeedForward(const std::string &mg, const std::string &hf);
  virtual void sparseFeedForward(const std::string &mg, const std::string &hf);
  virtual void expertBias(const std::string &mg, const std::string &hf);
  /// `hf` holds gate, up and down under `names_`.
  void gated(const std::string &mg, const std::string &hf);
  virtual void expert(const std::string &mg, const std::string &hf, int64_t e);
  void putExpert(const std::string &mg, int64_t e,
                 const std::vector<Tensor> &halves, Tensor down);

  const DecoderNames names_;
  std::string hfRoot_ = "model.", mgRoot_,
              finalNorm_ = "decoder.final_layernorm.weight";
};

template <typename Builder = Decoder>
Reference decoderReference(const HfModel &model) {
  return Builder(model).build();
}

} // namespace mbc::test
