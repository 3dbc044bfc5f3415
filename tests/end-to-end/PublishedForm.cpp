#include "tests/end-to-end/PublishedForm.h"

#include <map>

namespace mbc::test {

std::vector<std::string> publishedForm(const std::string &name) {
  static const std::map<std::string, std::vector<std::string>> forms{
      {"deepseek_v4", {"--form", "direct"}},
      {"deepseek_v4_mxfp4", {"--form", "direct"}},
      {"gemma4_moe", {"--hf-experts", "fused"}},
      {"glm_moe_dsa_fused", {"--hf-experts", "fused"}},
      {"llava_onevision1_5", {"--form", "nested"}},
      {"nemotron_h_omni", {"--form", "mtp_inside"}},
  };
  auto found = forms.find(name);
  return found == forms.end() ? std::vector<std::string>() : found->second;
}

Tensors withOneForm(const std::string &name, Tensors tensors) {
  if (name == "qwen3_5_moe")
    std::erase_if(tensors, [](const auto &entry) {
      return entry.first.contains(".mlp.experts.");
    });
  return tensors;
}

} // namespace mbc::test
