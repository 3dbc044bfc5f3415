#include "compiler/Target/QuantizationConfig.h"

#include "runtime/Json.h"

#include <nlohmann/json.hpp>

namespace mbc::compiler {

/// Modules whose weight is a matrix and stays as it is. Loaders that replace
/// every linear layer by a quantised one have to leave these.
static std::vector<std::string> unquantizedModules(const Target &target) {
  constexpr std::string_view weight = ".weight";
  std::vector<std::string> modules;
  for (const TargetTensor &tensor : target.tensors)
    if (tensor.key.ends_with(weight) && tensor.shape.rank() == 2 &&
        (tensor.dtype == DType::BF16 || tensor.dtype == DType::F16 ||
         tensor.dtype == DType::F32))
      modules.push_back(
          tensor.key.substr(0, tensor.key.size() - weight.size()));
  return modules;
}

static bool hasBlocks(const Target &target) {
  for (const TargetTensor &tensor : target.tensors)
    if (tensor.key.ends_with("_blocks"))
      return true;
  return false;
}

static Json fp8(const Quantization &declared) {
  auto [rows, columns] =
      declared.block.value_or(std::array<int64_t, 2>{128, 128});
  return {{"activation_scheme", "dynamic"},
          {"fmt", "e4m3"},
          {"quant_method", "fp8"},
          {"weight_block_size", Json::array({rows, columns})}};
}

static Json compressedMxfp4() {
  Json weights = {{"num_bits", 4},
                  {"type", "float"},
                  {"strategy", "group"},
                  {"group_size", 32},
                  {"symmetric", true},
                  {"dynamic", false},
                  {"scale_dtype", "torch.uint8"}};
  Json group = {{"format", "mxfp4-pack-quantized"},
                {"targets", Json::array({"Linear"})},
                {"weights", weights}};
  return {{"config_groups", {{"group_0", group}}},
          {"format", "mxfp4-pack-quantized"},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

std::string quantizationConfig(const std::string &format,
                               const Quantization &declared,
                               const Target &target) {
  bool isFp8 = format == "fp8-block", blocks = !isFp8 && hasBlocks(target);
  Json config;
  if (isFp8)
    config = fp8(declared);
  else if (blocks)
    config["quant_method"] = "mxfp4";
  else
    config = compressedMxfp4();
  config[isFp8 || blocks ? "modules_to_not_convert" : "ignore"] =
      unquantizedModules(target);
  // As deep as a field of config.json is.
  std::string text = config.dump(2), indented;
  for (char c : text)
    (indented += c) += c == '\n' ? "  " : "";
  return indented;
}

} // namespace mbc::compiler
