#pragma once

#include "compiler/Target/PlanWriter.h"

/// Quantised tensors that an import leaves as they were, beside the Megatron
/// checkpoint: mbc/quantized/, a Hugging Face directory with the source's
/// config.json and the codes and scales in files of the source's names.
namespace mbc::compiler {

/// Import: copies of all codes and scales that rules read, in files that are
/// appended to the target's; what names them goes into `content`. The number
/// of quantised tensors.
Result<size_t> placeOriginals(const Checkpoint &source, const Binding &binding,
                              const std::string &configText, Target &target,
                              PlanContent &content);

/// Export: the originals of a Megatron checkpoint; nothing if it has none.
Result<std::optional<Checkpoint>> openOriginals(const Checkpoint &megatron);

/// Appends the files and tensors of `originals` to those of a checkpoint, for
/// which names no longer matter. The number of the first tensor.
uint32_t appendOriginals(const Checkpoint &originals, Checkpoint &megatron);

/// Megatron to Megatron: these go along as they are, `first` from
/// `appendOriginals`.
Result<void> carryOriginals(const Checkpoint &megatron, uint32_t first,
                            Target &target, PlanContent &content);

/// The text of model.safetensors.index.json for tensors of the target from
/// item `firstItem` on; files are named relative to the index, in `folder`.
std::string weightIndex(const Target &target, size_t firstItem = 0,
                        std::string_view folder = "");

} // namespace mbc::compiler
