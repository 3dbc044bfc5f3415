#pragma once

#include "compiler/Binding/Bind.h"

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mbc::compiler {

/// The tensors that an import with --quant keep leaves as they were, in a
/// folder beside the Megatron checkpoint: a Hugging Face directory of its own.
inline constexpr std::string_view originalsFolder = "mbc/quantized";

/// Which tensors of a Hugging Face target leave as codes and scales, and how:
/// what --quant asks for. Encoding is decided here and where targets are
/// placed; rules and the graph see values. Immutable once made.
class QuantizedTargets {
public:
  /// Numbers in the checkpoint of originals.
  struct Originals {
    uint32_t codes = 0, scales = 0, tensorScale = Checkpoint::none;
    std::vector<uint32_t> beside; ///< written as they are
  };

  /// --quant none: nothing.
  QuantizedTargets() = default;

  /// --quant keep: what `originals` holds, in its geometry.
  static Result<QuantizedTargets> kept(const Checkpoint &originals,
                                       const Quantization &declared);

  /// --quant fp8-block, mxfp4 or nvfp4. With a record of quantised tensors
  /// those, else the matrices of attention, MLP and experts that `declared`
  /// does not except.
  static Result<QuantizedTargets> fresh(const std::string &format,
                                        const Record *record,
                                        const Quantization &declared);

  /// How the values of this name leave; the shapes are still open.
  std::optional<Encoding> encodingOf(std::string_view values) const;
  /// Where the originals of these values are; null if there are none.
  const Originals *originalsOf(std::string_view values) const;

private:
  struct Known {
    Encoding encoding;
    Originals originals;
  };
  Result<void> except(const std::vector<std::string> &patterns);
  bool isExcepted(std::string_view module) const;
  bool isWanted(std::string_view values) const;

  std::unordered_map<std::string, Known> known_; ///< by the values' name
  /// What a weight becomes that the import did not know as quantised.
  std::optional<Encoding> usual_;
  // Modules that stay as they are: names, and expressions for a name's start.
  std::vector<std::string> exceptedNames_;
  std::vector<std::regex> exceptedStarts_;
};

/// Why values of this shape cannot be encoded so; empty if they can.
std::string misfit(const Encoding &encoding, const Shape &values);

/// The tensors that values of this shape, which fits, become.
Shape codesShape(const Encoding &encoding, const Shape &values);
Shape scalesShape(const Encoding &encoding, const Shape &values);
std::string codesName(const Encoding &encoding, std::string_view values);
std::string scalesName(const Encoding &encoding, std::string_view values);
std::string tensorScaleName(const Encoding &encoding, std::string_view values);

} // namespace mbc::compiler
