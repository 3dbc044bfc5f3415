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

static bool hasEnding(const Target &target, std::string_view ending) {
  for (const TargetTensor &tensor : target.tensors)
    if (tensor.key.ends_with(ending))
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

/// Packed FP4 as compressed-tensors declares it. Activations are not quantised.
static Json compressedFp4(const char *format, const char *strategy,
                          int groupSize, const char *scaleDType) {
  Json weights = {{"num_bits", 4},
                  {"type", "float"},
                  {"strategy", strategy},
                  {"group_size", groupSize},
                  {"symmetric", true},
                  {"dynamic", false},
                  {"scale_dtype", scaleDType}};
  Json group = {{"format", format},
                {"targets", Json::array({"Linear"})},
                {"weights", weights}};
  return {{"config_groups", {{"group_0", group}}},
          {"format", format},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

// ModelOpt's name of NVFP4 without scales of activations, which Megatron's
// weights do not tell.
static constexpr const char *weightOnlyNvfp4 = "W4A16_NVFP4";
static constexpr int nvfp4Group = 16;

static Json producer() { return {{"name", "mbc"}, {"version", "0.1"}}; }

static Json modelOptNvfp4() {
  Json weights = {{"dynamic", false},
                  {"num_bits", 4},
                  {"type", "float"},
                  {"group_size", nvfp4Group}};
  Json group = {{"targets", Json::array({"Linear"})}, {"weights", weights}};
  return {{"config_groups", {{"group_0", group}}},
          {"producer", producer()},
          {"quant_algo", weightOnlyNvfp4},
          {"quant_method", "modelopt"}};
}

static bool isCompressed(const Target &target) {
  return hasEnding(target, "_global_scale");
}

static Json nvfp4(const Target &target) {
  return isCompressed(target)
             ? compressedFp4("nvfp4-pack-quantized", "tensor_group", nvfp4Group,
                             "torch.float8_e4m3fn")
             : modelOptNvfp4();
}

std::string modelOptConfig(const std::string &format, const Target &target) {
  if (format != "nvfp4" || isCompressed(target))
    return {};
  Json quantization = {{"exclude_modules", unquantizedModules(target)},
                       {"group_size", nvfp4Group},
                       {"kv_cache_quant_algo", nullptr},
                       {"quant_algo", weightOnlyNvfp4}};
  Json file = {{"producer", producer()}, {"quantization", quantization}};
  return file.dump(2) + "\n";
}

std::string quantizationConfig(const std::string &format,
                               const Quantization &declared,
                               const Target &target) {
  bool isFp8 = format == "fp8-block",
       blocks = format == "mxfp4" && hasEnding(target, "_blocks");
  Json config;
  if (isFp8)
    config = fp8(declared);
  else if (blocks)
    config["quant_method"] = "mxfp4";
  else if (format == "nvfp4")
    config = nvfp4(target);
  else
    config = compressedFp4("mxfp4-pack-quantized", "group", 32, "torch.uint8");
  config[isFp8 || blocks ? "modules_to_not_convert" : "ignore"] =
      unquantizedModules(target);
  // As deep as a field of config.json is.
  std::string text = config.dump(2), indented;
  for (char c : text)
    (indented += c) += c == '\n' ? "  " : "";
  return indented;
}

} // namespace mbc::compiler
