#pragma once

#include "runtime/Checkpoint.h"

namespace mbc {

/// Reads the headers of the torch_dist checkpoint in `directory` (the folder
/// of one iteration). Stacked layers and experts become a tensor each, stored
/// sections are joined; every tensor is checked to be covered exactly once.
Result<Checkpoint> openTorchDist(const std::string &directory);

/// Checks that the pieces of a tensor cover it exactly once. Sorts them.
/// `described` is how messages call the tensor.
Result<void> checkCoverage(StoredTensor &tensor, const std::string &described);

} // namespace mbc
