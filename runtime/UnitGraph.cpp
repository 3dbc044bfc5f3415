#include "runtime/UnitGraph.h"
#include "runtime/UnitCompute.h"

#include <exception>
#include <oneapi/tbb/flow_graph.h>

namespace mbc {
namespace flow = tbb::flow;

struct UnitGraph::Nodes {
  flow::graph graph;
  flow::function_node<UnitPointer, UnitPointer> read, compute;
  flow::function_node<UnitPointer> write;
};

namespace {

/// Of the budget, a part lies in the pool, waiting for the next unit; the rest
/// may be in flight. A pinned buffer, which is dear to make, also serves units of
/// half its size, and is never given up.
constexpr uint64_t waitingOfDevice = 2, waitingOfHost = 8;
uint64_t flightOf(uint64_t budget, bool onDevice) {
  return budget - budget / (onDevice ? waitingOfDevice : waitingOfHost);
}
uint64_t keptOf(uint64_t budget, bool onDevice) {
  return onDevice ? budget : budget / waitingOfHost;
}

BufferPool::Allocate allocatorOf(const UnitServices &services) {
  if (!services.device)
    return {};
  return
      [device = services.device](size_t bytes) { return device->pin(bytes); };
}

/// Pinned buffers are of whole large pages.
size_t stepOf(const UnitServices &services) {
  return services.device ? size_t{2} << 20 : 1;
}

} // namespace

UnitGraph::UnitGraph(const Schedule &schedule, const UnitServices &services,
                     uint64_t budget, unsigned threads)
    : services_(services), schedule_(schedule),
      pool_(keptOf(budget, services.device), allocatorOf(services),
            stepOf(services)),
      budget_(flightOf(budget, services.device)), most_(3 * threads) {}

Result<void> holdWholeTensors(const plan::Plan &plan, uint64_t memory,
                              bool onDevice) {
  const uint64_t needed = wholeTensorBytes(plan),
                 room = flightOf(memory, onDevice);
  if (needed <= room)
    return {};
  const uint64_t part = onDevice ? waitingOfDevice : waitingOfHost;
  return fail(
      "a tensor in NVFP4 is held in memory whole, and the largest needs "
      "{} bytes of buffers; --memory {} has {} for it: give more "
      "--memory, {} at least",
      needed, memory, room, (needed - 1) * part / (part - 1) + 1);
}

void UnitGraph::stop(Error error) {
  std::lock_guard lock(admission_);
  if (!failure_)
    failure_ = std::move(error);
  stopped_ = true;
}

/// Runs one stage. Nothing may be thrown into the graph.
template <typename Step>
UnitGraph::UnitPointer UnitGraph::step(const UnitPointer &unit, Step step) {
  if (stopped())
    return unit;
  try {
    if (Result<void> done = step(); !done)
      stop(done.error());
  } catch (const std::exception &exception) {
    stop({fmt::format("a unit of {} bytes failed: {}; a smaller --memory may "
                      "help",
                      unit->bytes, exception.what())});
  }
  return unit;
}

Result<void> UnitGraph::run() {
  Nodes nodes{{},
              {nodes.graph, flow::unlimited,
               [this](const UnitPointer &unit) {
                 return step(unit, [&] { return read(*unit); });
               }},
              {nodes.graph, flow::unlimited,
               [this](const UnitPointer &unit) {
                 return step(unit, [&] {
                   if (services_.device)
                     return services_.device->compute(*unit, services_.crc,
                                                      services_.sink);
                   return compute(services_.plan, services_.kernels, *unit,
                                  services_.crc);
                 });
               }},
              {nodes.graph, flow::unlimited, [this](const UnitPointer &unit) {
                 step(unit, [&] { return services_.sink.write(*unit); });
                 finish(unit);
               }}};
  flow::make_edge(nodes.read, nodes.compute);
  flow::make_edge(nodes.compute, nodes.write);
  nodes_ = &nodes;
  admit();
  nodes.graph.wait_for_all();
  nodes_ = nullptr;
  if (failure_)
    return std::unexpected(*failure_);
  return {};
}

Result<void> UnitGraph::read(Unit &unit) {
  unit.buffer = pool_.take(unit.bytes);
  for (const std::vector<Read> *reads : {&unit.staged, &unit.direct})
    for (const Read &read : *reads) {
      if (stopped())
        return {};
      Result<void> done = services_.sources.read(
          read.file, read.offset, {unit.at(read.place), read.length});
      if (!done)
        return done;
      bytesRead_ += read.length;
    }
  return {};
}

void UnitGraph::finish(const UnitPointer &unit) {
  if (services_.progress)
    for (const Band &band : unit->bands)
      services_.progress->add(band.storedBytes);
  uint64_t bytes = pool_.sizeFor(unit->bytes);
  pool_.give(std::move(unit->buffer));
  {
    std::lock_guard lock(admission_);
    flying_ -= bytes;
    --units_;
    for (const Band &band : unit->bands)
      if (band.anew)
        anew_.insert(band.item);
  }
  admit();
}

/// The next unit that fits into the budget by itself.
std::optional<Unit> UnitGraph::next() {
  if (waiting_)
    return std::exchange(waiting_, std::nullopt);
  while (!halves_.empty() || nextKey_ != schedule_.keys().size()) {
    UnitKey key;
    if (halves_.empty()) {
      key = schedule_.keys()[nextKey_++];
    } else {
      key = halves_.front();
      halves_.pop_front();
    }
    Unit unit = schedule_.prepare(key);
    if (unit.bands.empty())
      continue;
    if (unit.bytes <= budget_)
      return unit;
    bool single = key.count == 1;
    for (const Band &band : unit.bands)
      single = single && band.smallest;
    if (single) {
      if (!failure_)
        failure_ = Error{fmt::format(
            "one element or block and its scales need {} bytes of buffers, "
            "the bound allows {}: give more --memory",
            unit.bytes, budget_)};
      stopped_ = true;
      return std::nullopt;
    }
    for (const UnitKey &half : schedule_.split(key))
      halves_.push_back(half);
  }
  return std::nullopt;
}

/// Lets units in while they fit. Never blocks: whoever finishes a unit lets in
/// the next, so one thread is enough to make progress.
void UnitGraph::admit() {
  std::lock_guard lock(admission_);
  try {
    while (!stopped() && units_ < most_) {
      std::optional<Unit> unit = next();
      if (!unit)
        return;
      uint64_t bytes = pool_.sizeFor(unit->bytes);
      if (units_ != 0 && flying_ + bytes > budget_) {
        waiting_ = std::move(unit);
        return;
      }
      flying_ += bytes;
      ++units_;
      nodes_->read.try_put(std::make_shared<Unit>(std::move(*unit)));
    }
  } catch (const std::exception &exception) {
    if (!failure_)
      failure_ =
          Error{fmt::format("units cannot be made: {}", exception.what())};
    stopped_ = true;
  }
}

} // namespace mbc
