#pragma once

#include "runtime/DType.h"
#include "runtime/PickleTree.h"
#include "runtime/Shape.h"

namespace mbc {

/// A tensor as a pickle describes it: contiguous, row-major, starting
/// `storageOffset` elements into the storage data/<key>.
struct PickledTensor {
  std::string_view key;
  DType dtype = DType::F32;
  Shape shape;
  int64_t storageOffset = 0;
};

/// Whether a value is a tensor or a parameter.
bool isTensor(const PickleTree &tree, PickleValue value);

/// Takes a tensor apart. Views that are not contiguous, unknown dtypes and bad
/// storage keys are errors that name `tensor` and `origin`.
Result<PickledTensor> readTensor(const PickleTree &tree, PickleValue value,
                                 std::string_view origin,
                                 std::string_view tensor);

/// Reads a torch.Size or tuple of integers.
Result<Shape> readShape(const PickleTree &tree, PickleValue value,
                        std::string_view origin, std::string_view tensor);

} // namespace mbc
