#pragma once

#include "runtime/Checkpoint.h"

namespace mbc {

/// Reads the headers of a per-rank checkpoint: one mp_rank_* folder for each
/// pair of tensor and expert rank of each pipeline stage. The sizes come from
/// the saved arguments, never from the names of the folders. There is one
/// tensor per rank and name; layers and experts are counted over the whole
/// model, shapes are the rank's.
Result<Checkpoint> openTorchRanks(const std::string &directory);

} // namespace mbc
