#pragma once

#include "runtime/Checkpoint.h"

namespace mbc {

/// Reads the headers of the torch_dist checkpoint in `directory` (the folder
/// of one iteration). Stacked layers and experts become a tensor each, stored
/// sections are joined; no element is covered twice, and what is not covered is
/// in `holes`.
Result<Checkpoint> openTorchDist(const std::string &directory);

/// Puts pieces in row-major order of their starts.
void sortPieces(std::vector<StoredPiece> &pieces);

/// Checks that the pieces of a tensor, which are sorted, cover nothing twice.
/// What they do not cover is added to `holes`. `described` is how messages call
/// the tensor.
Result<void> checkCoverage(const StoredTensor &tensor,
                           const std::string &described,
                           std::vector<StoredHole> &holes);

} // namespace mbc
