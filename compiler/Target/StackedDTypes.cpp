#include "compiler/Target/Target.h"

#include "compiler/Binding/BindCommon.h"

#include <fmt/format.h>

namespace mbc::compiler {
namespace {

struct Stored {
  DType dtype;
  std::string_view name; ///< of the first parameter
};

/// Whether some rule gives parameters of several dtypes: few models do.
bool mixesDTypes(const Binding &binding) {
  std::unordered_map<const dsl::Mapping *, DType> first;
  for (const BoundClass &bound : binding.classes)
    for (const OperandType &operand : bound.type.megatron)
      if (first.try_emplace(bound.type.mapping, operand.dtype).first->second !=
          operand.dtype)
        return true;
  return false;
}

} // namespace

void checkStackedDTypes(const dsl::Model &model, const Binding &binding,
                        dsl::Diagnostics &diagnostics) {
  if (!mixesDTypes(binding))
    return;
  KeyRules rules = keyRules(model);
  std::unordered_map<std::string, Stored> stored;
  for (const BoundClass &bound : binding.classes)
    for (uint32_t instance : bound.instances)
      for (size_t k = 0; k != bound.type.megatron.size(); ++k) {
        DType dtype = bound.type.megatron[k].dtype;
        const std::string &name = model.instances[instance].megatron[k];
        std::string key = torchDistKey(name, "", rules).key;
        const Stored &first =
            stored.try_emplace(std::move(key), Stored{dtype, name})
                .first->second;
        if (first.dtype == dtype)
          continue;
        ruleError(
            *bound.type.mapping,
            fmt::format("{} is {}, {} is {}, and torch_dist has one tensor for "
                        "both; give --dtype, or --format torch",
                        first.name, safetensorsName(first.dtype), name,
                        safetensorsName(dtype)),
            diagnostics);
        return;
      }
}

} // namespace mbc::compiler
