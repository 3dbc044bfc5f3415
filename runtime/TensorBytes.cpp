#include "runtime/TensorBytes.h"

#include "runtime/File.h"
#include "runtime/Sha256.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace mbc {
namespace {

constexpr uint64_t blockBytes = 8 << 20;
/// Runs shorter than this are read together with what lies between them.
constexpr uint64_t shortRun = 16 << 10;

/// Reads boxes of one tensor; keeps the files it has opened.
class BoxReader {
public:
  BoxReader(const Checkpoint &checkpoint, const StoredTensor &tensor,
            const std::function<void(std::span<const std::byte>)> &sink)
      : checkpoint_(checkpoint), tensor_(tensor), sink_(sink),
        width_(byteSize(tensor.dtype)) {}

  Result<void> stream(const TensorBox &box);

private:
  Result<void> fill(const TensorBox &box);
  Result<void> copyPiece(const InputFile &file, const StoredPiece &piece,
                         const TensorBox &box, const TensorBox &common);
  Result<const InputFile *> file(uint32_t number);

  const Checkpoint &checkpoint_;
  const StoredTensor &tensor_;
  const std::function<void(std::span<const std::byte>)> &sink_;
  uint64_t width_;
  std::map<uint32_t, InputFile> files_;
  std::vector<std::byte> block_, span_;
};

Result<const InputFile *> BoxReader::file(uint32_t number) {
  auto known = files_.find(number);
  if (known == files_.end()) {
    auto opened = InputFile::open(
        joinPath(checkpoint_.root, checkpoint_.files[number].path));
    if (!opened)
      return std::unexpected(opened.error());
    known = files_.emplace(number, std::move(*opened)).first;
  }
  return &known->second;
}

std::optional<TensorBox> intersect(const TensorBox &box,
                                   const StoredPiece &piece) {
  TensorBox common = box;
  for (size_t dim = 0; dim != box.start.rank(); ++dim) {
    int64_t begin = std::max(box.start[dim], (*piece.start)[dim]);
    int64_t end = std::min(box.start[dim] + box.shape[dim],
                           (*piece.start)[dim] + (*piece.shape)[dim]);
    if (begin >= end)
      return std::nullopt;
    common.start[dim] = begin;
    common.shape[dim] = end - begin;
  }
  return common;
}

/// Elements from the first of an outer box to the first of an inner one.
int64_t distance(const Shape &outerStart, const Shape &outerShape,
                 const Shape &start) {
  int64_t elements = 0;
  for (size_t dim = 0; dim != start.rank(); ++dim)
    elements = elements * outerShape[dim] + start[dim] - outerStart[dim];
  return elements;
}

Result<void> BoxReader::copyPiece(const InputFile &file,
                                  const StoredPiece &piece,
                                  const TensorBox &box,
                                  const TensorBox &common) {
  // Trailing dims that all three boxes share whole make up one run.
  size_t inner = common.shape.rank();
  uint64_t run = width_;
  while (inner != 0) {
    --inner;
    run *= static_cast<uint64_t>(common.shape[inner]);
    if (common.shape[inner] != (*piece.shape)[inner] ||
        common.shape[inner] != box.shape[inner])
      break;
  }
  Shape last = common.start;
  for (size_t dim = 0; dim != last.rank(); ++dim)
    last[dim] += common.shape[dim] - 1;
  uint64_t from =
      width_ *
      static_cast<uint64_t>(distance(*piece.start, *piece.shape, common.start));
  uint64_t to = width_ * static_cast<uint64_t>(
                             distance(*piece.start, *piece.shape, last) + 1);
  bool together = run < shortRun && to - from <= 64 * blockBytes;
  if (together) {
    span_.resize(to - from);
    if (auto read = file.readAt(piece.offset + from, span_); !read)
      return read;
  }
  Shape at = common.start;
  for (;;) {
    uint64_t source = width_ * static_cast<uint64_t>(
                                   distance(*piece.start, *piece.shape, at));
    uint64_t target =
        width_ * static_cast<uint64_t>(distance(box.start, box.shape, at));
    if (together) {
      std::memcpy(block_.data() + target, span_.data() + (source - from), run);
    } else if (auto read = file.readAt(piece.offset + source,
                                       std::span(block_).subspan(target, run));
               !read) {
      return read;
    }
    size_t dim = inner;
    while (dim != 0) {
      --dim;
      if (++at[dim] < common.start[dim] + common.shape[dim])
        break;
      at[dim] = common.start[dim];
      if (dim == 0)
        return {};
    }
    if (inner == 0)
      return {};
  }
}

Result<void> BoxReader::fill(const TensorBox &box) {
  block_.resize(static_cast<uint64_t>(box.shape.elements()) * width_);
  for (const StoredPiece &piece : tensor_.pieces) {
    std::optional<TensorBox> common = intersect(box, piece);
    if (!common)
      continue;
    Result<const InputFile *> opened = file(piece.file);
    if (!opened)
      return std::unexpected(opened.error());
    if (auto copied = copyPiece(**opened, piece, box, *common); !copied)
      return copied;
  }
  sink_(block_);
  return {};
}

Result<void> BoxReader::stream(const TensorBox &box) {
  uint64_t bytes = static_cast<uint64_t>(box.shape.elements()) * width_;
  if (bytes == 0)
    return {};
  if (bytes <= blockBytes)
    return fill(box);
  size_t dim = 0;
  while (box.shape[dim] == 1)
    ++dim;
  uint64_t slice = bytes / static_cast<uint64_t>(box.shape[dim]);
  auto step = static_cast<int64_t>(std::max<uint64_t>(1, blockBytes / slice));
  for (int64_t begin = 0; begin < box.shape[dim]; begin += step) {
    TensorBox part = box;
    part.start[dim] += begin;
    part.shape[dim] = std::min(step, box.shape[dim] - begin);
    if (auto streamed = stream(part); !streamed)
      return streamed;
  }
  return {};
}

/// The elements of `tensor` in the order of its axes, of bytes in that of the
/// file.
std::vector<std::byte> inOwnOrder(const StoredTensor &tensor,
                                  const std::vector<std::byte> &stored) {
  const size_t rank = tensor.shape->rank(), width = byteSize(tensor.dtype);
  Shape strides = Shape::zeros(rank); // of each axis, in elements of the file
  int64_t step = 1;
  for (size_t at = rank; at-- != 0;) {
    strides[(*tensor.order)[at]] = step;
    step *= (*tensor.shape)[(*tensor.order)[at]];
  }
  std::vector<std::byte> own(stored.size());
  Shape index = Shape::zeros(rank);
  for (size_t to = 0; to != own.size(); to += width) {
    int64_t from = 0;
    for (size_t axis = 0; axis != rank; ++axis)
      from += index[axis] * strides[axis];
    std::memcpy(&own[to], &stored[from * width], width);
    for (size_t axis = rank; axis-- != 0;) {
      if (++index[axis] < (*tensor.shape)[axis])
        break;
      index[axis] = 0;
    }
  }
  return own;
}

/// Hands over the whole of a tensor whose axes have another order in the file.
Result<void>
streamReordered(const Checkpoint &checkpoint, const StoredTensor &tensor,
                const std::function<void(std::span<const std::byte>)> &sink) {
  const StoredPiece &piece = tensor.pieces.front();
  auto file = InputFile::open(
      joinPath(checkpoint.root, checkpoint.files[piece.file].path));
  if (!file)
    return std::unexpected(file.error());
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.shape->elements()) *
                               byteSize(tensor.dtype));
  if (auto read = file->readAt(piece.offset, bytes); !read)
    return read;
  sink(inOwnOrder(tensor, bytes));
  return {};
}

} // namespace

TensorBox wholeBox(const StoredTensor &tensor) {
  return {Shape::zeros(tensor.shape->rank()), *tensor.shape};
}

Result<void>
streamBox(const Checkpoint &checkpoint, const StoredTensor &tensor,
          const TensorBox &box,
          const std::function<void(std::span<const std::byte>)> &sink) {
  return tensor.order ? streamReordered(checkpoint, tensor, sink)
                      : BoxReader(checkpoint, tensor, sink).stream(box);
}

Result<std::string> hashBoxes(const Checkpoint &checkpoint,
                              const StoredTensor &tensor,
                              std::span<const TensorBox> boxes) {
  Sha256 hash;
  for (const TensorBox &box : boxes)
    if (auto streamed = streamBox(
            checkpoint, tensor, box,
            [&](std::span<const std::byte> bytes) { hash.update(bytes); });
        !streamed)
      return std::unexpected(streamed.error());
  return hash.hex();
}

} // namespace mbc
