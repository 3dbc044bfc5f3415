#include "tests/end-to-end/Fixture.h"

#include "tests/end-to-end/Families.h"
#include "tests/end-to-end/Quantized.h"
#include "tests/end-to-end/Scratch.h"
#include "tests/fixtures/HfDirectory.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace mbc::test {

using fixtures::ManifestTensor;

ManifestTensor &HfModel::at(const std::string &name) {
  for (auto &file : files)
    for (ManifestTensor &tensor : file.tensors)
      if (tensor.name == name)
        return tensor;
  ADD_FAILURE() << "the fixture has no " << name;
  return files.front().tensors.front();
}

void HfModel::erase(const std::string &name) {
  size_t erased = 0;
  for (auto &file : files)
    erased += std::erase_if(
        file.tensors, [&](const ManifestTensor &t) { return t.name == name; });
  EXPECT_EQ(erased, 1u) << name;
}

void HfModel::add(const std::string &name, const std::string &dtype,
                  Extents shape) {
  fixtures::ManifestTensor &tensor = files.back().tensors.emplace_back();
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
}

namespace {

/// `count` elements from `start` on.
std::vector<std::byte> contentOf(const HfModel &model,
                                 const ManifestTensor &tensor, uint64_t start,
                                 uint64_t count) {
  auto own = model.contents.find(tensor.name);
  if (own == model.contents.end())
    return fixtures::contentOf(tensor, start, count);
  const std::span bytes(own->second);
  const uint64_t width = fixtures::elementSize(tensor.dtype);
  const auto part = bytes.subspan(start * width, count * width);
  return {part.begin(), part.end()};
}

} // namespace

Tensors HfModel::tensors() const {
  Tensors all;
  for (const auto &file : files)
    for (const ManifestTensor &tensor : file.tensors)
      all[tensor.name] = {tensor.dtype, tensor.shape,
                          contentOf(*this, tensor, 0, tensor.elements())};
  return all;
}

void HfModel::write(const std::string &directory) const {
  writeText(directory + "/config.json", config.dump(2));
  for (const auto &file : files) {
    auto bytes = fixtures::writeSafetensors(
        directory + "/" + file.name, file.tensors,
        [&](const ManifestTensor &tensor, uint64_t start, uint64_t count) {
          return contentOf(*this, tensor, start, count);
        });
    ASSERT_TRUE(bytes) << bytes.error().message;
  }
  if (files.size() > 1) {
    auto index = fixtures::writeIndex(
        directory + "/model.safetensors.index.json", files);
    ASSERT_TRUE(index) << index.error().message;
  }
}

HfModel fixture(const std::string &name) {
  const std::string directory = MBC_TEST_DATA "/" + name;
  HfModel model;
  model.config = Json::parse(readText(directory + "/config.json"));
  auto files = fixtures::readManifest(directory);
  EXPECT_TRUE(files) << files.error().message;
  model.files = std::move(*files);
  return model;
}

Json expected(const std::string &name) {
  const std::string text =
      readText(MBC_TEST_DATA "/" + name + "/expected.json");
  return text.empty() ? Json() : Json::parse(text);
}

std::vector<std::string> allFixtures() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(MBC_TEST_DATA))
    if (std::filesystem::exists(entry.path() / "manifest.json"))
      names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> importOptions(const std::string &name) {
  if (familyOf(fixture(name).config).mtpCopies)
    return {"--copies", "drop"};
  return {};
}

const Json &textConfig(const Json &config) {
  const Json *part = &config;
  for (const char *name : {"thinker_config", "llm_config", "text_config"})
    if (part->contains(name))
      part = &(*part)[name];
  return *part;
}

namespace {

/// gpt-oss has values of MXFP4 as [E, out, in], BF16 experts as [E, in, out].
Tensor eachTransposed(const Tensor &experts) {
  std::vector<Tensor> turned;
  for (int64_t e = 0; e != experts.shape[0]; ++e)
    turned.push_back(transposed(pick(experts, e)));
  return reshaped(joinRows(turned),
                  {experts.shape[0], experts.shape[2], experts.shape[1]});
}

} // namespace

/// What no export makes: rotary frequencies, and MTP copies that were dropped.
static void eraseDropped(Tensors &tensors, const HfModel &model) {
  std::erase_if(tensors, [](const auto &entry) {
    return entry.first.ends_with("rotary_emb.inv_freq");
  });
  if (!familyOf(model.config).mtpCopies)
    return;
  const Json &text = textConfig(model.config);
  const std::string mtp =
      "model.layers." + std::to_string(int(text["num_hidden_layers"]));
  tensors.erase(mtp + ".embed_tokens.weight");
  tensors.erase(mtp + ".shared_head.head.weight");
}

Tensors exportOf(const HfModel &model) {
  const Tensors stored = model.tensors();
  Tensors result = withValues(stored);
  for (auto &[name, tensor] : result)
    if (stored.contains(name + "_blocks"))
      tensor = eachTransposed(tensor);
  eraseDropped(result, model);
  return result;
}

Tensors quantizedExportOf(const HfModel &model) {
  Tensors result = model.tensors();
  eraseDropped(result, model);
  return result;
}

} // namespace mbc::test
