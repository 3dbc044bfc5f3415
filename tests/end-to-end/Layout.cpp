#include "tests/end-to-end/Layout.h"

#include "tests/end-to-end/Families.h"

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

class Checker {
public:
  explicit Checker(const Layout &layout) : layout_(layout) {}

  void divides(int64_t count, int64_t size, const std::string &what) {
    if (count % size != 0)
      found.push_back({count, size, what});
  }

  void parameter(const std::string &name, const Parameter &parameter) {
    const int64_t size = parameter.expert ? layout_.etp : layout_.tp;
    if (parameter.draftExperts != 0)
      divides(parameter.draftExperts, layout_.ep, "draft experts");
    const Extents &shape = parameter.whole.shape;
    if (parameter.groups != 0 && size % parameter.groups != 0)
      divides(parameter.groups, size, "key/value heads of " + name);
    if (parameter.heads != 0)
      divides(parameter.heads, size, "heads of " + name);
    else if (parameter.cut == Cut::Rows)
      divides(shape[0], size, "rows of " + name);
    else if (parameter.cut == Cut::Columns)
      divides(shape[1], size, "columns of " + name);
    for (int64_t section : parameter.sections)
      divides(section, size, "section of " + name);
  }

  std::vector<Obstacle> found;

private:
  const Layout &layout_;
};

int64_t layerCount(const Json &text) {
  return text[text.contains("n_layers") ? "n_layers" : "num_hidden_layers"];
}

} // namespace

std::vector<Obstacle> obstacles(const Reference &reference, const Json &config,
                                const Layout &layout) {
  Checker check(layout);
  for (const auto &[name, parameter] : reference.parameters)
    if (!reference.vocabulary.contains(name)) // padded to what divides
      check.parameter(name, parameter);
  if (reference.experts == 0 && layout.ep > 1)
    check.found.push_back({0, layout.ep, "no experts"});
  check.divides(reference.experts, layout.ep, "experts");
  const Json &text = textConfig(config);
  if (auto stageStarts = familyOf(config).stageStarts) {
    const auto starts = static_cast<int64_t>(stageStarts(text).places.size());
    if (layout.pp > starts + 1)
      check.found.push_back({starts, layout.pp, "layers that begin a stage"});
  } else {
    check.divides(layerCount(text), layout.pp, "layers");
  }
  return check.found;
}

bool perRankCanName(const Layout &layout) {
  return layout.tp % layout.etp == 0;
}

std::vector<int64_t> stageBorders(const Json &config, int64_t pp) {
  const Json &text = textConfig(config);
  std::vector<int64_t> borders{0};
  auto stageStarts = familyOf(config).stageStarts;
  if (!stageStarts) {
    for (int64_t stage = 1; stage <= pp; ++stage)
      borders.push_back(stage * layerCount(text) / pp);
    return borders;
  }
  // The candidate nearest to an even cut, the smaller of two that are as near,
  // of those that leave enough for the later stages.
  const auto [starts, layers] = stageStarts(text);
  size_t next = 0;
  for (int64_t stage = 1; stage != pp; ++stage) {
    const size_t last = starts.size() - static_cast<size_t>(pp - 1 - stage);
    size_t best = next;
    for (size_t i = next; i < last; ++i)
      if (std::llabs(starts[i] * pp - layers * stage) <
          std::llabs(starts[best] * pp - layers * stage))
        best = i;
    borders.push_back(starts[best]);
    next = best + 1;
  }
  borders.push_back(layers);
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

std::vector<Layout> pairwiseLayouts() {
  constexpr int64_t sizes[] = {1, 2, 4};
  std::vector<Layout> layouts;
  for (size_t a = 0; a != 3; ++a)
    for (size_t b = 0; b != 3; ++b)
      layouts.push_back(
          {sizes[a], sizes[b], sizes[(a + b) % 3], sizes[(a + 2 * b) % 3]});
  return layouts;
}

} // namespace mbc::test
