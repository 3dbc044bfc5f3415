#include "runtime/UnitCompute.h"
#include "kernels/BlockQuantization.h"
#include "runtime/KernelPieces.h"
#include "runtime/Plan.h"
#include "runtime/TorchArchive.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace mbc {
namespace {

/// Calls `visit(part, address)` for parts of the move's tile whose sources are
/// staged in one piece; `address` is the byte of its first source element.
template <typename Visit>
Result<void> forEachStaged(const Unit &unit, const Move &move, const Tile &tile,
                           Visit &visit) {
  Range range = sourceRange(tile);
  const std::byte *low =
      unit.find(move.file, move.byteOf(range.begin), move.endOf(range.end));
  if (low)
    return visit(tile,
                 low + move.byteOf(tile.source) - move.byteOf(range.begin));
  if (tile.rank == 0)
    return fail("element {} of an input was planned and not read", tile.source);
  size_t widest = 0;
  for (size_t axis = 1; axis != tile.rank; ++axis)
    if (std::abs(tile.storage[axis].source) >
        std::abs(tile.storage[widest].source))
      widest = axis;
  for (int64_t index = 0; index != tile.storage[widest].count; ++index) {
    Result<void> done =
        forEachStaged(unit, move, tile.at(widest, index), visit);
    if (!done)
      return done;
  }
  return {};
}

/// The scales of one of an output's inputs; null if it has none.
const plan::Scales *scalesOf(const plan::Output &output, int32_t input) {
  if (!output.scales())
    return nullptr;
  for (const plan::Scales *scales : *output.scales())
    if (scales->weight() == input)
      return scales;
  return nullptr;
}

/// The first byte of an input that is staged whole: of scales, and of a tensor
/// scale.
Result<const std::byte *> wholeInput(const plan::Plan &plan, const Unit &unit,
                                     const Band &band, uint32_t index) {
  const plan::Class &kind = *plan.classes()->Get(band.kind);
  const plan::Input &input = *kind.inputs()->Get(index);
  const plan::Source &source = *plan.sources()->Get(
      kind.sources()->Get(band.instance * kind.inputs()->size() + index));
  uint64_t bytes = input.elements() * byteSize(DType(input.dtype()));
  const std::byte *found =
      unit.find(source.file(), source.offset(), source.offset() + bytes);
  if (!found)
    return fail("the scales of '{}' were planned and not read",
                plan.tensors()
                    ->Get(plan.items()->Get(band.item)->tensor())
                    ->key()
                    ->str());
  return found;
}

Result<void> applyKernel(const plan::Plan &plan, const Kernels &kernels,
                         const Unit &unit, const Move &move) {
  KernelFunction kernel = kernels[*kernelOf(plan, unit, move)];
  std::optional<Error> lost;
  Result<void> done =
      forEachKernelCall(plan, unit, move, [&](const KernelCall &call) {
        int64_t at = kernel(call.source, call.scales, call.target,
                            call.geometry.packed().data());
        if (at >= 0)
          lost = lossOf(plan, unit, call, at);
        return at < 0;
      });
  if (lost)
    return std::unexpected(*lost);
  return done;
}

Result<void> gather(const Unit &unit, const Move &move, const Band &band,
                    std::byte *bytes) {
  auto copy = [&](const Tile &tile, const std::byte *source) -> Result<void> {
    copyTile(tile, band.width, source,
             bytes + (tile.target - band.range.begin) * band.width);
    return {};
  };
  return forEachStaged(unit, move, move.tile, copy);
}

kernels::Number numberOf(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return kernels::Number::BF16;
  case DType::F16:
    return kernels::Number::F16;
  case DType::F8_E8M0:
    return kernels::Number::E8M0;
  case DType::F8_E4M3:
    return kernels::Number::E4M3;
  default: // of those that a plan may have
    return kernels::Number::F32;
  }
}

kernels::TensorScale levelOf(TensorScale level) {
  return level == TensorScale::Multiplies ? kernels::TensorScale::Multiplies
         : level == TensorScale::Divides  ? kernels::TensorScale::Divides
                                          : kernels::TensorScale::None;
}

kernels::BlockFormat formatOf(const plan::Output &output) {
  const plan::Encoding &encoding = *output.encoding();
  auto codes = static_cast<DType>(encoding.codes());
  return {codes == DType::F8_E4M3   ? kernels::Codes::E4M3
          : codes == DType::F4_E2M1 ? kernels::Codes::E2M1
                                    : kernels::Codes::I4,
          numberOf(DType(encoding.scale())),
          numberOf(DType(output.dtype())),
          encoding.columns(),
          encoding.block_rows(),
          encoding.block_columns(),
          levelOf(TensorScale(encoding.level()))};
}

/// The staged part of an original that belongs to a band; null if it was not
/// read, or there is none.
const std::byte *originalOf(const plan::Plan &plan, const Unit &unit,
                            const Band &band, int32_t input) {
  const plan::Class &kind = *plan.classes()->Get(band.kind);
  if (input < 0)
    return nullptr;
  const plan::Source &source = *plan.sources()->Get(
      kind.sources()->Get(band.instance * kind.inputs()->size() + input));
  uint64_t begin = source.offset() + band.storedOffset;
  return unit.find(source.file(), begin, begin + band.storedBytes);
}

/// Encodes the bands of a unit: codes and scales, stripe by stripe, so that
/// they do not depend on where bands end. Those that the values were read from,
/// if they still stand for them, else new ones.
class BandEncoder {
public:
  BandEncoder(const plan::Plan &plan, Unit &unit) : plan_(plan), unit_(unit) {}

  Result<void> encode(size_t band);

private:
  const plan::Output &outputOf(const Band &band) const {
    return *plan_.classes()->Get(band.kind)->outputs()->Get(band.output);
  }
  float largestOfInstance(const Band &like) const;
  Result<void> encodeTensor(Band &band, const Band &scales, const Band &one);

  const plan::Plan &plan_;
  Unit &unit_;
};

Result<void> BandEncoder::encode(size_t index) {
  Band &band = unit_.bands[index];
  const Band &scaleBand = unit_.bands[index + 1];
  const plan::Output &output = outputOf(band);
  const plan::Encoding &encoding = *output.encoding();
  kernels::BlockFormat format = formatOf(output);
  if (format.level != kernels::TensorScale::None)
    return encodeTensor(band, scaleBand, unit_.bands[index + 2]);
  const std::byte *oldCodes =
      originalOf(plan_, unit_, band, encoding.original_codes());
  const std::byte *oldScales =
      originalOf(plan_, unit_, scaleBand, encoding.original_scales());
  const std::byte *values = unit_.at(band.place);
  std::byte *codes = unit_.at(band.storedPlace),
            *scales = unit_.at(scaleBand.storedPlace);
  int64_t rows = band.elements() / format.columns;
  int64_t scaleBytes = format.scaleColumns() * scaleBand.width;
  for (int64_t row = 0; row < rows; row += format.blockRows) {
    int64_t count = std::min(format.blockRows, rows - row);
    uint64_t codeBytes = storedBytes(output, count * format.columns);
    uint64_t codeAt = storedBytes(output, row * format.columns),
             scaleAt = row / format.blockRows * scaleBytes;
    const std::byte *stripe = values + row * format.columns * band.width;
    if (oldCodes && oldScales &&
        kernels::standFor(format, count, oldCodes + codeAt, oldScales + scaleAt,
                          stripe)) {
      std::memcpy(codes + codeAt, oldCodes + codeAt, codeBytes);
      std::memcpy(scales + scaleAt, oldScales + scaleAt, scaleBytes);
      continue;
    }
    kernels::quantize(format, count, stripe, codes + codeAt, scales + scaleAt);
    band.anew = true;
  }
  return {};
}

/// The largest magnitude in all tensors that one instance gives and that have a
/// tensor scale. What Megatron holds in one parameter, other loaders join as
/// well, and then want one tensor scale for all pieces.
float BandEncoder::largestOfInstance(const Band &like) const {
  float most = 0;
  for (const Band &band : unit_.bands) {
    const plan::Output &output = outputOf(band);
    if (band.kind != like.kind || band.instance != like.instance ||
        !output.encoding())
      continue;
    kernels::BlockFormat format = formatOf(output);
    if (format.level == kernels::TensorScale::None)
      continue;
    float here = kernels::largestMagnitude(
        format, band.elements() / format.columns, unit_.at(band.place));
    if (!std::isfinite(here))
      return here;
    most = std::max(most, here);
  }
  return most;
}

/// A band that is a whole tensor under a tensor scale.
Result<void> BandEncoder::encodeTensor(Band &band, const Band &scales,
                                       const Band &one) {
  const plan::Output &output = outputOf(band);
  const plan::Encoding &encoding = *output.encoding();
  kernels::BlockFormat format = formatOf(output);
  int64_t rows = band.elements() / format.columns;
  const std::byte *values = unit_.at(band.place);
  const std::byte *oldCodes =
      originalOf(plan_, unit_, band, encoding.original_codes());
  const std::byte *oldScales =
      originalOf(plan_, unit_, scales, encoding.original_scales());
  const std::byte *oldOne =
      originalOf(plan_, unit_, one, encoding.original_tensor_scale());
  if (oldCodes && oldScales && oldOne) {
    std::memcpy(&format.tensorScale, oldOne, sizeof(float));
    if (kernels::standFor(format, rows, oldCodes, oldScales, values)) {
      std::memcpy(unit_.at(band.storedPlace), oldCodes, band.storedBytes);
      std::memcpy(unit_.at(scales.storedPlace), oldScales, scales.storedBytes);
      std::memcpy(unit_.at(one.storedPlace), oldOne, sizeof(float));
      return {};
    }
  }
  float amax = largestOfInstance(band);
  if (!std::isfinite(amax))
    return fail(
        "'{}': its weights, or those beside it in Megatron's parameter, "
        "hold infinity or NaN, of which NVFP4 has no scale (the "
        "largest magnitude is {}): correct the checkpoint, or choose "
        "another --quant",
        plan_.tensors()
            ->Get(plan_.items()->Get(band.item)->tensor())
            ->key()
            ->str(),
        amax);
  format.tensorScale = kernels::tensorScaleFor(format.level, amax);
  kernels::quantize(format, rows, values, unit_.at(band.storedPlace),
                    unit_.at(scales.storedPlace));
  std::memcpy(unit_.at(one.storedPlace), &format.tensorScale, sizeof(float));
  band.anew = true;
  return {};
}

} // namespace

std::optional<size_t> kernelOf(const plan::Plan &plan, const Unit &unit,
                               const Move &move) {
  const Band &band = unit.bands[move.band];
  const plan::Output &output =
      *plan.classes()->Get(band.kind)->outputs()->Get(band.output);
  if (move.tile.input < 0 || output.kernel() < 0)
    return std::nullopt;
  return output.kernel();
}

Result<void>
forEachKernelCall(const plan::Plan &plan, const Unit &unit, const Move &move,
                  const std::function<bool(const KernelCall &)> &visit) {
  const Band &band = unit.bands[move.band];
  const plan::Output &output =
      *plan.classes()->Get(band.kind)->outputs()->Get(band.output);
  const plan::Scales *scales = scalesOf(output, move.tile.input);
  const std::byte *scaleBytes = nullptr;
  float tensorScale = 1;
  if (scales) {
    auto address = wholeInput(plan, unit, band, scales->input());
    if (!address)
      return std::unexpected(address.error());
    scaleBytes = *address;
  }
  if (scales && scales->tensor_scale() >= 0) {
    auto address = wholeInput(plan, unit, band, scales->tensor_scale());
    if (!address)
      return std::unexpected(address.error());
    std::memcpy(&tensorScale, *address, sizeof(tensorScale));
  }
  std::byte *bytes = unit.at(band.place);
  bool more = true;
  auto callAll = [&](const Tile &tile,
                     const std::byte *source) -> Result<void> {
    std::byte *target = bytes + (tile.target - band.range.begin) * band.width;
    forEachKernelPiece(tile, scales, [&](const KernelPiece &piece) {
      int64_t element = tile.source + piece.source;
      KernelCall call{source +
                          (move.byteOf(element) - move.byteOf(tile.source)),
                      scaleBytes,
                      target + piece.target * band.width,
                      piece.geometry,
                      &move,
                      element};
      call.geometry.sourcePhase = element * move.bits % 8 / 4;
      call.geometry.tensorScale = tensorScale;
      more = more && visit(call);
      return more;
    });
    return {};
  };
  return forEachStaged(unit, move, move.tile, callAll);
}

Error lossOf(const plan::Plan &plan, const Unit &unit, const KernelCall &call,
             int64_t at) {
  const Move &move = *call.move;
  const Band &band = unit.bands[move.band];
  const KernelGeometry &g = call.geometry;
  int64_t element = call.element + at / g.columns * g.sourceRowStride +
                    at % g.columns * g.sourceColumnStride;
  const plan::Class &kind = *plan.classes()->Get(band.kind);
  uint32_t row = kind.sources()->Get(band.instance * kind.inputs()->size() +
                                     move.tile.input);
  std::string from = row < length(plan.source_names())
                         ? plan.source_names()->Get(row)->str()
                         : fmt::format("input {}", move.tile.input);
  uint32_t tensor = plan.items()->Get(band.item)->tensor();
  return {fmt::format("'{}': element {} (row-major index in '{}') does not fit "
                      "the target's dtype without losing bits: give --dtype to "
                      "round, or --dtype keep",
                      plan.tensors()->Get(tensor)->key()->str(), element,
                      from)};
}

Result<void> computeMoves(const plan::Plan &plan, const Kernels *kernels,
                          Unit &unit) {
  for (const Move &move : unit.moves) {
    const Band &band = unit.bands[move.band];
    std::byte *bytes = unit.at(band.place);
    Result<void> done;
    if (move.tile.input < 0)
      fillTile(move.tile, band.width,
               bytes + (move.tile.target - band.range.begin) * band.width);
    else if (!kernelOf(plan, unit, move))
      done = gather(unit, move, band, bytes);
    else if (kernels)
      done = applyKernel(plan, *kernels, unit, move);
    if (!done)
      return done;
  }
  return {};
}

Result<void> finishBands(const plan::Plan &plan, Unit &unit, bool withCrc) {
  BandEncoder encoder(plan, unit);
  for (size_t index = 0; index != unit.bands.size(); ++index) {
    const Band &band = unit.bands[index];
    const plan::Class &kind = *plan.classes()->Get(band.kind);
    if (!kind.outputs()->Get(band.output)->encoding())
      continue;
    if (Result<void> encoded = encoder.encode(index); !encoded)
      return encoded;
  }
  if (withCrc)
    for (Band &band : unit.bands)
      band.crc = crc32(0, {unit.at(band.storedPlace), band.storedBytes});
  return {};
}

Result<void> compute(const plan::Plan &plan, const Kernels &kernels, Unit &unit,
                     bool withCrc) {
  Result<void> done = computeMoves(plan, &kernels, unit);
  return done ? finishBands(plan, unit, withCrc) : done;
}

} // namespace mbc
