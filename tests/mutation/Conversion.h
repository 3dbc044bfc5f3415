#pragma once

#include "runtime/CompilerInterface.h"
#include "runtime/Result.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

/// One conversion as the command does it, in this process.
namespace mbc::test {

/// Source and layout. Copies of tied tensors are not compared: those of some
/// fixtures differ on purpose.
struct Conversion {
  std::string source, spec, format, experts;
  int64_t tp = 1, pp = 1, ep = 1;

  mbc_compile_options options() const;
};

/// What `mbc check` says.
struct Findings {
  bool holds = false;
  std::set<std::string> remarks; ///< warnings and notes
};
Findings check(const Conversion &conversion);

/// The plan's bytes, empty if the compiler refuses.
std::vector<uint8_t> compile(const Conversion &conversion);

/// A plan without what names the spec's text: lines, hashes, remarks.
std::string essence(const std::vector<uint8_t> &plan);

/// What a target holds, by parts that can differ.
struct Contents {
  std::map<std::string, std::string> tensors; ///< name and rank: type and hash
  std::map<std::string, std::string> places;  ///< shapes of stored pieces
  std::set<std::string> objects;              ///< keys of byte objects
  std::string args, config;

  friend bool operator==(const Contents &, const Contents &) = default;
};
Result<Contents> convert(const Conversion &conversion,
                         const std::vector<uint8_t> &plan,
                         const std::string &target);

} // namespace mbc::test
