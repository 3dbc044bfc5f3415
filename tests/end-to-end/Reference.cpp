#include "tests/end-to-end/Reference.h"

namespace mbc::test {

namespace {

Tensor cut(const Tensor &whole, const Parameter &how, int64_t size,
           int64_t index) {
  auto share = [&](int64_t extent) {
    return std::pair{extent / size * index, extent / size * (index + 1)};
  };
  if (how.cut == Cut::None)
    return whole;
  if (how.cut == Cut::Columns) {
    auto [begin, end] = share(whole.shape[1]);
    return columns(whole, begin, end);
  }
  if (how.cut == Cut::Rows) {
    auto [begin, end] = share(whole.shape[0]);
    return rows(whole, begin, end);
  }
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t section : how.sections) {
    auto [begin, end] = share(section);
    parts.push_back(rows(whole, start + begin, start + end));
    start += section;
  }
  return joinRows(parts);
}

} // namespace

/// Rows are counted out one rank after the other.
static Tensor dealt(const Tensor &whole, int64_t ranks, int64_t rank) {
  const int64_t count = whole.shape[0];
  int64_t begin = 0, end = 0;
  for (int64_t r = 0; r <= rank; ++r) {
    begin = end;
    end += count / ranks + (r < count % ranks ? 1 : 0);
  }
  return rows(whole, begin, end);
}

Tensor Reference::whole(const std::string &name, int64_t vocabMultiple) const {
  const Tensor &tensor = parameters.at(name).whole;
  return vocabulary.contains(name) ? padRows(tensor, vocabMultiple) : tensor;
}

std::optional<Tensor> Reference::onRank(const std::string &name,
                                        const Layout &layout, int64_t s,
                                        int64_t vocabMultiple) const {
  const Parameter &parameter = parameters.at(name);
  const int64_t ep = s / layout.etp % layout.ep;
  if (parameter.cut == Cut::ExpertRows)
    return dealt(parameter.whole, layout.ep, ep);
  if (!parameter.expert)
    return cut(whole(name, vocabMultiple), parameter, layout.tp, s % layout.tp);
  const int64_t count =
      parameter.draftExperts != 0 ? parameter.draftExperts : experts;
  if (*parameter.expert / (count / layout.ep) != ep)
    return std::nullopt;
  return cut(parameter.whole, parameter, layout.etp, s % layout.etp);
}

std::string sequentialName(const std::string &name) {
  for (const std::string leaf : {"linear_fc1.weight", "linear_fc2.weight",
                                 "linear_fc1.bias", "linear_fc2.bias"}) {
    const std::string grouped = ".experts." + leaf;
    if (size_t at = name.find(grouped); at != std::string::npos)
      return name.substr(0, at) + ".experts.local_experts." +
             name.substr(at + grouped.size()) + "." + leaf;
  }
  return name;
}

} // namespace mbc::test
