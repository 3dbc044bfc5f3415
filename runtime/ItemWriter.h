#pragma once

#include "runtime/Plan_generated.h"
#include "runtime/Result.h"
#include "runtime/TargetFiles.h"
#include "runtime/TargetFraming.h"
#include "runtime/Units.h"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace mbc {

/// Writes computed bands and what stands around them: the archive of an item,
/// or of a rank's file, once the CRC-32 of its last band is known. `write` may
/// run on any number of threads at once.
class ItemWriter {
public:
  ItemWriter(const plan::Plan &plan, const TargetFraming &framing,
             TargetFiles &files);

  Result<void> write(const Unit &unit);

private:
  /// The bands of an item that spans units, until all have come.
  struct Partial {
    struct Piece {
      int64_t begin;
      uint64_t bytes;
      uint32_t crc;
    };
    std::vector<Piece> pieces;
    int64_t elements = 0;
  };
  /// True if the item is now complete; its CRC is then in `crcs_`.
  bool complete(const Band &band);
  Result<void> finish(uint32_t item);

  const plan::Plan &plan_;
  const TargetFraming &framing_;
  TargetFiles &files_;
  std::vector<uint32_t> crcs_; ///< by item; only its last band's thread writes
  std::mutex mutex_;
  std::unordered_map<uint32_t, Partial> partial_; ///< guarded by mutex_
};

} // namespace mbc
