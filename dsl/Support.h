#pragma once

#include "dsl/Ast.h"

#include <string>
#include <vector>

namespace mbc::dsl {

/// What a spec says of itself beyond its header, for the list of families.
struct SpecSupport {
  /// "experts", "MTP", "vision", "audio": what it has rules for beside a dense
  /// decoder.
  std::vector<std::string> parts;
  /// Forms of its `either`s, by their labels, in alphabetical order.
  std::vector<std::string> forms;
  /// Its comments that begin with "Uncertain:", without that word, each in one
  /// line; those of the files that it uses come last.
  std::vector<std::string> uncertain;
};
SpecSupport support(const Spec &spec);

} // namespace mbc::dsl
