#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/Json.h"
#include "runtime/PickleTree.h"

namespace mbc {

/// What the folder of an iteration holds beside the tensors.

/// The keys of a common state that mbc knows, as JSON: args,
/// checkpoint_version, iteration, content_metadata.
Result<Json> commonState(const PickleTree &tree, PickleValue dict);

/// mbc/record.json, mbc/hf/config.json and the sidecars, where they exist.
Result<void> readRecord(Checkpoint &checkpoint);

/// The folder that a tracker file in `root` points to.
Result<std::string> followTracker(const std::string &root);

/// Whether `directory` holds one iteration, and of which format.
bool isTorchDist(const std::string &directory);
bool isTorchRanks(const std::string &directory);

} // namespace mbc
