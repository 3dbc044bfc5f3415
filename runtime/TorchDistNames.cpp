#include "runtime/TorchDistNames.h"

#include "runtime/MegatronNames.h"

#include <algorithm>
#include <array>
#include <vector>

namespace mbc {
namespace {

constexpr char layerMark = '#';

std::vector<std::string> split(std::string_view name) {
  std::vector<std::string> segments;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    segments.emplace_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return segments;
}

bool isNumber(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Takes `query` from `in_proj.weight.query`, and the halves that are stored
/// under names of their own from `linear_fc1.weight_w`, `..._v`.
std::string takeSection(std::vector<std::string> &segments) {
  size_t count = segments.size();
  if (count >= 3 &&
      (segments[count - 2] == "weight" || segments[count - 2] == "bias") &&
      (segments[count - 3] == "in_proj" || segments[count - 3] == "conv1d")) {
    std::string section = segments.back();
    segments.pop_back();
    return section;
  }
  std::string &last = segments.back();
  if (last.ends_with("_w") || last.ends_with("_v")) {
    if (std::string stem = last.substr(0, last.size() - 2);
        stem == "weight" || stem == "bias") {
      std::string section = last.substr(last.size() - 1);
      last = stem;
      return section == "w" ? "gate_half" : "up_half";
    }
  }
  return {};
}

} // namespace

KeyForm parseTorchDistKey(std::string_view key) {
  KeyForm form;
  std::vector<std::string> segments = split(key);
  if (isTowerName(key)) {
    form.name = key;
    return form;
  }
  form.section = takeSection(segments);
  std::string expertNumber;
  for (size_t i = 0; i + 1 < segments.size(); ++i) {
    if (segments[i] == "decoder" && segments[i + 1] == "layers" &&
        i + 2 < segments.size() && !isNumber(segments[i + 2])) {
      form.layerAxis = true;
      segments.insert(segments.begin() + static_cast<ptrdiff_t>(i + 2),
                      std::string(1, layerMark));
    }
    if (segments[i] == "experts" && segments[i + 1] == "experts") {
      auto second = segments.begin() + static_cast<ptrdiff_t>(i + 1);
      second = segments.erase(second);
      form.expertAxis = second == segments.end() || !isNumber(*second);
      if (!form.expertAxis) {
        expertNumber = *second;
        segments.erase(second);
      }
    }
    if (segments[i] == "transformer_layer" && i >= 3 &&
        segments[i - 3] == "mtp")
      segments[i] = "mtp_model_layer";
  }
  for (const std::string &segment : segments)
    (form.name += form.name.empty() ? "" : ".") += segment;
  form.name += expertNumber;
  return form;
}

std::string KeyForm::numbered(int64_t layer, int64_t expert) const {
  std::string full = name;
  if (layerAxis)
    full.replace(full.find(layerMark), 1, std::to_string(layer));
  if (expertAxis)
    full += std::to_string(expert);
  return full;
}

std::optional<size_t> sectionRank(std::string_view section) {
  // Gated DeltaNet, KDA, GDN2; then Mamba-2 and gated delta product. A letter
  // with a number (V0, V1 ...) stands in the place of the letter.
  constexpr std::array<std::string_view, 22> order = {
      "gate_half", "up_half", "query", "key", "value", "z", "g", "gate",
      "f",         "beta",    "alpha", "x",   "V",     "K", "B", "C",
      "Q",         "b",       "w",     "dt",  "a",     "D"};
  constexpr size_t most = 1000; // numbers of one letter
  size_t stem = section.find_last_not_of("0123456789") + 1;
  auto found = std::find(order.begin(), order.end(), section.substr(0, stem));
  size_t number = 0;
  for (char digit : section.substr(stem))
    number = std::min(number * 10 + static_cast<size_t>(digit - '0'), most);
  if (found == order.end() || number == most)
    return std::nullopt;
  return static_cast<size_t>(found - order.begin()) * most + number;
}

} // namespace mbc
