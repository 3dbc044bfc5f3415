#include "runtime/Comparisons.h"
#include "runtime/Plan.h"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>
#include <mutex>
#include <oneapi/tbb/parallel_for.h>
#include <optional>

namespace mbc {
namespace {

/// Offset of the first byte that differs; `second` null stands for zeros.
std::optional<uint64_t> firstDifference(const std::vector<std::byte> &first,
                                        const std::vector<std::byte> *second) {
  if (second && std::memcmp(first.data(), second->data(), first.size()) == 0)
    return std::nullopt;
  for (uint64_t at = 0; at != first.size(); ++at)
    if (first[at] != (second ? (*second)[at] : std::byte{0}))
      return at;
  return std::nullopt;
}

/// Offset in the pair of the first byte that differs, chunk by chunk.
Result<std::optional<uint64_t>> compareOne(const plan::Plan &plan,
                                           const plan::Comparison &pair,
                                           SourceFiles &files, uint64_t chunk) {
  std::vector<std::byte> first, second;
  for (uint64_t at = 0; at < pair.bytes(); at += chunk) {
    uint64_t count = std::min(chunk, pair.bytes() - at);
    first.resize(count);
    const plan::Source *source = plan.sources()->Get(pair.first());
    Result<void> read = files.read(
        source->file(), source->offset() + pair.first_offset() + at, first);
    if (read && pair.second() >= 0) {
      second.resize(count);
      source = plan.sources()->Get(pair.second());
      read = files.read(source->file(),
                        source->offset() + pair.second_offset() + at, second);
    }
    if (!read)
      return std::unexpected(read.error());
    auto differs =
        firstDifference(first, pair.second() >= 0 ? &second : nullptr);
    if (differs)
      return at + *differs;
  }
  return std::nullopt;
}

std::string nameOf(const flatbuffers::String *name) {
  return name ? name->str() : "a tensor";
}

/// What the run found, shared by its threads.
struct Findings {
  std::mutex mutex;
  std::vector<std::pair<size_t, std::string>> notes; ///< with the pair's index
  std::optional<std::pair<size_t, Error>> failure;   ///< of the lowest index

  void fail(size_t index, Error error) {
    std::lock_guard lock(mutex);
    if (!failure || index < failure->first)
      failure = {index, std::move(error)};
  }
};

void judge(const plan::Comparison &pair, size_t index, uint64_t at,
           Findings &findings) {
  uint64_t row = pair.row_bytes() ? at / pair.row_bytes() : 0;
  if (pair.second() >= 0) {
    findings.fail(
        index,
        {fmt::format("'{}' is declared a copy of '{}', but they differ in row "
                     "{} (byte {} of {}): correct the checkpoint, or give "
                     "--copies drop to leave the copy out",
                     nameOf(pair.second_name()), nameOf(pair.first_name()), row,
                     at, pair.bytes())});
    return;
  }
  if (pair.required()) {
    const uint64_t rowBytes = std::max<uint64_t>(pair.row_bytes(), 1);
    const uint64_t first = pair.first_offset() / rowBytes;
    findings.fail(
        index,
        {fmt::format("'{}': row {} is not zero, but rows {} to {} have no "
                     "place in Megatron: correct the checkpoint, or the sizes "
                     "in config.json",
                     nameOf(pair.first_name()), first + row, first,
                     first + (pair.bytes() - 1) / rowBytes)});
    return;
  }
  std::lock_guard lock(findings.mutex);
  findings.notes.emplace_back(
      index, fmt::format("'{}': padding row {} is not zero; the padding rows "
                         "are left out",
                         nameOf(pair.first_name()), row));
}

std::string_view sourceName(const plan::Plan &plan, uint64_t source) {
  return source < length(plan.source_names())
             ? plan.source_names()->Get(source)->string_view()
             : "a tensor";
}

/// Whether a tensor of integers repeats the shape that its codes have.
Result<void> compareShape(const plan::Plan &plan, const plan::Comparison &pair,
                          SourceFiles &files) {
  std::vector<std::byte> bytes(pair.bytes());
  const plan::Source *source = plan.sources()->Get(pair.first());
  if (Result<void> read = files.read(source->file(), source->offset(), bytes);
      !read)
    return read;
  const size_t extents = pair.shape()->size(), width = bytes.size() / extents;
  std::vector<int64_t> found, shape;
  for (size_t axis = 0; axis != extents; ++axis) {
    int32_t narrow = 0;
    int64_t wide = 0;
    if (width == sizeof narrow)
      std::memcpy(&narrow, &bytes[axis * width], width);
    else
      std::memcpy(&wide, &bytes[axis * width], width);
    found.push_back(width == sizeof narrow ? narrow : wide);
    shape.push_back(pair.shape()->Get(axis));
  }
  if (found == shape)
    return {};
  return fail("'{}' says [{}], but the values of '{}' are [{}]: take both "
              "tensors from one checkpoint, or quantise it again",
              sourceName(plan, pair.first()), fmt::join(found, ", "),
              sourceName(plan, pair.second()), fmt::join(shape, ", "));
}

} // namespace

Result<std::vector<std::string>>
compareSources(const plan::Plan &plan, SourceFiles &files, uint64_t chunk) {
  Findings findings;
  tbb::parallel_for(size_t{0}, length(plan.comparisons()), [&](size_t index) {
    const plan::Comparison &pair = *plan.comparisons()->Get(index);
    if (length(pair.shape()) != 0) {
      if (Result<void> same = compareShape(plan, pair, files); !same)
        findings.fail(index, same.error());
      return;
    }
    Result<std::optional<uint64_t>> differs =
        compareOne(plan, pair, files, chunk);
    if (!differs)
      findings.fail(index, differs.error());
    else if (*differs)
      judge(pair, index, **differs, findings);
  });
  if (findings.failure)
    return std::unexpected(findings.failure->second);
  std::sort(findings.notes.begin(), findings.notes.end());
  std::vector<std::string> notes;
  for (auto &[index, note] : findings.notes)
    notes.push_back(std::move(note));
  return notes;
}

} // namespace mbc
