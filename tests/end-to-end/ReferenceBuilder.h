#pragma once

#include "tests/end-to-end/Reference.h"

namespace mbc::test {

/// What every family's reference is made with: source tensors in, parameters
/// out. A family's own file derives from this or from `Decoder`.
class ReferenceBuilder {
protected:
  explicit ReferenceBuilder(const HfModel &model);

  /// Whether config.json has the field, and not as null.
  bool has(const char *field) const;
  int64_t number(const char *field) const;
  /// The first of several spellings of a field, 0 without any.
  int64_t firstNumber(std::initializer_list<const char *> fields) const;

  bool hasTensor(const std::string &name) const;
  /// A source tensor, dequantised if it has a scale.
  Tensor get(const std::string &name) const;

  Parameter &put(const std::string &name, Tensor whole, Cut cut = Cut::None);
  Parameter &copy(const std::string &mg, const std::string &hf,
                  Cut cut = Cut::None);
  /// Sections one below the other, each cut on its own.
  Parameter &sections(const std::string &mg, const std::vector<Tensor> &parts);

  /// The three scales of a hyper-connection, which Megatron keeps apart.
  void alphas(const std::string &mg, const Tensor &scale);

  /// A tensor as it is, whose rows are sections of these extents.
  Parameter &cutAt(const std::string &mg, Tensor whole, Extents extents);

  struct MambaSizes {
    int64_t heads = 0, width = 0; ///< of a head
    int64_t groups = 0, state = 0;
  };
  /// A Mamba-2 mixer, which has the same sections on both sides.
  void mamba(const std::string &mg, const std::string &hf,
             const MambaSizes &sizes);

  /// Embedding or head: a row a token.
  Parameter &vocabulary(const std::string &mg, const std::string &hf);

  const Json &text_; ///< the language model's part of config.json
  const Tensors tensors_;
  /// The physical decoder layer that `put` fills, if it is in one.
  std::optional<int64_t> layer_;
  Reference result_;
};

} // namespace mbc::test
