#pragma once

#include "tests/end-to-end/Tensors.h"

#include <string>
#include <vector>

namespace mbc::test {

/// The options for names as the fixture has them, where an export without a
/// record would take another form of the spec.
std::vector<std::string> publishedForm(const std::string &name);

/// What can be compared then: qwen3_5_moe has the experts of a layer in one
/// tensor and those of an MTP layer one by one; a form is asked for everywhere.
Tensors withOneForm(const std::string &name, Tensors tensors);

} // namespace mbc::test
