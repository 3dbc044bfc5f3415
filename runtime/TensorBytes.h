#pragma once

#include "runtime/Checkpoint.h"

#include <functional>
#include <span>

namespace mbc {

/// Part of a tensor, in elements of the whole tensor.
struct TensorBox {
  Shape start, shape;
};

/// The whole of a tensor as one box.
TensorBox wholeBox(const StoredTensor &tensor);

/// Hands the bytes of `box` to `sink`, row-major, in runs of at most 8 MiB. The
/// tensor's pieces have to cover the box. A tensor with an `order` is in memory
/// as a whole, and so handed over whatever the box. Thread-safe.
Result<void>
streamBox(const Checkpoint &checkpoint, const StoredTensor &tensor,
          const TensorBox &box,
          const std::function<void(std::span<const std::byte>)> &sink);

/// Lower-case SHA-256 over the boxes, one after the other.
Result<std::string> hashBoxes(const Checkpoint &checkpoint,
                              const StoredTensor &tensor,
                              std::span<const TensorBox> boxes);

} // namespace mbc
