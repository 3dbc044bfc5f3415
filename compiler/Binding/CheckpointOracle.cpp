#include "compiler/Binding/CheckpointOracle.h"

#include "compiler/Binding/QuantizedTensors.h"

namespace mbc::compiler {
namespace {

std::vector<int64_t> extentsOf(const Checkpoint &checkpoint,
                               std::string_view name) {
  uint32_t found = checkpoint.find(name);
  if (found == Checkpoint::none)
    return {};
  Shape shape = shapeOfValues(checkpoint, checkpoint.tensors[found]);
  return {shape.begin(), shape.end()};
}

std::vector<std::string> withPrefix(const Checkpoint &checkpoint,
                                    std::string_view prefix) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i != checkpoint.tensors.size(); ++i)
    if (std::string_view name = checkpoint.tensors[i].name;
        name.starts_with(prefix) && checkpoint.find(name) == i &&
        !isCompanion(checkpoint, name))
      names.emplace_back(name);
  return names;
}

} // namespace

dsl::NameOracle oracleOf(const Checkpoint &checkpoint) {
  dsl::NameOracle oracle;
  oracle.known = checkpoint.format == Format::Safetensors ? dsl::Side::Hf
                                                          : dsl::Side::Megatron;
  oracle.exists = [&](std::string_view name) {
    return checkpoint.find(name) != Checkpoint::none;
  };
  oracle.extentsOf = [&](std::string_view name) {
    return extentsOf(checkpoint, name);
  };
  oracle.withPrefix = [&](std::string_view prefix) {
    return withPrefix(checkpoint, prefix);
  };
  return oracle;
}

} // namespace mbc::compiler
