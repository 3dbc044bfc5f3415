#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// Small mistakes made on purpose in the text of a spec.
namespace mbc::test {

/// A file of a spec, by the name it has in a bundle.
struct SpecFile {
  std::string name, text;
};

/// Bytes [begin, end) of a file become `text`.
struct Edit {
  size_t file = 0, begin = 0, end = 0;
  std::string text;
};

struct Mutant {
  std::string damage; ///< the kind of mistake, in words
  std::vector<Edit> edits;
};

/// Every mistake at every place where it can be made, in the order of the
/// files; two that give the same text count once.
std::vector<Mutant> mutantsOf(const std::vector<SpecFile> &files);

/// The files as one text, which `dsl::parseText` takes for a spec.
std::string bundleOf(const std::vector<SpecFile> &files);
std::string bundleOf(const std::vector<SpecFile> &files, const Mutant &mutant);

/// "lib/mlp.mbspec:5 gate:n -> up:n", an edit after the other.
std::string describe(const std::vector<SpecFile> &files, const Mutant &mutant);

} // namespace mbc::test
