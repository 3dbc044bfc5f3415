#include "tests/end-to-end/DecoderReference.h"
#include "tests/end-to-end/Families.h"
#include "tests/end-to-end/Wrapper.h"

#include <fmt/format.h>

// Models of text and vision or sound: a text model's reference in a wrapper.

namespace mbc::test {

namespace {

const std::string nested = "model.language_model.",
                  inside = "language_model.model.",
                  insideHead = "language_model.lm_head.";

/// All experts are one tensor [E, in, out].
struct TransposedExperts : Decoder {
  using Decoder::Decoder;

  void expert(const std::string &mg, const std::string &hf,
              int64_t e) override {
    const Tensor both = transposed(pick(get(hf + "gate_up_proj"), e));
    const int64_t width = both.shape[0] / 2;
    putExpert(mg, e, {rows(both, 0, width), rows(both, width, 2 * width)},
              transposed(pick(get(hf + "down_proj"), e)));
  }
};

/// Experts under Mixtral's names, the shared one under the usual ones; norms of
/// queries and keys span one head.
struct MiniMaxM3 : Decoder {
  explicit MiniMaxM3(const HfModel &model)
      : Decoder(model, blockSparseNames()) {}

  void sparseFeedForward(const std::string &mg,
                         const std::string &hf) override {
    Decoder::sparseFeedForward(mg, hf);
    const std::string to = mg + "mlp.shared_experts.",
                      from = hf + "block_sparse_moe.shared_experts.";
    sections(to + "linear_fc1.weight",
             {get(from + "gate_proj.weight"), get(from + "up_proj.weight")});
    copy(to + "linear_fc2.weight", from + "down_proj.weight", Cut::Columns);
  }

  void denseFeedForward(const std::string &mg, const std::string &hf) override {
    copy(mg + "mlp.linear_fc1.layer_norm_weight",
         hf + "post_attention_layernorm.weight");
    const std::string from = hf + "mlp.";
    sections(mg + "mlp.linear_fc1.weight",
             {get(from + "gate_proj.weight"), get(from + "up_proj.weight")});
    copy(mg + "mlp.linear_fc2.weight", from + "down_proj.weight", Cut::Columns);
  }
};

/// Two pools of experts with a router each; the second pool's numbers go on.
struct ErnieVl : Decoder {
  using Decoder::Decoder;

  void feedForward(const std::string &mg, const std::string &hf) override {
    if (!hasTensor(hf + "mlp.gate.weight_1"))
      return denseFeedForward(mg, hf);
    copy(mg + "pre_mlp_layernorm.weight",
         hf + "post_attention_layernorm.weight");
    gated(mg + "mlp.shared_experts.", hf + "mlp.shared_experts.");
    pool(mg + "mlp.text_moe_layer.", hf + "mlp.", 0, "gate.weight");
    pool(mg + "mlp.vision_moe_layer.", hf + "mlp.", 1, "gate.weight_1");
  }

  void pool(const std::string &mg, const std::string &hf, int64_t which,
            const std::string &router) {
    put(mg + "router.weight", transposed(get(hf + router)));
    put(mg + "router.expert_bias",
        pick(get(hf + "moe_statics.e_score_correction_bias"), which));
    for (int64_t e = 0; e != result_.experts; ++e) {
      const std::string from =
          fmt::format("{}experts.{}.", hf, which * result_.experts + e);
      putExpert(mg + "experts.", e,
                {get(from + "gate_proj.weight"), get(from + "up_proj.weight")},
                get(from + "down_proj.weight"));
    }
  }
};

/// A gated feed-forward block with biases, norms without.
void exaoneVision(Wrapper &model, const Json &vision) {
  const std::string mg = "vision_model.", hf = "model.visual.";
  model.pair(mg + "patch_embed.proj", hf + "patch_embed.proj");
  for (int64_t i = 0; i != vision["depth"].get<int64_t>(); ++i) {
    const std::string to = fmt::format("{}decoder.layers.{}.", mg, i),
                      from = fmt::format("{}blocks.{}.", hf, i);
    model.flatAttention(to + "self_attention.", from + "attn.",
                        vision["num_heads"], vision["num_key_value_heads"]);
    model.pair(to + "self_attention.linear_qkv.layer_norm_", from + "norm1");
    model.pair(to + "mlp.linear_fc1.layer_norm_", from + "norm2");
    for (const char *kind : {"weight", "bias"})
      model
          .sections(to + "mlp.linear_fc1." + kind,
                    {model.get(from + "mlp.gate_proj." + kind),
                     model.get(from + "mlp.up_proj." + kind)})
          .everywhereFirst = true;
    model.pair(to + "mlp.linear_fc2", from + "mlp.down_proj", Cut::Columns);
  }
  model.pair(mg + "merger.patch_norm", hf + "merger.ln_q");
  model.pair(mg + "merger.linear_fc1", hf + "merger.mlp.0", Cut::Rows,
             Cut::Rows);
  model.pair(mg + "merger.linear_fc2", hf + "merger.mlp.2", Cut::Columns);
}

/// Nemotron-H's tower and projector, below `mg`.
void radio(Wrapper &model, const Json &vision, const std::string &mg) {
  const std::string tower = mg + "vision_model.",
                    hf = "vision_model.radio_model.model.",
                    patches = hf + "patch_generator.";
  model.first(tower + "class_token", patches + "cls_token.token");
  model.first(tower + "position_embeddings", patches + "pos_embed");
  for (const char *name : {"embedder.weight", "video_embedder.weight"})
    if (model.hasTensor(patches + name))
      model.first(tower + name, patches + name, Cut::Rows);
  for (int64_t i = 0; i != vision["num_hidden_layers"].get<int64_t>(); ++i) {
    const std::string to = fmt::format("{}decoder.layers.{}.", tower, i),
                      from = fmt::format("{}blocks.{}.", hf, i);
    const int64_t heads = vision["num_attention_heads"];
    model.flatAttention(to + "self_attention.", from + "attn.", heads, heads);
    model.pair(to + "self_attention.linear_qkv.layer_norm_", from + "norm1");
    model.pair(to + "mlp.linear_fc1.layer_norm_", from + "norm2");
    model.pair(to + "mlp.linear_fc1", from + "mlp.fc1", Cut::Rows, Cut::Rows);
    model.pair(to + "mlp.linear_fc2", from + "mlp.fc2", Cut::Columns);
    model.whole(from + "layer_scale", to + "layer_scale");
  }
  model.whole("vision_model.radio_model.summary",
              mg + "vision_model.radio_model.summary");
  model.whole("vision_model.radio_model.input_conditioner.",
              tower + "input_conditioner.");
}

/// A norm and two linears.
void projector(Wrapper &model, const std::string &mg, const std::string &norm,
               const std::string &up, const std::string &down) {
  model.first(mg + "linear_fc1.layer_norm_weight", norm);
  model.first(mg + "linear_fc1.weight", up, Cut::Rows);
  model.first(mg + "linear_fc2.weight", down, Cut::Columns);
}

Wrapper nemotronVl(const HfModel &model, const std::string &mg) {
  Wrapper wrapper(model);
  wrapper.language(nemotronHReference, "language_model.backbone.", insideHead,
                   mg + "language_model.", "backbone.");
  radio(wrapper, model.config["vision_config"], mg);
  projector(wrapper, mg + "vision_projection.encoder.", "mlp1.0.weight",
            "mlp1.1.weight", "mlp1.3.weight");
  return wrapper;
}

} // namespace

Reference nemotronVlReference(const HfModel &model) {
  return nemotronVl(model, "llava_model.").build();
}

Reference nemotronOmniReference(const HfModel &model) {
  Wrapper wrapper = nemotronVl(model, "");
  projector(wrapper, "sound_projection.encoder.",
            "sound_projection.norm.weight", "sound_projection.linear1.weight",
            "sound_projection.linear2.weight");
  return wrapper.whole("sound_encoder.encoder.", "sound_model.encoder.")
      .whole("vision_projector.vision_final_layernorm.",
             "vision_model.decoder.final_layernorm.")
      .build();
}

Reference qwen3VlReference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<TransposedExperts>, nested, "lm_head.")
      .qwen3Vision()
      .build();
}

Reference qwen35VlReference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(qwenHybridReference, nested, "lm_head.").qwen3Vision();
  // A head of labels, which has no row a token: whole on every rank.
  for (const std::string kind : {"weight", "bias"})
    if (wrapper.hasTensor("score." + kind))
      wrapper.copy("language_model.output_layer." + kind, "score." + kind);
  return wrapper.build();
}

Reference qwen2VlReference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<>, "model.", "lm_head.")
      .whole("visual.")
      .build();
}

Reference gemma3VlReference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(postNormReference, inside, insideHead)
      .whole("vision_tower.");
  const std::string projector = "multi_modal_projector.";
  wrapper.first(projector + "mm_soft_embed_norm.weight",
                projector + "mm_soft_emb_norm.weight");
  Parameter &weight = wrapper.first(projector + "proj.weight",
                                    projector + "mm_input_projection_weight");
  weight.whole = transposed(weight.whole);
  return wrapper.build();
}

Reference gemma4VlReference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(gemma4Reference, nested, "lm_head.");
  for (const char *part :
       {"vision_tower.", "embed_vision.", "audio_tower.", "embed_audio."})
    wrapper.whole(std::string("model.") + part, part);
  return wrapper.build();
}

Reference glm4vReference(const HfModel &model) {
  return Wrapper(model)
      .language(glm4Reference, nested, "lm_head.")
      .whole("model.visual.", "visual.")
      .build();
}

Reference glm4vMoeReference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<>, nested, "lm_head.")
      .whole("model.visual.", "visual.")
      .build();
}

Reference insideReference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(decoderReference<>, inside, insideHead);
  for (const char *part : {"vision_tower.", "audio_tower.", "mm_projector.",
                           "multi_modal_projector."})
    wrapper.whole(part);
  return wrapper.build();
}

Reference kimiVlReference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(decoderReference<>, inside, insideHead);
  for (const std::string part : {"vision_tower.", "multi_modal_projector."})
    wrapper.whole(part, "visual." + part);
  return wrapper.build();
}

Reference llama4VlReference(const HfModel &model) {
  return Wrapper(model)
      .language(llama4Reference, inside, insideHead)
      .whole("vision_model.")
      .whole("multi_modal_projector.")
      .build();
}

Reference internVlReference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<>, inside, insideHead)
      .whole("vision_model.")
      .whole("mlp1.")
      .build();
}

Reference ovisReference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<>, "llm.model.", "llm.lm_head.")
      .whole("visual_tokenizer.", "visual.visual_tokenizer.")
      .whole("vte.", "visual.vte.")
      .build();
}

Reference llavaOneVisionReference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<>, nested, "lm_head.")
      .whole("model.visual.", "visual.visual.")
      .build();
}

Reference step37Reference(const HfModel &model) {
  return Wrapper(model)
      .language(stepReference, "model.", "lm_head.")
      .whole("vision_model.")
      .whole("vit_large_projector.", "image_insert_embedding.align_projector.")
      .build();
}

Reference miniMaxM3Reference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(decoderReference<MiniMaxM3>, inside, insideHead);
  for (const char *part :
       {"vision_tower.", "multi_modal_projector.", "patch_merge_mlp."})
    wrapper.whole(part);
  const int64_t layers = textConfig(model.config)["num_hidden_layers"];
  for (int64_t i = 0; i != layers; ++i)
    wrapper.whole(fmt::format("{}layers.{}.self_attn.index_", inside, i),
                  fmt::format("lightning_indexers.{}.", i));
  return wrapper.build();
}

Reference ernieVlReference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(decoderReference<ErnieVl>, "model.", "lm_head.")
      .whole("vision_model.", "vision_tower.")
      .whole("model.vision_model.", "vision_tower.");
  const std::string mg = "resampler_model.", hf = "model.resampler_model.";
  for (const char *kept : {"mlp.", "after_norm."})
    wrapper.whole(hf + kept, mg + kept);
  for (const std::string linear : {"spatial_linear.", "temporal_linear."})
    for (const auto &[to, from] :
         {std::pair{"fc1.", "0."}, {"fc2.", "2."}, {"ln.", "3."}})
      wrapper.whole(hf + linear + from, mg + linear + to);
  return wrapper.build();
}

Reference exaone45Reference(const HfModel &model) {
  Wrapper wrapper(model);
  wrapper.language(postNormReference, nested, "lm_head.");
  exaoneVision(wrapper, model.config["vision_config"]);
  return wrapper.build();
}

Reference thinkerReference(const HfModel &model) {
  return Wrapper(model)
      .language(decoderReference<>, "thinker.model.", "thinker.lm_head.",
                "thinker.language_model.")
      .whole("thinker.visual.")
      .whole("thinker.audio_tower.", "thinker.audio_model.")
      .build();
}

} // namespace mbc::test
