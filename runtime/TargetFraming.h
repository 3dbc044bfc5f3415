#pragma once

#include "runtime/Plan_generated.h"
#include "runtime/Result.h"
#include "runtime/Shape.h"
#include "runtime/TorchArchive.h"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace mbc {

/// The bytes around tensor data in each target format: nothing in safetensors
/// (the header is the file's literal), a ZIP archive around every item of a
/// torch_dist, one archive around all items of a rank's file. Immutable: any
/// number of threads may ask.
class TargetFraming {
public:
  /// An error if the plan's offsets are not those of the format.
  static Result<TargetFraming> make(const plan::Plan &plan);

  /// Byte in its file where an item's data begin.
  uint64_t dataOffset(uint32_t item) const { return data_[item]; }
  /// What goes around one item of a torch_dist; `crc` is that of its data.
  std::vector<FramingRun> frameItem(uint32_t item, uint32_t crc) const;
  /// What goes around all items of a rank's file, given the CRC-32 of every
  /// item of the plan.
  std::vector<FramingRun> frameFile(uint32_t file,
                                    std::span<const uint32_t> crcs) const;
  /// CRC-32 values are needed.
  bool needsCrc() const {
    return plan_->format() != plan::TargetFormat_Safetensors;
  }
  /// The file `.metadata` of a torch_dist; `objectBytes` is the length of each
  /// byte object.
  std::string metadata(uint64_t objectBytes) const;

private:
  explicit TargetFraming(const plan::Plan &plan) : plan_(&plan) {}
  void placeItems();
  Result<void> checkFile(uint32_t file) const;
  uint64_t itemBytes(uint32_t item) const;
  bool isPlain(uint32_t item) const;

  const plan::Plan *plan_;
  std::vector<const plan::Output *> outputs_; ///< by item
  std::vector<uint64_t> data_;                ///< by item
  std::vector<uint64_t> ends_; ///< by item: where its archive (or data) ends
  std::vector<std::vector<uint32_t>> items_; ///< by file, in offset order
  std::unordered_map<const plan::Output *, std::string> pickles_;
};

} // namespace mbc
