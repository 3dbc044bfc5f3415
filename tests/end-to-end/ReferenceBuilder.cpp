#include "tests/end-to-end/ReferenceBuilder.h"

#include "tests/end-to-end/Quantized.h"

#include <gtest/gtest.h>

namespace mbc::test {

ReferenceBuilder::ReferenceBuilder(const HfModel &model)
    : text_(textConfig(model.config)), tensors_(withValues(model.tensors())) {}

bool ReferenceBuilder::has(const char *field) const {
  return text_.contains(field) && !text_[field].is_null();
}

int64_t ReferenceBuilder::number(const char *field) const {
  return text_.at(field);
}

int64_t ReferenceBuilder::firstNumber(
    std::initializer_list<const char *> fields) const {
  for (const char *field : fields)
    if (has(field))
      return number(field);
  return 0;
}

bool ReferenceBuilder::hasTensor(const std::string &name) const {
  return tensors_.contains(name);
}

Tensor ReferenceBuilder::get(const std::string &name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    ADD_FAILURE() << "the reference looks for " << name;
    return {"BF16", {1, 1}, std::vector<std::byte>(2)};
  }
  return found->second;
}

Parameter &ReferenceBuilder::put(const std::string &name, Tensor whole,
                                 Cut cut) {
  Parameter &parameter = result_.parameters[name];
  parameter.whole = std::move(whole);
  parameter.cut = cut;
  parameter.layer = layer_;
  return parameter;
}

Parameter &ReferenceBuilder::copy(const std::string &mg, const std::string &hf,
                                  Cut cut) {
  return put(mg, get(hf), cut);
}

Parameter &ReferenceBuilder::sections(const std::string &mg,
                                      const std::vector<Tensor> &parts) {
  Parameter &parameter = put(mg, joinRows(parts), Cut::Sections);
  for (const Tensor &part : parts)
    parameter.sections.push_back(part.shape[0]);
  return parameter;
}

void ReferenceBuilder::alphas(const std::string &mg, const Tensor &scale) {
  put(mg + "alpha_pre", rows(scale, 0, 1));
  put(mg + "alpha_post", rows(scale, 1, 2));
  put(mg + "alpha_res", rows(scale, 2, 3));
}

Parameter &ReferenceBuilder::cutAt(const std::string &mg, Tensor whole,
                                   Extents extents) {
  Parameter &parameter = put(mg, std::move(whole), Cut::Sections);
  parameter.sections = std::move(extents);
  return parameter;
}

void ReferenceBuilder::mamba(const std::string &mg, const std::string &hf,
                             const MambaSizes &sizes) {
  const int64_t D = sizes.heads * sizes.width, S = sizes.groups * sizes.state;
  cutAt(mg + "in_proj.weight", get(hf + "in_proj.weight"),
        {D, D, S, S, sizes.heads})
      .heads = sizes.groups;
  cutAt(mg + "conv1d.weight", get(hf + "conv1d.weight"), {D, S, S});
  cutAt(mg + "conv1d.bias", get(hf + "conv1d.bias"), {D, S, S});
  for (const char *name : {"A_log", "D", "dt_bias"})
    copy(mg + name, hf + name, Cut::Rows);
  copy(mg + "norm.weight", hf + "norm.weight", Cut::Rows);
  copy(mg + "out_proj.weight", hf + "out_proj.weight", Cut::Columns);
}

Parameter &ReferenceBuilder::vocabulary(const std::string &mg,
                                        const std::string &hf) {
  result_.vocabulary.insert(mg);
  return copy(mg, hf, Cut::Rows);
}

} // namespace mbc::test
