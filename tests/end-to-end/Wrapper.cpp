#include "tests/end-to-end/Wrapper.h"

#include <fmt/format.h>

namespace mbc::test {

namespace {

/// `name` with `to` in the place of the prefix `from`, or nothing.
std::optional<std::string>
moved(const std::string &name, const std::string &from, const std::string &to) {
  if (!name.starts_with(from))
    return std::nullopt;
  return to + name.substr(from.size());
}

/// The language model alone, under the names of a text model. The bytes stay
/// those of the original names.
HfModel textModel(const HfModel &model, const std::string &body,
                  const std::string &head, const std::string &textBody) {
  HfModel text;
  text.config = textConfig(model.config);
  text.config["tie_word_embeddings"] = model.config.value(
      "tie_word_embeddings", !model.tensors().contains(head + "weight"));
  text.files.push_back({"model.safetensors", {}});
  for (const auto &[name, tensor] : model.tensors()) {
    std::optional<std::string> plain = moved(name, body, textBody);
    if (!plain)
      plain = moved(name, head, "lm_head.");
    for (const char *mtp : {"mtp.", "language_model.mtp."})
      if (!plain)
        plain = moved(name, mtp, "mtp.");
    if (!plain)
      continue;
    text.add(*plain, tensor.dtype, tensor.shape);
    text.contents[*plain] = tensor.bytes;
  }
  return text;
}

} // namespace

Wrapper::Wrapper(const HfModel &model)
    : ReferenceBuilder(model), model_(model) {}

Wrapper &Wrapper::language(Reference (*text)(const HfModel &),
                           const std::string &body, const std::string &head,
                           const std::string &megatron,
                           const std::string &textBody) {
  Reference inner = text(textModel(model_, body, head, textBody));
  result_.experts = inner.experts;
  for (auto &[name, parameter] : inner.parameters)
    result_.parameters[megatron + name] = std::move(parameter);
  for (const std::string &name : inner.vocabulary)
    result_.vocabulary.insert(megatron + name);
  return *this;
}

Wrapper &Wrapper::whole(const std::string &hf, const std::string &mg) {
  for (const auto &[name, tensor] : tensors_)
    if (std::optional<std::string> to = moved(name, hf, mg))
      first(*to, name);
  return *this;
}

Parameter &Wrapper::first(const std::string &mg, const std::string &hf,
                          Cut cut) {
  Parameter &parameter = copy(mg, hf, cut);
  parameter.everywhereFirst = true;
  return parameter;
}

void Wrapper::pair(const std::string &mg, const std::string &hf, Cut weight,
                   Cut bias) {
  const std::string separator = mg.ends_with("_") ? "" : ".";
  first(mg + separator + "weight", hf + ".weight", weight);
  if (hasTensor(hf + ".bias"))
    first(mg + separator + "bias", hf + ".bias", bias);
}

void Wrapper::flatAttention(const std::string &mg, const std::string &hf,
                            int64_t heads, int64_t groups) {
  for (const char *kind : {"weight", "bias"}) {
    const Tensor flat = get(hf + "qkv." + kind);
    const int64_t d = flat.shape[0] / (heads + 2 * groups), n = heads / groups;
    std::vector<Tensor> parts;
    for (int64_t g = 0; g != groups; ++g) {
      parts.push_back(rows(flat, g * n * d, (g + 1) * n * d));
      for (int64_t kv : {heads, heads + groups})
        parts.push_back(rows(flat, (kv + g) * d, (kv + g + 1) * d));
    }
    Parameter &qkv = put(mg + "linear_qkv." + kind, joinRows(parts), Cut::Rows);
    qkv.heads = heads;
    qkv.groups = groups;
    qkv.everywhereFirst = true;
  }
  pair(mg + "linear_proj", hf + "proj", Cut::Columns);
}

Wrapper &Wrapper::qwen3Vision() {
  const Json &vision = model_.config["vision_config"];
  const std::string mg = "vision_model.", hf = "model.visual.";
  auto merger = [&](const std::string &to, const std::string &from) {
    pair(to + "patch_norm", from + "norm");
    pair(to + "linear_fc1", from + "linear_fc1", Cut::Rows, Cut::Rows);
    pair(to + "linear_fc2", from + "linear_fc2", Cut::Columns);
  };
  pair(mg + "patch_embed.proj", hf + "patch_embed.proj");
  first(mg + "pos_embed.weight", hf + "pos_embed.weight");
  for (int64_t i = 0; i != vision["depth"].get<int64_t>(); ++i) {
    const std::string to = fmt::format("{}decoder.layers.{}.", mg, i),
                      from = fmt::format("{}blocks.{}.", hf, i);
    const int64_t heads = vision["num_heads"];
    flatAttention(to + "self_attention.", from + "attn.", heads, heads);
    pair(to + "self_attention.linear_qkv.layer_norm_", from + "norm1");
    pair(to + "mlp.linear_fc1.layer_norm_", from + "norm2");
    pair(to + "mlp.linear_fc1", from + "mlp.linear_fc1", Cut::Rows, Cut::Rows);
    pair(to + "mlp.linear_fc2", from + "mlp.linear_fc2", Cut::Columns);
  }
  for (int64_t n = 0;
       hasTensor(fmt::format("{}deepstack_merger_list.{}.norm.weight", hf, n));
       ++n)
    merger(fmt::format("{}decoder.deepstack_merger_list.{}.", mg, n),
           fmt::format("{}deepstack_merger_list.{}.", hf, n));
  merger(mg + "merger.", hf + "merger.");
  return *this;
}

} // namespace mbc::test
