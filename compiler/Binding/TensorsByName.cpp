#include "compiler/Binding/TensorsByName.h"

namespace mbc::compiler {

TensorsByName::TensorsByName(const Checkpoint &checkpoint)
    : next_(checkpoint.tensors.size(), none) {
  first_.reserve(checkpoint.tensors.size() * 2);
  // Backwards, so that a name's entries are found in the files' order.
  for (uint32_t i = checkpoint.tensors.size(); i-- != 0;) {
    auto [it, isNew] = first_.try_emplace(checkpoint.tensors[i].name, i);
    if (!isNew) {
      next_[i] = it->second;
      it->second = i;
    }
  }
}

uint32_t TensorsByName::find(std::string_view name) const {
  auto it = first_.find(name);
  return it == first_.end() ? none : it->second;
}

} // namespace mbc::compiler
