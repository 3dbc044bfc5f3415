#include "runtime/Plan.h"
#include "runtime/PlanCheck.h"
#include "runtime/TorchArchive.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mbc {

Result<Plan> Plan::open(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return fail("{}: cannot open the plan: {}", path, std::strerror(errno));
  struct stat status {};
  void *address = MAP_FAILED;
  const bool known = fstat(descriptor, &status) == 0;
  if (known && S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    return fail("{}: is a directory, not a plan: `mbc compile` writes plans, "
                "and `mbc convert` converts a checkpoint without one",
                path);
  }
  if (known && status.st_size > 0)
    address =
        mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  ::close(descriptor);
  if (status.st_size == 0)
    return fail("{}: not a plan: the file is empty", path);
  if (address == MAP_FAILED)
    return fail("{}: cannot map the plan: {}", path, std::strerror(errno));
  size_t size = status.st_size;
  Plan plan;
  plan.name_ = path;
  plan.owner_ = std::shared_ptr<const void>(address, [size](const void *at) {
    munmap(const_cast<void *>(at), size);
  });
  plan.bytes_ = {static_cast<const uint8_t *>(address), size};
  if (Result<void> verified = plan.verify(); !verified)
    return std::unexpected(verified.error());
  return plan;
}

Result<Plan> Plan::fromBytes(std::vector<uint8_t> bytes, std::string name) {
  auto held = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  Plan plan;
  plan.name_ = std::move(name);
  plan.bytes_ = *held;
  plan.owner_ = std::move(held);
  if (Result<void> verified = plan.verify(); !verified)
    return std::unexpected(verified.error());
  return plan;
}

std::string planSeal(std::span<const uint8_t> bytes) {
  uint32_t crc = crc32(0, std::as_bytes(bytes));
  std::string seal = "MBCE";
  for (int shift = 0; shift != 32; shift += 8)
    seal += static_cast<char>(crc >> shift);
  return seal;
}

Result<void> Plan::verify() {
  if (bytes_.size() < 8 || !plan::PlanBufferHasIdentifier(bytes_.data()))
    return fail("{}: not a plan: the mark 'MBCP' is missing at byte 4", name_);
  constexpr size_t sealBytes = 8;
  std::string_view all(reinterpret_cast<const char *>(bytes_.data()),
                       bytes_.size());
  bytes_ = bytes_.first(bytes_.size() - sealBytes);
  if (all.substr(bytes_.size()) != planSeal(bytes_))
    return fail("{}: the plan is damaged or cut short ({} bytes): copy or "
                "compile it again",
                name_, all.size());
  // Tables grow with the model, so the verifier's bound on them is the size.
  flatbuffers::Verifier verifier(
      bytes_.data(), bytes_.size(), /*max_depth=*/16,
      static_cast<flatbuffers::uoffset_t>(bytes_.size()));
  if (!plan::VerifyPlanBuffer(verifier))
    return fail("{}: the plan is damaged or cut short ({} bytes): copy or "
                "compile it again",
                name_, bytes_.size());
  root_ = plan::GetPlan(bytes_.data());
  if (root_->version() != planVersion)
    return fail("{}: plan version {}, this mbc reads version {}: compile the "
                "plan again with this mbc",
                name_, root_->version(), planVersion);
  return checkPlan(name_, *root_);
}

int64_t divideUp(int64_t extent, int64_t block) {
  return extent / block + (extent % block != 0);
}

uint64_t storedBytes(const plan::Output &output, int64_t elements) {
  auto stored = static_cast<DType>(
      output.encoding() ? output.encoding()->codes() : output.dtype());
  return elements * bitSize(stored) / 8;
}

bool isCompanion(const plan::Output &output) {
  return output.is_scales() || output.is_tensor_scale();
}

bool hasTensorScale(const plan::Encoding &encoding) {
  return TensorScale(encoding.level()) != TensorScale::None;
}

int64_t scaleRows(const plan::Output &output) {
  const plan::Encoding &encoding = *output.encoding();
  return divideUp(output.elements() / encoding.columns(),
                  encoding.block_rows());
}

int64_t stripeRows(const plan::Output &output) {
  const plan::Encoding &encoding = *output.encoding();
  return hasTensorScale(encoding) ? output.elements() / encoding.columns()
                                  : encoding.block_rows();
}

int64_t stripeCount(const plan::Output &output) {
  return hasTensorScale(*output.encoding()) ? 1 : scaleRows(output);
}

int64_t scaleColumns(const plan::Encoding &encoding) {
  return divideUp(encoding.columns(), encoding.block_columns());
}

size_t instanceCount(const plan::Class &kind) {
  size_t outputs = length(kind.outputs());
  return outputs ? length(kind.items()) / outputs : 0;
}

EncodedTensors encodedTensors(const plan::Plan &plan) {
  EncodedTensors count;
  for (size_t index = 0; index != length(plan.classes()); ++index) {
    const plan::Class &kind = *plan.classes()->Get(index);
    for (const plan::Output *output : *kind.outputs()) {
      if (!output->encoding())
        continue;
      count.all += instanceCount(kind);
      if (output->encoding()->original_codes() >= 0)
        count.withOriginals += instanceCount(kind);
    }
  }
  return count;
}

PlanTotals totals(const plan::Plan &plan) {
  PlanTotals result;
  for (size_t index = 0; index != length(plan.source_files()); ++index)
    result.sourceBytes += plan.source_files()->Get(index)->size();
  for (size_t index = 0; index != length(plan.files()); ++index)
    result.targetBytes += plan.files()->Get(index)->size();
  for (size_t index = 0; index != length(plan.sidecars()); ++index)
    result.targetBytes += length(plan.sidecars()->Get(index)->bytes());
  for (size_t index = 0; index != length(plan.classes()); ++index)
    result.instances += instanceCount(*plan.classes()->Get(index));
  // All items of a file are of one rank.
  std::vector<uint64_t> rankOf(length(plan.files()));
  for (size_t index = 0; index != length(plan.items()); ++index) {
    const plan::Item &item = *plan.items()->Get(index);
    rankOf[item.file()] = item.rank();
    result.ranks = std::max<uint64_t>(result.ranks, item.rank() + 1);
  }
  std::vector<uint64_t> bytesOf(std::max<uint64_t>(result.ranks, 1));
  for (size_t index = 0; index != rankOf.size(); ++index)
    bytesOf[rankOf[index]] += plan.files()->Get(index)->size();
  auto [least, most] = std::ranges::minmax(bytesOf);
  result.leastOfRank = least;
  result.mostOfRank = most;
  return result;
}

} // namespace mbc
