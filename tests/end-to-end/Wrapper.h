#pragma once

#include "tests/end-to-end/ReferenceBuilder.h"

namespace mbc::test {

/// A model whose language model is one of several parts: the reference of that
/// part under other names, and the parts beside it.
class Wrapper : public ReferenceBuilder {
public:
  explicit Wrapper(const HfModel &model);

  /// The language model: what a text model calls `model.` and `lm_head.`, under
  /// these names, and its place in Megatron. MTP names stay as they are. A text
  /// model may have another word for `model.`.
  Wrapper &language(Reference (*text)(const HfModel &), const std::string &body,
                    const std::string &head,
                    const std::string &megatron = "language_model.",
                    const std::string &textBody = "model.");

  /// A part that Megatron holds as it is: whole, on the first stage. Names
  /// begin with `hf`, in Megatron with `mg`.
  Wrapper &whole(const std::string &hf, const std::string &mg);
  Wrapper &whole(const std::string &prefix) { return whole(prefix, prefix); }
  /// One tensor on the first stage.
  Parameter &first(const std::string &mg, const std::string &hf,
                   Cut cut = Cut::None);

  /// Weight and bias of a linear or norm on the first stage; only what there
  /// is.
  void pair(const std::string &mg, const std::string &hf,
            Cut weight = Cut::None, Cut bias = Cut::None);
  /// All queries, all keys, all values in one tensor, to head after head.
  void flatAttention(const std::string &mg, const std::string &hf,
                     int64_t heads, int64_t groups);

  /// Qwen3-VL's tower as Megatron's modules.
  Wrapper &qwen3Vision();

  using ReferenceBuilder::copy;
  using ReferenceBuilder::get;
  using ReferenceBuilder::hasTensor;
  using ReferenceBuilder::sections;

  Reference build() { return std::move(result_); }

private:
  const HfModel &model_;
};

} // namespace mbc::test
