#include "compiler/Binding/Bind.h"
#include "compiler/Binding/QuantizedTensors.h"

#include <algorithm>

namespace mbc::compiler {

bool Record::isQuantized(const RecordedTensor &tensor) const {
  if (!mayBeCodes(tensor.dtype))
    return false;
  if (tensor.dtype == DType::F8_E4M3)
    return true;
  return std::ranges::any_of(scaleNames(tensor.name), [&](const auto &name) {
    return find(name) != nullptr;
  });
}

bool Record::isNvfp4(const RecordedTensor &tensor) const {
  return std::ranges::any_of(
      tensorScaleNames(tensor.name),
      [&](const auto &name) { return find(name) != nullptr; });
}

bool Record::hasQuantized() const {
  return std::ranges::any_of(
      tensors, [&](const auto &tensor) { return isQuantized(tensor); });
}

bool Record::returns(std::string_view name) const {
  std::string values = valuesOfCompanion(name);
  const RecordedTensor *tensor = values.empty() ? nullptr : find(values);
  return !tensor || !isQuantized(*tensor);
}

} // namespace mbc::compiler
