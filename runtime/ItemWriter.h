#pragma once

#include "runtime/BandSink.h"
#include "runtime/Plan_generated.h"
#include "runtime/TargetFiles.h"
#include "runtime/TargetFraming.h"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace mbc {

/// Writes computed bands and what stands around them: the archive of an item
/// together with the last of its bands, the archive of a rank's file once all
/// its items are written.
class ItemWriter : public BandSink {
public:
  ItemWriter(const plan::Plan &plan, const TargetFraming &framing,
             TargetFiles &files);

  Result<void> write(const Unit &unit) override;

private:
  /// An item that spans units, until all of it is written.
  struct Partial {
    struct Piece {
      int64_t begin;
      uint64_t bytes;
      uint32_t crc;
    };
    std::vector<Piece> pieces;
    int64_t computed = 0, written = 0; ///< elements
  };
  int64_t itemElements(const Band &band) const;
  /// Notes a band that is about to be written. True if it is the last one of
  /// its item, whose CRC is then in `crcs_`.
  bool computed(const Band &band);
  /// Notes a band that is in its file. True if its item now is.
  bool written(const Band &band);
  Result<void> writeBands(const Unit &unit);
  Result<void> finishFile(uint32_t file);

  const plan::Plan &plan_;
  const TargetFraming &framing_;
  TargetFiles &files_;
  std::vector<uint32_t> crcs_; ///< by item; set by its last band's thread
  std::mutex mutex_;
  std::unordered_map<uint32_t, Partial> partial_; ///< guarded by mutex_
};

} // namespace mbc
