#include "tests/end-to-end/Listing.h"

#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"
#include "tests/fixtures/Fill.h"
#include "tests/fixtures/Sha256.h"

#include <algorithm>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace mbc::test {

std::vector<Row> list(const std::string &checkpoint,
                      const std::vector<std::string> &options) {
  std::vector<std::string> arguments{"ls", checkpoint, "--sha256", "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome outcome = mbc(arguments);
  EXPECT_EQ(outcome.status, 0) << spell(arguments) << "\n" << outcome.err;
  const Json rows = Json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(rows.is_array()) << spell(arguments) << "\n" << outcome.out;
  std::vector<Row> result;
  if (rows.is_array())
    for (const Json &row : rows)
      result.push_back({row["name"], row["dtype"], row.value("sha256", ""),
                        row.value("rank", ""), row["shape"]});
  return result;
}

std::string stored(const std::string &root, const Json &row) {
  uint64_t bytes = fixtures::elementSize(row["dtype"].get<std::string>());
  for (uint64_t extent : row["shape"].get<std::vector<uint64_t>>())
    bytes *= extent;
  const std::string file = row["file"];
  std::string path = root + "/" + file;
  if (!std::filesystem::exists(path))
    path = root + "/release/" + file;
  return readText(path).substr(row["offset"], bytes);
}

std::string shardsOption(const Layout &layout) {
  return fmt::format("tp={},pp={},ep={},etp={}", layout.tp, layout.pp,
                     layout.ep, layout.etp);
}

Answers::Answers(const std::string &fixtureName)
    : Answers(fixture(fixtureName), expected(fixtureName)) {}

Answers::Answers(const HfModel &source, const Json &expected)
    : model(source), reference_(reference(source)) {
  if (expected.contains("init_only"))
    initOnly_ = expected["init_only"].get<std::set<std::string>>();
}

Answers::Answers(const HfModel &source, Reference reference,
                 std::set<std::string> initOnly)
    : model(source), reference_(std::move(reference)),
      initOnly_(std::move(initOnly)) {}

namespace {

template <typename Answer>
std::string mismatch(const std::string &where, const Answer &answer,
                     const Row &row) {
  if (row.dtype != answer.dtype || row.shape != answer.shape)
    return fmt::format("{} is {} {}, expected {} {}", where, row.dtype,
                       row.shape, answer.dtype, answer.shape);
  if (row.sha256 != answer.sha256)
    return fmt::format("{} {} {} holds other bytes", where, row.dtype,
                       row.shape);
  return {};
}

std::string rankName(const Layout &layout, int64_t stage, int64_t s) {
  std::string text = fmt::format("tp{}.pp{}.ep{}", s % layout.tp, stage,
                                 s / layout.etp % layout.ep);
  if (layout.etp != layout.tp)
    text += fmt::format(".etp{}", s % layout.etp);
  return text;
}

} // namespace

std::string Answers::compareWhole(const std::vector<Row> &rows,
                                  int64_t vocabMultiple) const {
  std::set<std::string> found;
  for (const Row &row : rows) {
    if (!found.insert(row.name).second)
      return row.name + " is listed twice";
    if (initOnly_.contains(row.name))
      continue;
    if (!reference_.parameters.contains(row.name))
      return row.name + " is there, and nothing asks for it";
    std::string wrong =
        mismatch(row.name, answer(row.name, {}, 0, vocabMultiple), row);
    if (!wrong.empty())
      return wrong;
  }
  for (const auto &[name, parameter] : reference_.parameters)
    if (!found.contains(name))
      return name + " is missing";
  for (const std::string &name : initOnly_)
    if (!found.contains(name))
      return name + " is missing";
  return {};
}

const Answers::Answer &Answers::answer(const std::string &name,
                                       const Layout &layout, int64_t s,
                                       int64_t vocabMultiple) const {
  const Parameter &parameter = reference_.parameters.at(name);
  const int64_t size = parameter.expert ? layout.etp : layout.tp;
  const std::string key =
      parameter.cut == Cut::None ? name
      : parameter.cut == Cut::ExpertRows
          ? fmt::format("{} EP {}/{}", name, s / layout.etp % layout.ep,
                        layout.ep)
          : fmt::format("{} {}/{} {}", name, s % size, size,
                        reference_.vocabulary.contains(name) ? vocabMultiple
                                                             : 0);
  {
    std::scoped_lock lock(mutex_);
    if (auto found = cache_.find(key); found != cache_.end())
      return found->second;
  }
  const std::optional<Tensor> tensor =
      reference_.onRank(name, layout, s, vocabMultiple);
  Answer fresh{tensor->dtype, fixtures::sha256(tensor->bytes), tensor->shape};
  std::scoped_lock lock(mutex_);
  return cache_.emplace(key, std::move(fresh)).first->second;
}

std::vector<Obstacle> Answers::obstacles(const Layout &layout) const {
  return test::obstacles(reference_, model.config, layout);
}

int64_t Answers::stageOf(const Parameter &parameter,
                         const Layout &layout) const {
  if (parameter.everywhereFirst)
    return 0;
  if (!parameter.layer)
    return layout.pp - 1;
  const auto starts =
      borders.empty() ? stageBorders(model.config, layout.pp) : borders;
  return std::ranges::upper_bound(starts, *parameter.layer) - starts.begin() -
         1;
}

std::map<Answers::Key, const Answers::Answer *>
Answers::onAllRanks(const Layout &layout, int64_t vocabMultiple,
                    bool sequential, std::set<Key> &copies) const {
  std::map<Key, const Answer *> all;
  const bool mtp =
      std::ranges::any_of(reference_.parameters, [](const auto &entry) {
        return entry.first.contains("mtp.layers.");
      });
  for (const auto &[name, parameter] : reference_.parameters) {
    const int64_t stage = stageOf(parameter, layout);
    const bool embedding = name.ends_with("word_embeddings.weight");
    // What the last stage holds, too: the input of MTP layers, a tied head.
    std::vector<std::string> copyNames;
    if (embedding && layout.pp > 1 && mtp)
      copyNames.push_back(name);
    constexpr std::string_view ownName = "embedding.word_embeddings.weight";
    if (embedding && layout.pp > 1 && name.ends_with(ownName)) {
      const std::string head =
          name.substr(0, name.size() - ownName.size()) + "output_layer.weight";
      if (!reference_.parameters.contains(head))
        copyNames.push_back(head);
    }
    for (int64_t s = 0; s != layout.ranksPerStage(); ++s) {
      if (!reference_.onRank(name, layout, s, vocabMultiple))
        continue;
      const Answer *is = &answer(name, layout, s, vocabMultiple);
      all[{rankName(layout, stage, s),
           sequential ? sequentialName(name) : name}] = is;
      for (const std::string &copyName : copyNames) {
        const Key copy{rankName(layout, layout.pp - 1, s), copyName};
        all[copy] = is;
        copies.insert(copy);
      }
    }
  }
  return all;
}

std::string Answers::compareRanks(const std::vector<Row> &rows,
                                  const Layout &layout, int64_t vocabMultiple,
                                  bool sequential, bool copiesStored) const {
  std::set<Key> copies, found;
  const auto all = onAllRanks(layout, vocabMultiple, sequential, copies);
  for (const Row &row : rows) {
    const Key key{row.rank, row.name};
    const std::string where = row.rank + " " + row.name;
    if (initOnly_.contains(row.name))
      continue;
    auto answer = all.find(key);
    if (answer == all.end())
      return where + " is there, and nothing asks for it";
    if (!found.insert(key).second)
      return where + " is listed twice";
    std::string wrong = mismatch(where, *answer->second, row);
    if (!wrong.empty())
      return wrong;
  }
  for (const auto &[key, answer] : all)
    if (!found.contains(key) && (copiesStored || !copies.contains(key)))
      return key.first + " " + key.second + " is missing";
  return {};
}

} // namespace mbc::test
