#pragma once

#include "compiler/Binding/Bind.h"

#include <span>
#include <string>

namespace mbc::compiler {

/// `mbc check --proof`: for each class its rule, instances, the sizes at which
/// each element was shown to come back, and what does not come back and why.
/// `trips` has one entry a class of `binding`, each with one result for each of
/// `sizes`. As text, or as a JSON array.
std::string proofText(const dsl::Model &model, const Binding &binding,
                      std::span<const RoundTrip> trips,
                      std::span<const ShardLayout> sizes);
std::string proofJson(const dsl::Model &model, const Binding &binding,
                      std::span<const RoundTrip> trips,
                      std::span<const ShardLayout> sizes);

} // namespace mbc::compiler
