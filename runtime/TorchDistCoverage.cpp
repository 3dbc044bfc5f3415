#include "runtime/TorchDistReader.h"

#include <algorithm>

namespace mbc {
namespace {

/// The only dimension along which pieces differ from the whole; nothing if
/// there is more than one. A single whole piece gives 0.
std::optional<size_t> cutDimension(const StoredTensor &tensor) {
  std::optional<size_t> cut;
  for (const StoredPiece &piece : tensor.pieces)
    for (size_t dim = 0; dim != tensor.shape->rank(); ++dim)
      if ((*piece.shape)[dim] != (*tensor.shape)[dim]) {
        if (cut && *cut != dim)
          return std::nullopt;
        cut = dim;
      }
  return cut.value_or(0);
}

std::string range(size_t dim, int64_t begin, int64_t end) {
  std::string_view axis = dim == 0 ? "rows" : dim == 1 ? "columns" : "indices";
  std::string text = fmt::format("{} {} to {}", axis, begin, end - 1);
  return dim < 2 ? text : fmt::format("{} of dimension {}", text, dim);
}

Result<void> checkAlong(const StoredTensor &tensor, size_t dim,
                        const std::string &described,
                        std::vector<StoredHole> &holes) {
  int64_t end = 0;
  auto reaches = [&](int64_t begin) {
    if (begin > end)
      holes.push_back({tensor.name,
                       fmt::format("{}: {} are covered by no chunk", described,
                                   range(dim, end, begin)),
                       dim, end, begin});
  };
  for (const StoredPiece &piece : tensor.pieces) {
    int64_t begin = (*piece.start)[dim];
    reaches(begin);
    if (begin < end)
      return fail(
          "{}: {} are in two chunks", described,
          range(dim, begin, std::min(end, begin + (*piece.shape)[dim])));
    end = begin + (*piece.shape)[dim];
  }
  reaches((*tensor.shape)[dim]);
  return {};
}

bool overlap(const StoredPiece &a, const StoredPiece &b) {
  for (size_t dim = 0; dim != a.shape->rank(); ++dim)
    if ((*a.start)[dim] >= (*b.start)[dim] + (*b.shape)[dim] ||
        (*b.start)[dim] >= (*a.start)[dim] + (*a.shape)[dim])
      return false;
  return true;
}

/// Disjoint pieces whose sizes add up cover everything.
Result<void> checkBoxes(const StoredTensor &tensor,
                        const std::string &described,
                        std::vector<StoredHole> &holes) {
  int64_t covered = 0;
  for (size_t i = 0; i != tensor.pieces.size(); ++i) {
    covered += tensor.pieces[i].shape->elements();
    for (size_t j = 0; j != i; ++j)
      if (overlap(tensor.pieces[i], tensor.pieces[j]))
        return fail("{}: the chunks at {} and {} overlap", described,
                    toString(*tensor.pieces[j].start),
                    toString(*tensor.pieces[i].start));
  }
  if (covered != tensor.shape->elements())
    holes.push_back({tensor.name,
                     fmt::format("{}: the chunks hold {} of {} elements",
                                 described, covered, tensor.shape->elements()),
                     std::nullopt});
  return {};
}

} // namespace

void sortPieces(std::vector<StoredPiece> &pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const StoredPiece &a, const StoredPiece &b) {
              return std::lexicographical_compare(
                  a.start->begin(), a.start->end(), b.start->begin(),
                  b.start->end());
            });
}

Result<void> checkCoverage(const StoredTensor &tensor,
                           const std::string &described,
                           std::vector<StoredHole> &holes) {
  if (tensor.shape->elements() == 0)
    return {};
  if (tensor.shape->rank() == 0)
    return tensor.pieces.size() == 1 ? Result<void>()
                                     : fail("{}: has {} chunks, a scalar has 1",
                                            described, tensor.pieces.size());
  if (std::optional<size_t> dim = cutDimension(tensor))
    return checkAlong(tensor, *dim, described, holes);
  return checkBoxes(tensor, described, holes);
}

} // namespace mbc
