#include "runtime/MegatronStages.h"

#include "runtime/Json.h"
#include "runtime/MegatronNames.h"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

namespace mbc {
namespace {

/// Layers of each stage as the saved arguments have them, if they are about as
/// many stages; else empty.
std::vector<int64_t> savedStages(const Json &args, int64_t layers, int64_t pp) {
  if (auto pattern = args.find("hybrid_layer_pattern");
      pattern != args.end() && pattern->is_string()) {
    std::vector<int64_t> stages = {0};
    for (char symbol : pattern->get_ref<const std::string &>()) {
      if (symbol == '/')
        break;
      if (symbol == '|')
        stages.push_back(0);
      else
        ++stages.back();
    }
    if (static_cast<int64_t>(stages.size()) == pp)
      return stages;
  }
  if (args.value("pipeline_model_parallel_size", int64_t{1}) != pp || pp == 1)
    return {};
  auto given = [&](const char *name) -> std::optional<int64_t> {
    auto found = args.find(name);
    if (found == args.end() || !found->is_number_integer())
      return std::nullopt;
    return found->get<int64_t>();
  };
  auto first = given("decoder_first_pipeline_num_layers");
  auto last = given("decoder_last_pipeline_num_layers");
  int64_t between = pp - first.has_value() - last.has_value();
  int64_t rest = layers - first.value_or(0) - last.value_or(0);
  if ((!first && !last) || rest < 0 ||
      (between == 0 ? rest != 0 : rest % between != 0))
    return {};
  std::vector<int64_t> stages(static_cast<size_t>(pp),
                              between == 0 ? 0 : rest / between);
  if (first)
    stages.front() = *first;
  if (last)
    stages.back() = *last;
  return stages;
}

} // namespace

Result<StageMap> StageMap::make(const Checkpoint &whole, int64_t pp) {
  StageMap map;
  map.pp_ = pp;
  int64_t layers = 0;
  bool output = false;
  for (const StoredTensor &tensor : whole.tensors) {
    MegatronName parsed = parseMegatronName(tensor.name);
    if (parsed.layer)
      layers = std::max(layers, *parsed.layer + 1);
    map.mtp_ |= parsed.mtp.has_value();
    output |= tensor.name.ends_with("output_layer.weight");
    if (tensor.name.ends_with("embedding.word_embeddings.weight"))
      map.embedding_ = tensor.name;
  }
  map.tied_ = !output && !map.embedding_.empty();
  std::vector<int64_t> stages;
  if (!whole.argsJson.empty()) {
    Result<Json> common = parseJson(whole.argsJson, "the common state");
    if (!common)
      return std::unexpected(common.error());
    if (auto args = common->find("args");
        args != common->end() && args->is_object())
      stages = savedStages(*args, layers, pp);
  }
  if (stages.empty()) {
    if (layers % pp != 0)
      return fail("{} decoder layers do not divide by pp={}", layers, pp);
    stages.assign(static_cast<size_t>(pp), layers / pp);
  }
  map.first_.push_back(0);
  std::partial_sum(stages.begin(), stages.end(),
                   std::back_inserter(map.first_));
  return map;
}

bool StageMap::holds(int64_t stage, std::string_view name) const {
  bool first = stage == 0, last = stage == pp_ - 1;
  MegatronName parsed = parseMegatronName(name);
  if (parsed.layer)
    return *parsed.layer >= first_[static_cast<size_t>(stage)] &&
           *parsed.layer < first_[static_cast<size_t>(stage) + 1];
  if (name == embedding_)
    return first || (last && mtp_); // the MTP block embeds its own input
  bool end = parsed.mtp || parsed.draft || name.find("decoder.") != name.npos ||
             name.find("output_layer.") != name.npos;
  return end && !isTowerName(name) ? last : first;
}

} // namespace mbc
