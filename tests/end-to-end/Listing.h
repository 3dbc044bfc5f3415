#pragma once

#include "tests/end-to-end/Reference.h"

#include <mutex>

namespace mbc::test {

/// One row of `mbc ls --sha256 --json`.
struct Row {
  std::string name, dtype, sha256;
  std::string rank; ///< "tp0.pp0.ep0[.etp0]", or empty
  Extents shape;
};

/// Lists a checkpoint. A status other than 0, or output that is no JSON array,
/// fails the running test.
std::vector<Row> list(const std::string &checkpoint,
                      const std::vector<std::string> &options = {});

/// The bytes of one tensor of a per-rank or torch_dist checkpoint, found by the
/// file and offset of its row of `mbc ls --json`.
std::string stored(const std::string &root, const Json &row);

/// "tp=2,pp=1,ep=1,etp=2", for --shards.
std::string shardsOption(const Layout &layout);

/// The answers for one model: the reference with hashes computed once. May be
/// used from any number of threads.
class Answers {
public:
  explicit Answers(const std::string &fixtureName);
  Answers(const HfModel &model, const Json &expected);
  /// By another reference than that of the model's family.
  Answers(const HfModel &model, Reference reference,
          std::set<std::string> initOnly);

  /// Compares whole tensors. `vocabMultiple` includes TP. "" if all agree.
  std::string compareWhole(const std::vector<Row> &rows,
                           int64_t vocabMultiple) const;
  /// Compares what each rank holds. The per-rank format must hold the last
  /// stage's copies of the embedding as well (`copiesStored`).
  std::string compareRanks(const std::vector<Row> &rows, const Layout &layout,
                           int64_t vocabMultiple, bool sequential,
                           bool copiesStored) const;

  /// Why the model does not fit a layout; empty if it fits.
  std::vector<Obstacle> obstacles(const Layout &layout) const;

  /// First physical layer of each stage and the end, for uneven pipelines.
  std::vector<int64_t> borders;

  const HfModel model;

private:
  struct Answer {
    std::string dtype, sha256;
    Extents shape;
  };
  using Key = std::pair<std::string, std::string>; ///< rank, name

  const Answer &answer(const std::string &name, const Layout &layout, int64_t s,
                       int64_t vocabMultiple) const;
  std::map<Key, const Answer *> onAllRanks(const Layout &layout,
                                           int64_t vocabMultiple,
                                           bool sequential,
                                           std::set<Key> &copies) const;
  int64_t stageOf(const Parameter &parameter, const Layout &layout) const;

  Reference reference_;
  std::set<std::string> initOnly_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Answer> cache_;
};

} // namespace mbc::test
