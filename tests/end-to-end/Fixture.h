#pragma once

#include "tests/end-to-end/Tensors.h"
#include "tests/fixtures/Manifest.h"

#include <nlohmann/json.hpp>

namespace mbc::test {

using Json = nlohmann::json;

/// A Hugging Face checkpoint in memory. Tests change it before they write it.
struct HfModel {
  Json config;
  std::vector<fixtures::ManifestFile> files;
  /// Bytes of tensors that are not the fill's.
  std::map<std::string, std::vector<std::byte>> contents;

  /// The description of a tensor; fails the running test if there is none.
  fixtures::ManifestTensor &at(const std::string &name);
  void erase(const std::string &name);
  /// Appends to the last file.
  void add(const std::string &name, const std::string &dtype, Extents shape);

  /// Every tensor with its bytes.
  Tensors tensors() const;
  /// config.json, weight files and, for more than one, the index.
  void write(const std::string &directory) const;
};

/// tests/data/NAME.
HfModel fixture(const std::string &name);
/// tests/data/NAME/expected.json, or null.
Json expected(const std::string &name);

/// The folders of tests/data, all of which the specs must convert, and the
/// options each needs (the extra copies of deepseek_v3 differ from the main
/// tensors on purpose).
std::vector<std::string> allFixtures();
std::vector<std::string> importOptions(const std::string &name);

/// What an export of this model must hold when nothing was changed: quantised
/// weights as BF16, no scales, no dropped copies, no rotary frequencies (which
/// follow from config.json), all else byte for byte.
Tensors exportOf(const HfModel &model);
/// The same with codes and scales as they were, for --quant keep.
Tensors quantizedExportOf(const HfModel &model);

/// The part of config.json that describes the language model.
const Json &textConfig(const Json &config);

} // namespace mbc::test
