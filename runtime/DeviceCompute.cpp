#include "runtime/DeviceCompute.h"
#include "runtime/Plan.h"
#include "runtime/UnitCompute.h"

#include <algorithm>
#include <map>

namespace mbc {

/// One kernel's calls in a unit. Their addresses are offsets from the unit's
/// first byte until the unit has a place on the device.
struct DeviceCompute::Launch {
  size_t kernel = 0;
  KernelFormat format;
  std::vector<KernelCall> calls;
  DeviceBatch batch{{}};
  size_t tables = 0; ///< offset of its tables
};

Result<std::unique_ptr<DeviceCompute>>
DeviceCompute::make(const plan::Plan &plan, int ordinal, uint64_t memory) {
  std::unique_ptr<DeviceCompute> made(new DeviceCompute(plan));
  Result<Device> device = Device::open(ordinal);
  if (!device)
    return std::unexpected(device.error());
  made->device_ = std::move(*device);
  Result<DeviceKernels> kernels = DeviceKernels::load(made->device_, plan);
  if (!kernels)
    return std::unexpected(kernels.error());
  made->kernels_ = std::move(*kernels);
  for (size_t index = 0; index != length(plan.kernels()); ++index) {
    std::string_view name = plan.kernels()->Get(index)->symbol()->string_view();
    made->exact_.push_back(name.find("_exact") != std::string_view::npos);
  }
  made->memory_ = memory != 0 ? memory : made->device_.freeMemory() / 2;
  return made;
}

BufferBytes DeviceCompute::pin(size_t bytes) const {
  if (Result<void> entered = device_.enter(); !entered)
    throw std::runtime_error(entered.error().message);
  Result<DeviceMemory> memory = device_.pin(bytes);
  if (!memory)
    throw std::runtime_error(memory.error().message);
  return {memory->host(), [kept = *memory](std::byte *) {}};
}

/// The kernels of a unit and their calls.
Result<std::vector<DeviceCompute::Launch>>
DeviceCompute::plan(const Unit &unit) const {
  std::map<std::pair<size_t, uint32_t>, Launch> launches;
  for (const Move &move : unit.moves) {
    std::optional<size_t> kernel = kernelOf(plan_, unit, move);
    if (!kernel)
      continue;
    const Band &band = unit.bands[move.band];
    const plan::Class &kind = *plan_.classes()->Get(band.kind);
    const plan::Output &output = *kind.outputs()->Get(band.output);
    KernelFormat format{move.bits, 8 * band.width, 0};
    if (output.scales() && output.scales()->size() != 0) {
      const plan::Input &scales =
          *kind.inputs()->Get(output.scales()->Get(0)->input());
      format.scaleBytes = byteSize(DType(scales.dtype()));
    }
    Launch &launch = launches[{*kernel, format.scaleBytes}];
    launch.kernel = *kernel;
    launch.format = format;
    Result<void> done =
        forEachKernelCall(plan_, unit, move, [&](const KernelCall &call) {
          launch.calls.push_back(call);
          return true;
        });
    if (!done)
      return std::unexpected(done.error());
  }
  std::vector<Launch> result;
  for (auto &[key, launch] : launches)
    result.push_back(std::move(launch));
  return result;
}

/// Notes which bands a kernel makes where they stay: those that are nothing but
/// kernels' work.
void DeviceCompute::place(Unit &unit, const BandSink &sink) const {
  for (Band &band : unit.bands) {
    const plan::Output &output =
        *plan_.classes()->Get(band.kind)->outputs()->Get(band.output);
    band.placed = output.kernel() >= 0 && !output.encoding() &&
                  band.elements() != 0 && sink.deviceAddress(band) != 0;
  }
  for (const Move &move : unit.moves)
    if (!kernelOf(plan_, unit, move))
      unit.bands[move.band].placed = false;
}

Result<void> DeviceCompute::compute(Unit &unit, bool withCrc,
                                    const BandSink &sink) {
  if (Result<void> entered = device_.enter(); !entered)
    return entered;
  Result<std::vector<Launch>> launches = plan(unit);
  if (!launches)
    return std::unexpected(launches.error());
  if (!launches->empty()) {
    place(unit, sink);
    auto space = take(unit.bytes);
    if (!space)
      return std::unexpected(space.error());
    Result<void> done = run(unit, *launches, **space, sink);
    give(std::move(*space));
    if (!done)
      return done;
  }
  Result<void> done = computeMoves(plan_, nullptr, unit);
  return done ? finishBands(plan_, unit, withCrc) : done;
}

Result<void> DeviceCompute::run(Unit &unit, std::vector<Launch> &launches,
                                Workspace &space, const BandSink &sink) const {
  const std::byte *first = unit.at(0);
  auto onDevice = [&](const std::byte *address) {
    return address ? space.unit.address() + (address - first) : 0;
  };
  auto targetOf = [&](const KernelCall &call) {
    const Band &band = unit.bands[call.move->band];
    return band.placed
               ? sink.deviceAddress(band) + (call.target - unit.at(band.place))
               : onDevice(call.target);
  };
  size_t tables = 0;
  bool exact = false;
  for (Launch &launch : launches) {
    launch.batch = DeviceBatch(launch.format);
    for (const KernelCall &call : launch.calls) {
      Result<void> added =
          launch.batch.add({onDevice(call.source), onDevice(call.scales),
                            targetOf(call), call.geometry});
      if (!added)
        return added;
    }
    launch.tables = tables;
    tables += DeviceKernels::tableBytes(launch.batch);
    exact = exact || exact_[launch.kernel];
  }
  if (Result<void> grown = growTables(space, tables); !grown)
    return grown;
  for (const Launch &launch : launches)
    DeviceKernels::writeTables(launch.batch,
                               space.hostTables.host() + launch.tables);
  const DeviceStream &stream = space.stream;
  size_t staged = unit.staged.empty() ? unit.bytes : unit.staged[0].place;
  Result<void> done = stream.upload(space.unit.address() + staged,
                                    {unit.at(staged), unit.bytes - staged});
  if (done)
    done = stream.upload(space.tables.address(),
                         {space.hostTables.host(), tables});
  for (const Launch &launch : launches)
    if (done)
      done = kernels_.launch(launch.kernel, launch.batch,
                             space.tables.address() + launch.tables, stream);
  for (const Band &band : unit.bands) {
    const plan::Class &kind = *plan_.classes()->Get(band.kind);
    bool made = kind.outputs()->Get(band.output)->kernel() >= 0;
    const size_t bytes = band.elements() * band.width;
    if (done && made && !band.placed && bytes != 0)
      done = stream.download({unit.at(band.place), bytes},
                             space.unit.address() + band.place);
  }
  if (done && exact)
    done = stream.download({space.hostTables.host(), tables},
                           space.tables.address());
  // Copies in flight end before their memory is used again.
  Result<void> waited = stream.wait();
  if (!done)
    return done;
  if (!waited)
    return waited;
  for (const Launch &launch : launches) {
    if (!exact_[launch.kernel])
      continue;
    LostElement lost = DeviceKernels::lost(
        launch.batch, space.hostTables.host() + launch.tables);
    if (lost.index >= 0)
      return std::unexpected(
          lossOf(plan_, unit, launch.calls[lost.piece], lost.index));
  }
  return {};
}

namespace {

/// Puts what was made in its place.
template <typename T> Result<void> keep(T &place, Result<T> made) {
  if (!made)
    return std::unexpected(made.error());
  place = std::move(*made);
  return {};
}

} // namespace

/// Tables are small beside a unit's bytes and not counted in the bound.
Result<void> DeviceCompute::growTables(Workspace &space, size_t bytes) const {
  if (space.tables.bytes() >= bytes)
    return {};
  Result<void> done = keep(space.tables, device_.allocate(2 * bytes));
  if (done)
    done = keep(space.hostTables, device_.pin(2 * bytes));
  return done;
}

Result<std::unique_ptr<DeviceCompute::Workspace>>
DeviceCompute::allocate(size_t unitBytes) const {
  auto space = std::make_unique<Workspace>();
  Result<void> done = keep(space->unit, device_.allocate(unitBytes));
  if (done)
    done = keep(space->stream, device_.makeStream());
  if (!done)
    return std::unexpected(done.error());
  return space;
}

/// A workspace that is free, or a new one within the bound. Who waits, waits
/// for a thread that is computing, never for one that waits itself.
Result<std::unique_ptr<DeviceCompute::Workspace>>
DeviceCompute::take(size_t unitBytes) {
  // Rounded, so that units of almost one size share workspaces.
  constexpr size_t step = size_t{1} << 20;
  unitBytes = (unitBytes / step + 1) * step;
  if (unitBytes > memory_)
    return fail("a unit needs {} bytes of device memory, the bound allows {}: "
                "give more --device-memory",
                unitBytes, memory_);
  std::unique_lock lock(mutex_);
  for (;;) {
    for (std::unique_ptr<Workspace> &space : free_)
      if (space->unit.bytes() >= unitBytes) {
        std::swap(space, free_.back());
        std::unique_ptr<Workspace> taken = std::move(free_.back());
        free_.pop_back();
        return taken;
      }
    while (held_ + unitBytes > memory_ && !free_.empty()) {
      held_ -= free_.back()->unit.bytes();
      free_.pop_back();
    }
    if (held_ + unitBytes <= memory_) {
      auto made = allocate(unitBytes);
      if (made)
        held_ += unitBytes;
      if (made || held_ == 0)
        return made;
      // The GPU has less than the bound says: do with what there is.
    }
    freed_.wait(lock);
  }
}

void DeviceCompute::give(std::unique_ptr<Workspace> space) {
  {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(space));
  }
  freed_.notify_all();
}

} // namespace mbc
