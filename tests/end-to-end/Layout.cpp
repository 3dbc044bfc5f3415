#include "tests/end-to-end/Layout.h"

#include <cstdlib>

#include <fmt/format.h>

namespace mbc::test {

std::vector<std::string> Layout::options() const {
  return {"--tp", std::to_string(tp), "--pp",  std::to_string(pp),
          "--ep", std::to_string(ep), "--etp", std::to_string(etp)};
}

std::string Layout::text() const {
  return fmt::format("TP {} PP {} EP {} ETP {}", tp, pp, ep, etp);
}

namespace {

int64_t number(const Json &config, const char *field) {
  return config.contains(field) && config[field].is_number()
             ? config[field].get<int64_t>()
             : 0;
}

int64_t expertCount(const Json &text) {
  int64_t routed = number(text, "n_routed_experts");
  return routed ? routed : number(text, "num_local_experts");
}

/// Positions of a hybrid pattern's physical layers that may begin a stage: the
/// sparse attention layers but the first layer.
std::vector<int64_t> stageStarts(const Json &text) {
  std::vector<int64_t> starts;
  for (size_t block = 1; block < text["layer_types"].size(); ++block)
    if (text["layer_types"][block] == "deepseek_sparse_attention")
      starts.push_back(2 * static_cast<int64_t>(block));
  return starts;
}

bool isHybrid(const Json &config) {
  return config["model_type"] == "glm5_next";
}

class Checker {
public:
  void divides(int64_t count, int64_t size, const char *what) {
    if (count % size != 0)
      found.push_back({count, size, what});
  }
  std::vector<Obstacle> found;
};

void checkAttention(const Json &text, int64_t tp, Checker &check) {
  const int64_t heads = number(text, "num_attention_heads");
  check.divides(heads, tp, "attention heads");
  if (text.contains("kv_lora_rank"))
    return; // latent attention has no key/value heads of its own
  const int64_t groups = number(text, "num_key_value_heads");
  if (tp % groups != 0)
    check.divides(groups, tp, "key/value heads");
}

void checkWidths(const Json &text, const Layout &layout, Checker &check) {
  const int64_t experts = expertCount(text);
  const int64_t width = number(text, "moe_intermediate_size");
  const bool allSparse = experts != 0 && !text.contains("n_shared_experts");
  if (!allSparse)
    check.divides(number(text, "intermediate_size"), layout.tp,
                  "feed-forward width");
  check.divides(width * number(text, "n_shared_experts"), layout.tp,
                "shared experts' width");
  check.divides(width, layout.etp, "experts' width");
  if (number(text, "num_nextn_predict_layers"))
    check.divides(number(text, "hidden_size"), layout.tp, "hidden size");
}

} // namespace

std::vector<Obstacle> obstacles(const Json &config, const Layout &layout) {
  const Json &text = textConfig(config);
  Checker check;
  checkAttention(text, layout.tp, check);
  checkWidths(text, layout, check);
  const int64_t experts = expertCount(text);
  if (experts == 0 && layout.ep > 1)
    check.found.push_back({0, layout.ep, "no experts"});
  check.divides(experts, layout.ep, "experts");
  if (isHybrid(config)) {
    check.divides(number(text, "linear_num_heads"), layout.tp,
                  "linear attention heads");
    const auto starts = static_cast<int64_t>(stageStarts(text).size());
    if (layout.pp > starts + 1)
      check.found.push_back({starts, layout.pp, "layers that begin a stage"});
  } else {
    check.divides(number(text, "num_hidden_layers"), layout.pp, "layers");
  }
  return check.found;
}

bool perRankCanName(const Layout &layout) {
  return layout.tp % layout.etp == 0;
}

std::vector<int64_t> stageBorders(const Json &config, int64_t pp) {
  const Json &text = textConfig(config);
  const int64_t blocks = number(text, "num_hidden_layers");
  std::vector<int64_t> borders{0};
  if (!isHybrid(config)) {
    for (int64_t stage = 1; stage <= pp; ++stage)
      borders.push_back(stage * blocks / pp);
    return borders;
  }
  // The candidate nearest to an even cut, the smaller of two that are as near,
  // of those that leave enough for the later stages.
  const std::vector<int64_t> starts = stageStarts(text);
  size_t next = 0;
  for (int64_t stage = 1; stage != pp; ++stage) {
    const size_t last = starts.size() - static_cast<size_t>(pp - 1 - stage);
    size_t best = next;
    for (size_t i = next; i < last; ++i)
      if (std::llabs(starts[i] * pp - 2 * blocks * stage) <
          std::llabs(starts[best] * pp - 2 * blocks * stage))
        best = i;
    borders.push_back(starts[best]);
    next = best + 1;
  }
  borders.push_back(2 * blocks);
  return borders;
}

std::vector<Layout> allLayouts() {
  std::vector<Layout> layouts;
  for (int64_t tp : {1, 2, 4})
    for (int64_t pp : {1, 2, 4})
      for (int64_t ep : {1, 2, 4})
        for (int64_t etp : {1, 2, 4})
          layouts.push_back({tp, pp, ep, etp});
  return layouts;
}

} // namespace mbc::test
