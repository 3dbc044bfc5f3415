#pragma once

#include "tests/end-to-end/Fixture.h"

namespace mbc::test {

/// Megatron's arguments in the common.pt of a torch_dist, by a reader of
/// pickles that shares nothing with the product. Fails the running test and is
/// null if there are none.
Json megatronArgs(const std::string &checkpoint);

} // namespace mbc::test
