#pragma once

#include "runtime/DType.h"
#include "runtime/Plan_generated.h"
#include "runtime/Result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mbc {

/// The plan version that this runtime reads.
inline constexpr uint32_t planVersion = 1;

/// The last 8 bytes of a plan: "MBCE" and the CRC-32 of all before it, so that
/// a flipped bit is noticed wherever it is.
std::string planSeal(std::span<const uint8_t> bytes);

/// A verified plan: a file mapped read-only, or bytes held in memory.
/// Everything that its tables refer to (files, items, sources, inputs,
/// kernels) exists, and boxes stay inside their tensors. Immutable, so any
/// number of threads may read it. Moved, never copied.
class Plan {
public:
  /// Maps and verifies `path`.
  static Result<Plan> open(const std::string &path);
  /// Verifies a plan in memory; `name` stands for it in messages.
  static Result<Plan> fromBytes(std::vector<uint8_t> bytes, std::string name);

  const plan::Plan &operator*() const { return *root_; }
  const plan::Plan *operator->() const { return root_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

private:
  Plan() = default;
  Result<void> verify();

  std::string name_;
  std::shared_ptr<const void> owner_; ///< the mapping or the vector
  std::span<const uint8_t> bytes_;
  const plan::Plan *root_ = nullptr;
};

/// What a plan amounts to, for `--dry-run` and summaries. Bytes count whole
/// files, framing included.
struct PlanTotals {
  uint64_t sourceBytes = 0;
  uint64_t targetBytes = 0;
  uint64_t instances = 0;
  uint64_t ranks = 0; ///< highest writing rank + 1
  /// Of the rank that writes fewest and of the one that writes most.
  uint64_t leastOfRank = 0, mostOfRank = 0;
};
PlanTotals totals(const plan::Plan &plan);

/// Tensors that are stored as codes and scales.
struct EncodedTensors {
  uint64_t all = 0, withOriginals = 0;
};
EncodedTensors encodedTensors(const plan::Plan &plan);

/// Rows of a class's instance table.
size_t instanceCount(const plan::Class &kind);

/// Bytes of an output, or of so many of its elements, in the file: of an
/// encoded one, of its codes.
uint64_t storedBytes(const plan::Output &output, int64_t elements);
inline uint64_t storedBytes(const plan::Output &output) {
  return storedBytes(output, output.elements());
}

int64_t divideUp(int64_t extent, int64_t block);

/// Whether an output is made where the values before it are encoded.
bool isCompanion(const plan::Output &output);
/// Blocks that lie one below the other in an encoded output.
int64_t scaleRows(const plan::Output &output);
/// Whether one scale is for all scales of an encoded output.
bool hasTensorScale(const plan::Encoding &encoding);

/// An encoded output is made in stripes of whole blocks. The first code under a
/// tensor scale needs the last value: there, all is one stripe.
int64_t stripeRows(const plan::Output &output);
int64_t stripeCount(const plan::Output &output);
/// Blocks that lie side by side, each of which has a scale.
int64_t scaleColumns(const plan::Encoding &encoding);

/// Length of a FlatBuffers vector or string, 0 where the field is absent.
template <typename Vector> size_t length(const Vector *vector) {
  return vector ? vector->size() : 0;
}

} // namespace mbc
