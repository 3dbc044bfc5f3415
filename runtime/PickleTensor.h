#pragma once

#include "runtime/DType.h"
#include "runtime/PickleTree.h"
#include "runtime/Shape.h"

namespace mbc {

/// A tensor as a pickle describes it: without gaps, starting `storageOffset`
/// elements into the storage of that key, which has `storageElements`.
struct PickledTensor {
  std::string_view key;
  DType dtype = DType::F32;
  Shape shape;
  /// The axes as they follow one another in the storage, the outermost first,
  /// if that is not their own order (`x.t()`); else empty.
  Shape order;
  int64_t storageOffset = 0, storageElements = 0;
};

/// Whether a value is a tensor or a parameter.
bool isTensor(const PickleTree &tree, PickleValue value);

/// Takes a tensor apart. Views with gaps, unknown dtypes and bad storage keys
/// are errors that name `tensor` and `origin`.
Result<PickledTensor> readTensor(const PickleTree &tree, PickleValue value,
                                 std::string_view origin,
                                 std::string_view tensor);

/// Reads a torch.Size or tuple of integers.
Result<Shape> readShape(const PickleTree &tree, PickleValue value,
                        std::string_view origin, std::string_view tensor);

} // namespace mbc
