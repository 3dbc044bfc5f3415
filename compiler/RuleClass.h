#pragma once

#include "dsl/Model.h"
#include "runtime/DType.h"
#include "runtime/Result.h"
#include "runtime/Shape.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The border between binding (names, files, layouts; no MLIR) and the tensor
/// graph (MLIR; no names, files or instances): what goes into the graph is a
/// RuleClass, what comes out is a FusedClass.
namespace mbc::compiler {

/// From Hugging Face to Megatron, back, and from Megatron to Megatron: there
/// the right side of a rule is its left side, as the source stores it.
enum class Direction : uint8_t { Import, Export, Reshard };

/// The scales of a quantised tensor, both as matrices whose rows are all but
/// the last axis: element (i, j) is multiplied by scale[i / blockRows, j /
/// blockColumns], after the tensor scale has been applied to that.
struct BlockScale {
  DType dtype = DType::F32;
  Shape shape;
  int64_t blockRows = 128, blockColumns = 128;
  TensorScale tensor = TensorScale::None;

  friend bool operator==(const BlockScale &, const BlockScale &) = default;
};

/// What a stored tensor is: values, or the codes, scales and tensor scale that
/// stand for them.
enum class Role : uint8_t { Values, Scales, TensorScale };

/// How values leave for Hugging Face: as codes and scales, named after them.
struct Encoding {
  DType codes = DType::F8_E4M3,     ///< or F4_E2M1, I4
      storedCodes = DType::F8_E4M3; ///< of packed ones, as what they are stored
  /// Block extents and the scales' dtype; the shape once the values' is known.
  BlockScale scale;
  DType storedScale = DType::F32; ///< E8M0 may be stored as U8
  std::string codesEnding; ///< after the values' name: "", "_packed", "_blocks"
  std::string scalesEnding; ///< "_scale_inv" ...; ".scale" is for ".weight"
  std::string tensorScaleEnding; ///< "_scale_2" ...; empty: there is none
  bool mayBeStacked = false;     ///< matrices under further axes
  /// Originals are at hand. Their extents, as stored:
  bool hasOriginals = false;
  Shape values, scaleTensor;
  Shape tensorScale; ///< as stored: [] or [1]

  friend bool operator==(const Encoding &, const Encoding &) = default;
};

/// Where a part of a stored tensor sits in the whole tensor: the box of
/// `shape` at `local` of the stored tensor is the box at `global` of the whole.
struct Placement {
  Shape local, global, shape;

  friend bool operator==(const Placement &, const Placement &) = default;
};

/// A stored tensor that holds parts of an operand. Its own extents are `shape`.
struct StoredPart {
  Shape shape;
  std::vector<Placement> placements;

  friend bool operator==(const StoredPart &, const StoredPart &) = default;
};

/// One tensor of a rule, on either side.
struct OperandType {
  DType dtype = DType::BF16; ///< as stored on this side
  Shape shape; ///< whole tensor; of Megatron: vocabulary rows padded
  std::optional<BlockScale> scale; ///< HF side only: `dtype` is the codes'
  std::vector<StoredPart>
      parts;   ///< source side only; empty: one part, the whole tensor
  Shape order; ///< source side only: as in StoredTensor; empty: its own
  /// HF target only: how it is stored. `dtype` and `shape` are the values',
  /// which is all that the graph knows of.
  std::optional<Encoding> encoding;

  friend bool operator==(const OperandType &, const OperandType &) = default;

  /// Tensors that are stored beside the codes: scales, and their tensor scale.
  size_t companions() const {
    return scale ? scale->tensor == TensorScale::None ? 1 : 2 : 0;
  }
};

/// A rule with the types of its tensors: all its instances look alike.
struct RuleClass {
  const dsl::Mapping *mapping = nullptr;
  std::vector<OperandType> megatron, hf;
  /// Vocab shards: rows of the HF tensor; rows from here on are padding (zero
  /// on import, dropped on export). 0 for every other shard.
  int64_t vocabRows = 0;
  /// For each Megatron operand, the extents along dim 0 of its sections
  /// (Gated, Section), in order; empty for every other shard.
  std::vector<std::vector<int64_t>> sections;
  /// A cast that loses bits is an error at run time rather than rounding.
  bool exactCasts = false;
};

/// How the target is cut.
struct ShardLayout {
  int64_t tp = 1, etp = 1, ep = 1;
  bool joinSections =
      false; ///< per-rank files: a rank's sections are one tensor
};

// --- what comes out of the graph ---

/// One affine map from a box of an input to a box of an output; offsets and
/// strides in elements. The last dim is the innermost.
struct BoxDim {
  int64_t count = 1, source = 0, target = 0;
  friend bool operator==(const BoxDim &, const BoxDim &) = default;
};
struct Box {
  int64_t input = 0; ///< index into FusedClass::inputs; -1: constant fill
  int64_t sourceOffset = 0, targetOffset = 0;
  std::vector<BoxDim> dims;
  uint64_t fill = 0; ///< bits in the output's dtype
  friend bool operator==(const Box &, const Box &) = default;
};

/// An input of the fused ops: a stored part of an operand, or a companion.
struct FusedInput {
  uint32_t operand = 0; ///< of the source side
  uint32_t part = 0;    ///< index into OperandType::parts
  Role role = Role::Values;
  DType dtype = DType::BF16;
  int64_t elements = 0;
};

struct InputScales {
  uint32_t input = 0;                  ///< the scale tensor
  std::optional<uint32_t> tensorScale; ///< the input that holds it
  int64_t columns = 0, scaleColumns = 0, blockRows = 0, blockColumns = 0;
};

/// One stored tensor of the target.
struct FusedOutput {
  uint32_t operand = 0; ///< of the target side
  int64_t rank = 0;    ///< TP (experts: ETP, expert_rows: EP) rank that owns it
  int64_t section = 0; ///< index of the section, 0 if there are none
  Shape start; ///< Megatron targets: first index in the whole tensor (named
               ///< sections: in the section's tensor)
  Shape shape;
  DType dtype = DType::BF16;
  std::vector<Box> boxes; ///< tile the output exactly
  int32_t kernel = -1; ///< index into TensorProgram::kernels; -1: pure movement
  std::vector<std::optional<InputScales>>
      scales; ///< one for each input of the class
};

struct FusedClass {
  std::vector<FusedInput> inputs;
  std::vector<FusedOutput> outputs; ///< by operand, then rank, then section
};

/// PTX for GPUs of a compute capability (90 for 9.0) and later.
struct DeviceModule {
  uint32_t capability = 0;
  uint32_t driver = 0; ///< the CUDA version that its driver has to have
  std::string ptx;
};

struct TensorProgram {
  std::vector<FusedClass> classes;  ///< in the order of the RuleClasses
  std::vector<std::string> kernels; ///< symbols
  std::string kernelObject; ///< ELF shared object with them, empty if none
  std::vector<DeviceModule> deviceModules; ///< the same kernels for GPUs
};

/// Compiles classes to fused box maps and kernels. Diagnostics that the graph
/// finds point at the rule's line of the spec.
Result<TensorProgram> compileClasses(const std::vector<RuleClass> &classes,
                                     Direction direction,
                                     const ShardLayout &layout,
                                     dsl::Diagnostics &diagnostics);

/// The graph's text at a stage, for `mbc graph`: "rules" (both sides of each
/// rule, before a direction is chosen) or "fused"; as "mlir" or "dot".
Result<std::string> graphText(const std::vector<RuleClass> &classes,
                              Direction direction, const ShardLayout &layout,
                              const std::string &stage,
                              const std::string &format);

/// Elements of a Hugging Face tensor, in row-major order, that no Megatron
/// element holds: the way back writes zeros there.
struct ZeroRange {
  size_t operand = 0;
  int64_t start = 0, count = 0; ///< elements
};

/// The way to Megatron and back of one class, as a map on element positions.
struct RoundTrip {
  enum class At : uint8_t {
    Proven,      ///< each Hugging Face element comes back to its own place
    Lost,        ///< some does not, and a finding says which
    Indivisible, ///< this size is refused before
  };
  std::vector<At> at; ///< one for each size that was asked for
  // Elements of one instance. What is neither filled nor repeated is in
  // one-to-one correspondence with the Hugging Face elements.
  int64_t hfElements = 0, megatronElements = 0;
  int64_t filled = 0;   ///< constants of Megatron: padding, `init`
  int64_t repeated = 0; ///< Megatron elements that repeat another
  /// What the source must hold for all this to be so.
  std::vector<ZeroRange> zeros;
};

/// Import at each of `sizes`, then export from those shards, composed
/// exactly on their boxes: every element is accounted for, none is sampled.
/// Reports each class for which some HF element does not come back to its own
/// place, or whose arithmetic loses values. Classes are import classes; one
/// result for each.
std::vector<RoundTrip> checkRoundTrip(const std::vector<RuleClass> &classes,
                                      const std::vector<ShardLayout> &sizes,
                                      dsl::Diagnostics &diagnostics);

} // namespace mbc::compiler
