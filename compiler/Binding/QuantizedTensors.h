#pragma once

#include "compiler/Binding/ConfigFacts.h"
#include "compiler/RuleClass.h"
#include "runtime/Checkpoint.h"

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// A quantised weight of a Hugging Face checkpoint is two tensors, codes and
/// scales, that stand for one, its values. Rules name the values:
///
///     values     codes               scales                 elements
///     X          X          F8_E4M3  X_scale_inv, X_scale   F8_E4M3
///     X          X          F8_E4M3  X_weight_scale         F8_E4M3 (stacked)
///     S.weight   S.weight   F8_E4M3  S.scale                F8_E4M3
///     S.weight   S.weight   U8, I8   S.scale                F4_E2M1
///     X          X_packed   U8       X_scale                F4_E2M1
///     X          X          U8       X_scale, X_scale_2     F4_E2M1 (NVFP4)
///     X          X_packed   U8       X_scale, X_global_scale  the same
///     X          X_packed   I32      X_scale (and X_shape)  I4
///     X          X_blocks   U8       X_scales               F4_E2M1
///
/// X_weight_scale and X_weight_scale_2 are those of NVFP4, too; codes are U8
/// [.., M / 2, N] then and scales [.., M / 16, N] (compiler/PairedRows.h). All
/// other codes of four bits lie along the last axis, the first in a byte's low
/// half. Values [.., M, N] are codes times scales in float32. There is one
/// scale for the tensor, one a row [.., M] or [.., M, 1], one for each g values
/// of a row
/// [.., M, N / g], or one for each block, [.., ceil(M / rows), ceil(N /
/// columns)]; S.scale may also be [ceil(M / rows)], of all columns. Scales of
/// NVFP4 are E4M3, one for 16 values of a row; before they multiply the codes
/// they are multiplied by X_scale_2, or divided by X_global_scale, one F32.
namespace mbc::compiler {

/// A block that no tensor exceeds: all of an axis is under one scale, whatever
/// its extent, so tensors of several extents may meet in one parameter.
constexpr int64_t wholeAxis = int64_t{1} << 30;

/// Lets codes bear the name of their values where the file has another, which
/// becomes their `key`. For checkpoints that are read, before names are asked.
void nameValues(Checkpoint &checkpoint);

/// Whether a tensor belongs to another one's values: its scales, its shape, or
/// the scale of the activations that it is used with.
bool isCompanion(const Checkpoint &checkpoint, std::string_view name);

/// The tensor to whose values `name` would belong by its ending; else empty.
std::string valuesOfCompanion(std::string_view name);
/// The same for scales of activations alone, of which Megatron keeps none.
std::string valuesOfActivation(std::string_view name);

/// The names that scales of these values may have, in the order of search;
/// then those of a tensor scale.
std::vector<std::string> scaleNames(std::string_view values);
std::vector<std::string> tensorScaleNames(std::string_view values);

/// Whether values may be stored in this dtype.
bool mayBeCodes(DType dtype);
/// Whether it is an 8-bit float other than the one that codes are in.
bool isUnreadFloat8(DType dtype);

struct Quantized {
  OperandType type; ///< of the values, with their scale
  uint32_t scales = Checkpoint::none;
  uint32_t tensorScale = Checkpoint::none; ///< of the scales
  uint32_t shape =
      Checkpoint::none; ///< a tensor that repeats the values' shape
};

/// The scales of a tensor's codes; none if it has none.
uint32_t scalesOf(const Checkpoint &checkpoint, const StoredTensor &codes);

/// The tensor scale of a tensor's codes; none if it has none.
uint32_t tensorScaleOf(const Checkpoint &checkpoint, const StoredTensor &codes);

/// The tensor that repeats the shape of a tensor's values; none if it has none.
uint32_t shapeTensorOf(const Checkpoint &checkpoint, const StoredTensor &codes);

/// Tensors that belong to codes and that their values do not need: the one that
/// repeats their shape, and scales of activations.
std::vector<uint32_t> besideCodes(const Checkpoint &checkpoint,
                                  const StoredTensor &codes);

/// All that may stand beside codes and is there, whether mbc reads it or not.
std::vector<uint32_t> companionsOf(const Checkpoint &checkpoint,
                                   const StoredTensor &codes);

/// What a tensor of codes and its scales are, or why they do not fit.
std::expected<Quantized, std::string>
quantizedTensor(const Checkpoint &checkpoint, const StoredTensor &codes,
                uint32_t scales, const Quantization &declared);

/// The shape of a tensor, or of the values that its codes stand for.
Shape shapeOfValues(const Checkpoint &checkpoint, const StoredTensor &tensor);

/// The shape of the scales that `declared` lets expect for codes whose scales
/// are not there, in words where there are several; and the name they should
/// have.
std::string expectedScales(const StoredTensor &codes,
                           const Quantization &declared);
std::string missingScales(const StoredTensor &codes);

} // namespace mbc::compiler
