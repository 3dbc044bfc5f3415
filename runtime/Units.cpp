#include "runtime/Units.h"
#include "runtime/Plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace mbc {
namespace {

/// Instances of a class that share a unit at most, so that a unit's tables
/// stay small beside its bytes.
constexpr uint64_t maxInstances = 4096;

/// Place of an instance's first source; instances without one come first.
std::pair<uint32_t, uint64_t>
position(const plan::Plan &plan, const plan::Class &kind, uint32_t instance) {
  if (length(kind.inputs()) == 0)
    return {0, 0};
  const plan::Source *source = plan.sources()->Get(
      kind.sources()->Get(instance * kind.inputs()->size()));
  return {source->file(), source->offset()};
}

} // namespace

const std::byte *Unit::find(uint32_t file, uint64_t begin, uint64_t end) const {
  auto after = std::upper_bound(
      staged.begin(), staged.end(), std::pair(file, begin),
      [](const std::pair<uint32_t, uint64_t> &at, const Read &read) {
        return at < std::pair(read.file, read.offset);
      });
  if (after == staged.begin())
    return nullptr;
  const Read &read = *std::prev(after);
  if (read.file != file || end > read.offset + read.length)
    return nullptr;
  return at(read.place + (begin - read.offset));
}

bool Schedule::isWanted(const plan::Class &kind, uint32_t instance,
                        uint32_t output) const {
  return wanted_.empty() ||
         wanted_[kind.items()->Get(instance * kind.outputs()->size() + output)];
}

uint64_t Schedule::wantedBytes(const plan::Class &kind,
                               uint32_t instance) const {
  uint64_t bytes = 0;
  for (uint32_t index = 0; index != kind.outputs()->size(); ++index) {
    const plan::Output &output = *kind.outputs()->Get(index);
    if (isWanted(kind, instance, index))
      bytes += output.elements() * byteSize(DType(output.dtype()));
  }
  return bytes;
}

Schedule::Schedule(const plan::Plan &plan, uint64_t unitBytes,
                   std::vector<bool> wanted)
    : plan_(plan), wanted_(std::move(wanted)) {
  size_t classes = length(plan.classes());
  tiles_.resize(classes);
  order_.resize(classes);
  for (uint32_t index = 0; index != classes; ++index) {
    const plan::Class &kind = *plan.classes()->Get(index);
    for (const plan::Output *output : *kind.outputs())
      tiles_[index].outputs.push_back(tilesOf(*output));
    std::vector<uint32_t> &order = order_[index];
    order.resize(instanceCount(kind));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](uint32_t instance) {
      for (uint32_t output = 0; output != kind.outputs()->size(); ++output)
        if (isWanted(kind, instance, output))
          return false;
      return true;
    });
    if (order.empty())
      continue;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return position(plan, kind, a) < position(plan, kind, b);
    });
    // What another instance has of it is of the same size, or not much more.
    uint64_t bytes = std::max<uint64_t>(1, wantedBytes(kind, order.front()));
    uint64_t bands = (bytes + unitBytes - 1) / unitBytes;
    uint64_t together =
        std::clamp<uint64_t>(unitBytes / bytes, 1, maxInstances);
    for (uint64_t first = 0; first < order.size(); first += together)
      for (uint64_t band = 0; band != bands; ++band)
        keys_.push_back({index, static_cast<uint32_t>(first),
                         static_cast<uint32_t>(std::min<uint64_t>(
                             together, order.size() - first)),
                         band, bands});
  }
  auto place = [&](const UnitKey &key) {
    return std::tuple_cat(position(plan, *plan.classes()->Get(key.kind),
                                   order_[key.kind][key.first]),
                          std::tuple(key.kind, key.first, key.band));
  };
  std::sort(
      keys_.begin(), keys_.end(),
      [&](const UnitKey &a, const UnitKey &b) { return place(a) < place(b); });
}

std::vector<UnitKey> Schedule::split(const UnitKey &key) const {
  UnitKey left = key, right = key;
  if (key.count > 1) {
    left.count = key.count / 2;
    right.first += left.count;
    right.count -= left.count;
  } else {
    left.bands = right.bands = key.bands * 2;
    left.band = key.band * 2;
    right.band = left.band + 1;
  }
  return {left, right};
}

static bool isHeldWhole(const plan::Class &kind) {
  for (const plan::Output *output : *kind.outputs())
    if (output->encoding() && hasTensorScale(*output->encoding()))
      return true;
  return false;
}

uint64_t wholeTensorBytes(const plan::Plan &plan) {
  std::vector<uint32_t> kinds;
  for (uint32_t index = 0; index != length(plan.classes()); ++index)
    if (isHeldWhole(*plan.classes()->Get(index)))
      kinds.push_back(index);
  if (kinds.empty())
    return 0;
  const Schedule schedule(plan, UINT64_MAX / 2);
  uint64_t most = 0;
  for (uint32_t kind : kinds)
    most = std::max<uint64_t>(most, schedule.prepare({.kind = kind}).bytes);
  return most;
}

} // namespace mbc
