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

Piece pieceOf(const FramingRun &run) {
  return {run.offset, std::as_bytes(std::span(run.bytes))};
}

} // namespace

ItemWriter::ItemWriter(const plan::Plan &plan, const TargetFraming &framing,
                       TargetFiles &files)
    : plan_(plan), framing_(framing), files_(files),
      crcs_(length(plan.items())) {}

int64_t ItemWriter::itemElements(const Band &band) const {
  return plan_.classes()
      ->Get(band.kind)
      ->outputs()
      ->Get(band.output)
      ->elements();
}

bool ItemWriter::computed(const Band &band) {
  if (band.elements() == itemElements(band)) {
    crcs_[band.item] = band.crc;
    return true;
  }
  std::lock_guard lock(mutex_);
  Partial &partial = partial_[band.item];
  partial.pieces.push_back({band.range.begin, band.storedBytes, band.crc});
  partial.computed += band.elements();
  if (partial.computed != itemElements(band))
    return false;
  std::sort(partial.pieces.begin(), partial.pieces.end(),
            [](const auto &a, const auto &b) { return a.begin < b.begin; });
  uint32_t crc = 0;
  for (const Partial::Piece &piece : partial.pieces)
    crc = combineCrc32(crc, piece.crc, piece.bytes);
  crcs_[band.item] = crc;
  return true;
}

bool ItemWriter::written(const Band &band) {
  if (band.elements() == itemElements(band))
    return true;
  std::lock_guard lock(mutex_);
  auto partial = partial_.find(band.item);
  partial->second.written += band.elements();
  if (partial->second.written != itemElements(band))
    return false;
  partial_.erase(partial);
  return true;
}

/// Bands and archives of small items lie side by side: in order, many of them
/// go out in one call.
Result<void> ItemWriter::writeBands(const Unit &unit) {
  std::vector<PlacedPiece> pieces;
  std::vector<std::vector<FramingRun>> archives; // `pieces` points into them
  for (const Band &band : unit.bands) {
    uint32_t file = plan_.items()->Get(band.item)->file();
    uint64_t data = framing_.dataOffset(band.item);
    if (band.storedBytes != 0)
      pieces.push_back({file,
                        {data + band.storedOffset,
                         {unit.at(band.storedPlace), band.storedBytes}}});
    if (!computed(band) || plan_.format() != plan::TargetFormat_TorchDist ||
        plan_.files()->Get(file)->plain())
      continue;
    archives.push_back(framing_.frameItem(band.item, crcs_[band.item]));
    for (const FramingRun &run : archives.back())
      pieces.push_back({file, pieceOf(run)});
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
    if (Result<void> done = files_.write(file, ofFile); !done)
      return done;
  }
  return {};
}

Result<void> ItemWriter::write(const Unit &unit) {
  if (Result<void> done = writeBands(unit); !done)
    return done;
  // Only now: whoever completes an item may close its file.
  for (const Band &band : unit.bands) {
    uint32_t file = plan_.items()->Get(band.item)->file();
    if (written(band) && files_.itemDone(file))
      if (Result<void> finished = finishFile(file); !finished)
        return finished;
  }
  return {};
}

Result<void> ItemWriter::finishFile(uint32_t file) {
  if (plan_.format() == plan::TargetFormat_TorchRanks &&
      !plan_.files()->Get(file)->plain()) {
    std::vector<FramingRun> archive = framing_.frameFile(file, crcs_);
    std::vector<Piece> pieces;
    for (const FramingRun &run : archive)
      pieces.push_back(pieceOf(run));
    if (Result<void> done = files_.write(file, pieces); !done)
      return done;
  }
  return files_.close(file);
}

} // namespace mbc
