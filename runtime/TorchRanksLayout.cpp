#include "runtime/TorchRanksLayout.h"

#include <algorithm>
#include <set>

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
                "can be read in two ways",
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
  if (sizes.vpp > 1)
    return fail("{}: was saved with virtual pipeline size {}, which is not "
                "read; save it as torch_dist",
                path, sizes.vpp);
  return sizes;
}

std::vector<RankFile> rankFiles(const RankSizes &sizes) {
  std::vector<RankFile> files;
  int64_t stageRanks = std::max(sizes.tp, sizes.ep * sizes.etp);
  for (int64_t pp = 0; pp != sizes.pp; ++pp) {
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t s = 0; s != stageRanks; ++s) {
      RankFile file{s % sizes.tp,  pp, s / sizes.etp % sizes.ep,
                    s % sizes.etp, {}, {}};
      if (!seen.insert({file.tp, file.ep}).second)
        continue;
      file.folder = fmt::format("mp_rank_{:02}", file.tp);
      if (sizes.pp > 1)
        file.folder += fmt::format("_{:03}", pp);
      if (sizes.ep > 1)
        file.folder += fmt::format("_{:03}", file.ep);
      file.rank = fmt::format("tp{}.pp{}.ep{}", file.tp, pp, file.ep);
      if (sizes.etp != sizes.tp)
        file.rank += fmt::format(".etp{}", file.etp);
      files.push_back(std::move(file));
    }
  }
  return files;
}

} // namespace mbc
