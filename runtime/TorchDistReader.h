#pragma once

#include "runtime/Checkpoint.h"

namespace mbc {

/// Reads the headers of the torch_dist checkpoint in `directory` (the folder
/// of one iteration). Stacked layers and experts become a tensor each, stored
/// sections are joined; every tensor is checked to be covered exactly once.
Result<Checkpoint> openTorchDist(const std::string &directory);

/// Puts pieces in row-major order of their starts.
void sortPieces(std::vector<StoredPiece> &pieces);

/// Checks that the pieces of a tensor, which are sorted, cover it exactly once.
/// `described` is how messages call the tensor.
Result<void> checkCoverage(const StoredTensor &tensor,
                           const std::string &described);

} // namespace mbc
