#include "runtime/Executor.h"
#include "runtime/Checkpoint.h"
#include "runtime/ItemWriter.h"
#include "runtime/Publish.h"
#include "runtime/TargetFiles.h"
#include "runtime/TargetFraming.h"
#include "runtime/TorchDistWriter.h"

#include <chrono>
#include <exception>
#include <filesystem>

namespace mbc {
namespace {

constexpr std::string_view markerName = "metadata.json";

/// One run, from the checks to the published checkpoint.
class Run {
public:
  /// `source`: the folder of the files; `given`: as the user named it.
  Run(const Plan &plan, const std::string &source, const std::string &given,
      const std::string &target, const RunOptions &options)
      : plan_(*plan), source_(source), given_(given), target_(target),
        options_(options), work_(plan_, source, options) {}

  Result<RunSummary> operator()();

private:
  Result<void> prepare();
  Result<void> moveTensors();
  void noteQuantized(uint64_t anew);
  Result<void> writeSidecars();
  Result<uint64_t> neededBytes() const;

  const plan::Plan &plan_;
  const std::string &source_, &given_, &target_;
  const RunOptions &options_;
  TensorWork work_;
  std::optional<TargetFraming> framing_;
  std::optional<Publication> publication_;
  RunSummary summary_;
  std::string object_, metadata_;
};

/// What the target will hold, checked against the free space.
Result<uint64_t> Run::neededBytes() const {
  uint64_t bytes = metadata_.size();
  for (size_t index = 0; index != length(plan_.files()); ++index)
    bytes += plan_.files()->Get(index)->size();
  for (size_t index = 0; index != length(plan_.sidecars()); ++index)
    bytes += length(plan_.sidecars()->Get(index)->bytes());
  for (size_t index = 0; index != length(plan_.copies()); ++index) {
    Result<InputFile> file = InputFile::open(
        joinPath(source_, plan_.copies()->Get(index)->source()->string_view()));
    if (!file)
      return std::unexpected(file.error());
    bytes += file->size();
  }
  return bytes;
}

Result<void> Run::prepare() {
  if (Result<void> prepared = work_.prepare(); !prepared)
    return prepared;
  Result<TargetFraming> framing = TargetFraming::make(plan_);
  if (!framing)
    return std::unexpected(framing.error());
  framing_.emplace(std::move(*framing));
  if (plan_.format() == plan::TargetFormat_TorchDist) {
    object_ = extraStateObject();
    metadata_ = framing_->metadata(object_.size());
  }
  Result<uint64_t> needed = neededBytes();
  if (!needed)
    return std::unexpected(needed.error());
  summary_.bytesWritten = *needed;
  Result<Publication> publication =
      Publication::begin(plan_, given_, target_, options_.force, *needed);
  if (!publication)
    return std::unexpected(publication.error());
  publication_.emplace(std::move(*publication));
  return {};
}

Result<void> Run::moveTensors() {
  Result<std::vector<std::string>> notes = work_.compare();
  if (!notes)
    return std::unexpected(notes.error());
  summary_.notes = std::move(*notes);

  TargetFiles files(plan_, publication_->staging(), object_, options_.sync);
  if (Result<void> written = files.writeEmptyFiles(); !written)
    return written;
  ItemWriter writer(plan_, *framing_, files);
  Result<void> done = work_.move(writer, framing_->needsCrc());
  summary_.bytesRead = work_.bytesRead();
  noteQuantized(work_.quantizedAnew());
  return done;
}

/// How many tensors left as codes, and of those with originals, as which.
void Run::noteQuantized(uint64_t anew) {
  EncodedTensors encoded = encodedTensors(plan_);
  if (encoded.withOriginals != 0)
    summary_.notes.push_back(
        fmt::format("quantised tensors: {} as they were imported, {} quantised "
                    "anew",
                    encoded.all - anew, anew));
  else if (encoded.all != 0)
    summary_.notes.push_back(
        fmt::format("{} tensors were quantised", encoded.all));
}

/// The small files; the one by which a loader knows a torch_dist comes last.
Result<void> Run::writeSidecars() {
  auto stage = [&](const plan::Sidecar &row) {
    std::string_view bytes;
    if (row.bytes())
      bytes = {reinterpret_cast<const char *>(row.bytes()->data()),
               row.bytes()->size()};
    return publication_->stage(row.path()->string_view(), bytes);
  };
  for (size_t index = 0; index != length(plan_.copies()); ++index) {
    const plan::SidecarCopy &row = *plan_.copies()->Get(index);
    Result<void> copied =
        publication_->copy(joinPath(source_, row.source()->string_view()),
                           row.target()->string_view());
    if (!copied)
      return copied;
  }
  if (plan_.format() == plan::TargetFormat_TorchDist)
    if (auto staged = publication_->stage(".metadata", metadata_); !staged)
      return staged;
  for (bool marker : {false, true})
    for (size_t index = 0; index != length(plan_.sidecars()); ++index) {
      const plan::Sidecar &row = *plan_.sidecars()->Get(index);
      if ((row.path()->string_view() == markerName) != marker)
        continue;
      if (Result<void> staged = stage(row); !staged)
        return staged;
    }
  return {};
}

Result<RunSummary> Run::operator()() {
  auto begin = std::chrono::steady_clock::now();
  if (Result<void> prepared = prepare(); !prepared)
    return std::unexpected(prepared.error());
  if (options_.progress)
    options_.progress->start(totals(plan_).targetBytes);
  Result<void> moved = moveTensors();
  if (moved)
    moved = writeSidecars();
  if (moved)
    moved = publication_->publish(options_.sync);
  if (options_.progress)
    options_.progress->stop();
  if (!moved)
    return std::unexpected(moved.error());
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - begin;
  summary_.seconds = elapsed.count();
  summary_.tensors = length(plan_.tensors());
  summary_.files = length(plan_.files());
  summary_.where = publication_->where();
  return std::move(summary_);
}

} // namespace

Result<RunSummary> run(const Plan &plan, const std::string &sourceDir,
                       const std::string &targetDir,
                       const RunOptions &options) {
  try {
    Result<std::string> root = checkpointRoot(sourceDir);
    if (!root)
      return std::unexpected(root.error());
    // The folder of an iteration stands for the whole checkpoint around it.
    std::string given = sourceDir;
    std::string above = joinPath(sourceDir, "..");
    if (*root == sourceDir && std::filesystem::exists(joinPath(
                                  above, "latest_checkpointed_iteration.txt")))
      given = above;
    return Run(plan, *root, given, targetDir, options)();
  } catch (const std::exception &exception) {
    return fail("{}: the run failed: {}", targetDir, exception.what());
  }
}

} // namespace mbc
