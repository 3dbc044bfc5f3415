#pragma once

#include "runtime/TorchDistIndex.h"

namespace mbc {

/// The parameters of the model: a tensor for each layer and expert of a stacked
/// key, and one for all sections of a parameter. Chunks already point to data.
/// No element of a tensor is covered twice; what is not covered is added to
/// `holes`. `path` is the index's, for messages; what the tensors point to goes
/// into `store`.
Result<std::vector<StoredTensor>> unstack(const TorchDistIndex &index,
                                          const std::string &path,
                                          HeaderStore &store,
                                          std::vector<StoredHole> &holes);

} // namespace mbc
