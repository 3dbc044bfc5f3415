#include "runtime/MegatronNames.h"
#include "runtime/TowerNames.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace mbc {
namespace {

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> segments;
  segments.reserve(16); // of one parameter's name, hardly ever more
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    segments.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return segments;
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0)
    return std::nullopt;
  return value;
}

/// Where the numbers stand: segment indices, -1 if absent.
struct Places {
  int layer = -1, mtp = -1;
  int localExpert = -1; ///< the number after `local_experts`
  int grouped = -1;     ///< segment that ends in an expert's number
  size_t stem = 0;      ///< letters before that number
};

size_t letters(std::string_view segment) {
  size_t end = segment.find_last_not_of("0123456789");
  return end == std::string_view::npos ? 0 : end + 1;
}

/// `weight12`, `bias3` after a grouped linear; or, in the name of a module,
/// the linear's own number and the expert's: `linear_fc1` + `17`, or `17`
/// alone.
void findGroupedExpert(const std::vector<std::string_view> &segments,
                       size_t experts, Places &places) {
  for (size_t i = experts + 1; i < segments.size(); ++i) {
    std::string_view segment = segments[i];
    bool linear = segment.starts_with("linear_fc");
    size_t stem = linear ? 10 : letters(segment);
    if (segment.size() > stem && number(segment.substr(stem))) {
      places.grouped = static_cast<int>(i);
      places.stem = stem;
      return;
    }
  }
}

Places locate(const std::vector<std::string_view> &segments) {
  Places places;
  if (isTowerName({segments.front().data(), segments.back().data()}))
    return places;
  const bool draft = isDraftName(segments.front());
  for (size_t i = 0; i + 1 < segments.size(); ++i) {
    bool numbered = i + 2 < segments.size() && segments[i + 1] == "layers" &&
                    number(segments[i + 2]);
    if (numbered && segments[i] == "decoder" && places.layer < 0 && !draft)
      places.layer = static_cast<int>(i + 2);
    if (numbered && segments[i] == "mtp" && places.mtp < 0)
      places.mtp = static_cast<int>(i + 2);
    if (segments[i] == "local_experts" && number(segments[i + 1]))
      places.localExpert = static_cast<int>(i + 1);
    if (segments[i] == "experts" && segments[i + 1] != "local_experts")
      findGroupedExpert(segments, i, places);
  }
  return places;
}

std::string join(const std::vector<std::string> &segments) {
  std::string name;
  for (const std::string &segment : segments)
    (name += name.empty() ? "" : ".") += segment;
  return name;
}

} // namespace

bool isTowerName(std::string_view name) {
  // Around all parts of a model.
  for (std::string_view wrapper : {"thinker.", "llava_model."})
    if (name.starts_with(wrapper))
      name.remove_prefix(wrapper.size());
  return towerOf(name) != Tower::None;
}

bool isDraftName(std::string_view name) {
  return name.substr(0, name.find('.')) == "dspark";
}

MegatronName parseMegatronName(std::string_view name) {
  std::vector<std::string_view> segments = split(name);
  Places places = locate(segments);
  MegatronName parsed;
  parsed.draft = isDraftName(name);
  if (places.layer >= 0)
    parsed.layer = number(segments[places.layer]);
  if (places.mtp >= 0)
    parsed.mtp = number(segments[places.mtp]);
  if (places.localExpert >= 0) {
    parsed.expert = number(segments[places.localExpert]);
    parsed.sequential = true;
  } else if (places.grouped >= 0) {
    parsed.expert = number(segments[places.grouped].substr(places.stem));
  }
  return parsed;
}

void ExpertCounts::note(const MegatronName &name) {
  int64_t &count = name.draft ? draft : model;
  if (name.expert)
    count = std::max(count, *name.expert + 1);
}

std::string renumber(std::string_view name, std::optional<int64_t> layer,
                     std::optional<int64_t> expert) {
  std::vector<std::string_view> views = split(name);
  Places places = locate(views);
  std::vector<std::string> segments(views.begin(), views.end());
  if (layer && places.layer >= 0)
    segments[places.layer] = std::to_string(*layer);
  if (expert && places.localExpert >= 0)
    segments[places.localExpert] = std::to_string(*expert);
  else if (expert && places.grouped >= 0)
    segments[places.grouped] =
        std::string(views[places.grouped].substr(0, places.stem)) +
        std::to_string(*expert);
  return join(segments);
}

std::string respellExpert(std::string_view name, bool sequential) {
  std::vector<std::string_view> views = split(name);
  const Places places = locate(views);
  const bool isSequential = places.localExpert >= 0;
  const int last = static_cast<int>(views.size()) - 1;
  // MODULE.experts.linear_fc1.weight7, MODULE.experts.local_experts.7
  // .linear_fc1.weight: of both the linear is the last but one.
  const bool isParameter =
      isSequential ? places.localExpert == last - 2 : places.grouped == last;
  if (isSequential == sequential || !isParameter)
    return std::string(name);
  std::vector<std::string> segments(views.begin(), views.end());
  if (sequential) {
    const std::string expert = segments[last].substr(places.stem);
    segments[last].resize(places.stem);
    segments.insert(segments.end() - 2, {"local_experts", expert});
  } else {
    segments[last] += segments[places.localExpert];
    segments.erase(segments.end() - 4, segments.end() - 2);
  }
  return join(segments);
}

static std::string withEnd(std::string name, std::string_view from,
                           std::string_view to) {
  if (name.ends_with(from))
    name.replace(name.size() - from.size(), from.size(), to);
  return name;
}

std::string perRankName(std::string name) {
  name = withEnd(std::move(name), "mixer.conv1d.weight", "mixer.conv1d_weight");
  return withEnd(std::move(name), "mixer.conv1d.bias", "mixer.conv1d_bias");
}

std::string fromPerRankName(std::string name) {
  name = withEnd(std::move(name), "mixer.conv1d_weight", "mixer.conv1d.weight");
  return withEnd(std::move(name), "mixer.conv1d_bias", "mixer.conv1d.bias");
}

TensorKey torchDistKey(std::string_view name, std::string_view section,
                       const KeyRules &rules) {
  std::vector<std::string_view> segments = split(name);
  Places places = locate(segments);
  const int64_t experts =
      isDraftName(name) ? rules.experts.draft : rules.experts.model;
  TensorKey key;
  key.key.reserve(name.size() + section.size() + 16);
  auto keep = [&key](std::string_view segment) {
    if (!key.key.empty())
      key.key += '.';
    key.key += segment;
  };
  for (size_t i = 0; i != segments.size(); ++i) {
    int at = static_cast<int>(i);
    if (at == places.layer && rules.layersStacked) {
      key.axes.push_back(rules.layers);
      key.index.push_back(*number(segments[i]));
    } else if (at == places.localExpert) {
      key.axes.push_back(experts);
      key.index.push_back(*number(segments[i]));
    } else if (at == places.grouped) {
      key.axes.push_back(experts);
      key.index.push_back(*number(segments[i].substr(places.stem)));
      if (places.stem != 0)
        keep(segments[i].substr(0, places.stem));
    } else if (at + 1 == places.localExpert) {
      // local_experts.{e}: the container is called `experts` in the file.
      keep("experts");
    } else if (segments[i] == "mtp_model_layer" && rules.gptModel) {
      keep("transformer_layer");
    } else {
      keep(segments[i]);
    }
    bool container = segments[i] == "experts" && places.grouped > at;
    if (container)
      keep("experts");
  }
  if (!section.empty())
    keep(section);
  return key;
}

std::string extraStateKey(std::string_view module, const KeyRules &rules) {
  TensorKey key = torchDistKey(module, {}, rules);
  if (parseMegatronName(module).expert && key.key.ends_with(".weight"))
    key.key.resize(key.key.size() - 7);
  if (key.axes.empty())
    return key.key + "._extra_state/shard_0_1";
  return fmt::format("{}._extra_state/shard_{}_{}", key.key,
                     fmt::join(key.index.begin(), key.index.end(), "."),
                     fmt::join(key.axes.begin(), key.axes.end(), "."));
}

} // namespace mbc
