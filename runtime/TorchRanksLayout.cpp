#include "runtime/TorchRanksLayout.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <nlohmann/json.hpp>

namespace mbc {
namespace {

int64_t integerOr(const Json &args, const char *name, int64_t otherwise) {
  auto found = args.find(name);
  return found != args.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : otherwise;
}

/// Symbols of the main pattern, or nothing if the model is no hybrid.
int64_t patternLayers(const Json &args) {
  for (const char *name : {"hybrid_layer_pattern", "hybrid_override_pattern"}) {
    auto found = args.find(name);
    if (found == args.end() || !found->is_string())
      continue;
    const std::string &pattern = found->get_ref<const std::string &>();
    std::string_view main =
        std::string_view(pattern).substr(0, pattern.find('/'));
    return static_cast<int64_t>(main.size()) -
           std::count(main.begin(), main.end(), '|');
  }
  return 0;
}

} // namespace

Result<RankSizes> readRankSizes(const Json &common, const std::string &path) {
  auto found = common.find("args");
  if (found == common.end() || !found->is_object())
    return fail("{}: has no saved arguments (args), so the sizes TP, PP and EP "
                "of the per-rank files are not known; the names of the folders "
                "can be read in two ways. Set tensor_model_parallel_size, "
                "pipeline_model_parallel_size, expert_model_parallel_size, "
                "num_layers and num_experts in args there, or load it in "
                "Megatron with these sizes and save it as torch_dist",
                path);
  const Json &args = *found;
  RankSizes sizes;
  sizes.tp = integerOr(args, "tensor_model_parallel_size", 1);
  sizes.pp = integerOr(args, "pipeline_model_parallel_size", 1);
  sizes.ep = integerOr(args, "expert_model_parallel_size", 1);
  sizes.etp = integerOr(args, "expert_tensor_parallel_size", sizes.tp);
  sizes.vpp = integerOr(args, "virtual_pipeline_model_parallel_size", 1);
  sizes.layers = patternLayers(args);
  if (sizes.layers == 0)
    sizes.layers = integerOr(args, "num_layers", 0);
  sizes.experts = integerOr(args, "num_experts", 0);
  for (int64_t size : {sizes.tp, sizes.pp, sizes.ep, sizes.etp, sizes.vpp})
    if (size < 1 || size > 1'000'000)
      return fail("{}: the saved arguments hold a parallel size of {}", path,
                  size);
  if (sizes.tp % sizes.etp != 0)
    return fail("{}: was saved with TP {} and expert TP {}: the folders cannot "
                "tell its ranks apart and hold only some of the experts' "
                "shards; save it as torch_dist",
                path, sizes.tp, sizes.etp);
  if (sizes.experts % sizes.ep != 0)
    return fail("{}: {} experts do not divide by EP {}", path, sizes.experts,
                sizes.ep);
  return sizes;
}

int64_t stageRanks(const ParallelSizes &sizes) {
  return std::lcm(sizes.tp, sizes.ep * sizes.etp);
}

RankPlace rankPlace(int64_t globalRank, const ParallelSizes &sizes) {
  int64_t inStage = globalRank % stageRanks(sizes);
  return {inStage % sizes.tp, globalRank / stageRanks(sizes),
          inStage / sizes.etp % sizes.ep, inStage % sizes.etp};
}

std::string rankName(const RankPlace &place, const ParallelSizes &sizes) {
  std::string name =
      fmt::format("tp{}.pp{}.ep{}", place.tp, place.pp, place.ep);
  if (sizes.etp != sizes.tp)
    name += fmt::format(".etp{}", place.etp);
  return name;
}

RankPlace parseRankName(std::string_view name) {
  RankPlace place{0, 0, 0, -1};
  while (!name.empty()) {
    std::string_view part = name.substr(0, name.find('.'));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
    for (auto [prefix, number] :
         {std::pair<std::string_view, int64_t *>("tp", &place.tp),
          {"pp", &place.pp},
          {"ep", &place.ep},
          {"etp", &place.etp}})
      if (part.starts_with(prefix))
        std::from_chars(part.data() + prefix.size(), part.data() + part.size(),
                        *number);
  }
  if (place.etp < 0)
    place.etp = place.tp;
  return place;
}

std::vector<RankFile> rankFiles(const ParallelSizes &sizes) {
  std::vector<RankFile> files;
  int64_t ranks = sizes.pp * stageRanks(sizes);
  for (int64_t rank = 0; rank != ranks; ++rank) {
    RankFile file{rankPlace(rank, sizes), rank, {}};
    file.path = fmt::format("mp_rank_{:02}", file.place.tp);
    if (sizes.pp > 1)
      file.path += fmt::format("_{:03}", file.place.pp);
    if (sizes.ep > 1)
      file.path += fmt::format("_{:03}", file.place.ep);
    file.path += "/model_optim_rng.pt";
    files.push_back(std::move(file));
  }
  return files;
}

} // namespace mbc
