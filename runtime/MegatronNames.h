#pragma once

#include "runtime/Result.h"
#include "runtime/Shape.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mbc {

/// A Megatron module parameter's name taken apart. Examples, with the numbers
/// counted over the whole model:
///   language_model.decoder.layers.7.mlp.experts.linear_fc1.weight12
///     layer 7, expert 12, grouped
///   decoder.layers.7.mlp.experts.local_experts.12.linear_fc1.weight
///     layer 7, expert 12, sequential
///   mtp.layers.0.mtp_model_layer.mlp.linear_fc2.weight       mtp 0
///   dspark.decoder.layers.1.inner_layer.mlp.experts.linear_fc1.weight2
///     draft, expert 2
struct MegatronName {
  std::optional<int64_t> layer;  ///< N of `decoder.layers.N.`
  std::optional<int64_t> mtp;    ///< N of `mtp.layers.N.`
  std::optional<int64_t> expert; ///< number of a routed expert
  bool sequential = false;       ///< spelt local_experts.{e}
  /// In a draft module, which numbers its layers and experts on its own and
  /// is held by the last pipeline stage.
  bool draft = false;
};
MegatronName parseMegatronName(std::string_view name);

/// Whether a name belongs to a vision or audio tower, which numbers its own
/// layers and is held whole by the first pipeline stage.
bool isTowerName(std::string_view name);

/// Whether a name belongs to a draft module (MegatronName::draft).
bool isDraftName(std::string_view name);

/// The same name with other layer and expert numbers (local ones, for the
/// per-rank format).
std::string renumber(std::string_view name, std::optional<int64_t> layer,
                     std::optional<int64_t> expert);

/// The same name with its expert spelt the other way, `local_experts.{e}` if
/// `sequential`; other names as they are.
std::string respellExpert(std::string_view name, bool sequential);

/// Mamba's convolution has the parameters `mixer.conv1d_weight` and `_bias`,
/// which per-rank files hold as they are; in a torch_dist, and in specs, they
/// are `mixer.conv1d.weight` and `.bias`. From the one spelling to the other:
std::string perRankName(std::string name);
std::string fromPerRankName(std::string name);

/// Numbers of routed experts: of a model's layers, and of its draft module,
/// which may have another.
struct ExpertCounts {
  int64_t model = 0, draft = 0;

  int64_t of(const MegatronName &name) const {
    return name.draft ? draft : model;
  }
  /// Makes room for the expert of a name, if it is one's.
  void note(const MegatronName &name);
};

/// What decides how a torch_dist spells its keys.
struct KeyRules {
  bool layersStacked =
      false;            ///< one key for all layers, with a leading layer axis
  int64_t layers = 0;   ///< decoder layers (the layer axis's extent)
  ExpertCounts experts; ///< routed experts (the expert axis's extent)
  bool gptModel = true; ///< mtp_model_layer is stored as transformer_layer
};

/// A parameter's place in a torch_dist: the key, the axes that come before the
/// parameter's own (layer, expert), and this parameter's index on them.
struct TensorKey {
  std::string key;
  Shape axes;  ///< extents of the leading axes, e.g. [61, 256]
  Shape index; ///< where this parameter sits on them, e.g. [3, 17]
};
TensorKey torchDistKey(std::string_view name, std::string_view section,
                       const KeyRules &rules);

/// The key of a module's byte object: `<module>._extra_state/shard_<i>_<n>`.
/// `module` is a name as above; grouped linears have one object per expert,
/// for which `module` ends in the expert's number like a weight's name.
std::string extraStateKey(std::string_view module, const KeyRules &rules);

} // namespace mbc
