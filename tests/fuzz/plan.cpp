#include "runtime/Plan.h"
#include "runtime/Units.h"
#include "tests/fuzz/Input.h"

#include <vector>

/// A plan is sealed against accidents, not against malice: behind a true seal,
/// anything may stand. What the checks let through is scheduled.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mbc;
  std::vector<uint8_t> bytes(data, data + size);
  for (char byte : planSeal({data, size}))
    bytes.push_back(static_cast<uint8_t>(byte));
  auto plan = Plan::fromBytes(std::move(bytes), "input");
  if (!plan)
    return 0;
  Schedule schedule(**plan, 1 << 20);
  constexpr size_t most = 64; // a plan may have any number of units
  for (size_t at = 0; at != std::min(schedule.keys().size(), most); ++at)
    (void)schedule.prepare(schedule.keys()[at]);
  return 0;
}
