#include "runtime/ItemWriter.h"
#include "runtime/Plan.h"
#include "runtime/TorchArchive.h"

#include <algorithm>

namespace mbc {
namespace {

struct PlacedPiece {
  uint32_t file;
  Piece piece;
};

} // namespace

ItemWriter::ItemWriter(const plan::Plan &plan, const TargetFraming &framing,
                       TargetFiles &files)
    : plan_(plan), framing_(framing), files_(files),
      crcs_(length(plan.items())) {}

bool ItemWriter::complete(const Band &band) {
  const plan::Output &output =
      *plan_.classes()->Get(band.kind)->outputs()->Get(band.output);
  int64_t count = band.range.end - band.range.begin;
  if (count == output.elements()) {
    crcs_[band.item] = band.crc;
    return true;
  }
  std::lock_guard lock(mutex_);
  Partial &partial = partial_[band.item];
  partial.pieces.push_back({band.range.begin, band.bytes(), band.crc});
  partial.elements += count;
  if (partial.elements != output.elements())
    return false;
  std::sort(partial.pieces.begin(), partial.pieces.end(),
            [](const auto &a, const auto &b) { return a.begin < b.begin; });
  uint32_t crc = 0;
  for (const Partial::Piece &piece : partial.pieces)
    crc = combineCrc32(crc, piece.crc, piece.bytes);
  crcs_[band.item] = crc;
  partial_.erase(band.item);
  return true;
}

Result<void> ItemWriter::write(const Unit &unit) {
  std::vector<PlacedPiece> pieces;
  for (const Band &band : unit.bands) {
    const plan::Item &item = *plan_.items()->Get(band.item);
    uint64_t data = framing_.dataOffset(band.item);
    pieces.push_back({item.file(),
                      {data + band.range.begin * band.width,
                       {unit.at(band.place), band.bytes()}}});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const PlacedPiece &a, const PlacedPiece &b) {
              return std::pair(a.file, a.piece.offset) <
                     std::pair(b.file, b.piece.offset);
            });
  std::vector<Piece> ofFile;
  for (size_t first = 0; first != pieces.size();) {
    uint32_t file = pieces[first].file;
    ofFile.clear();
    for (; first != pieces.size() && pieces[first].file == file; ++first)
      ofFile.push_back(pieces[first].piece);
    if (Result<void> written = files_.write(file, ofFile); !written)
      return written;
  }
  // Only now: whoever completes an item may close its file.
  for (const Band &band : unit.bands)
    if (complete(band))
      if (Result<void> finished = finish(band.item); !finished)
        return finished;
  return {};
}

Result<void> ItemWriter::finish(uint32_t item) {
  uint32_t file = plan_.items()->Get(item)->file();
  if (plan_.format() == plan::TargetFormat_TorchDist) {
    Result<const OutputFile *> output = files_.opened(file);
    if (!output)
      return std::unexpected(output.error());
    if (auto framed = framing_.frameItem(**output, item, crcs_[item]); !framed)
      return framed;
  }
  if (!files_.itemDone(file))
    return {};
  if (plan_.format() == plan::TargetFormat_TorchRanks) {
    Result<const OutputFile *> output = files_.opened(file);
    if (!output)
      return std::unexpected(output.error());
    if (auto framed = framing_.frameFile(**output, file, crcs_); !framed)
      return framed;
  }
  return files_.close(file);
}

} // namespace mbc
