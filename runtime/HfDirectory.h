#pragma once

#include "runtime/Checkpoint.h"

namespace mbc {

/// Reads the headers of a Hugging Face directory: config.json, the index and
/// all safetensors files that it names (or model.safetensors without index);
/// where there are none, those of pytorch_model.bin in the same way.
/// The headers are the evidence; the index has to agree with them.
Result<Checkpoint> openHfDirectory(const std::string &directory);

/// The files of `directory` that travel along with the weights: regular, not
/// hidden, no weights, no index, neither config.json nor README.md. Sorted.
Result<std::vector<std::string>> listSidecars(const std::string &directory);

} // namespace mbc
