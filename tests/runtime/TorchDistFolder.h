#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/PickleWriter.h"
#include "runtime/TorchArchive.h"
#include "runtime/TorchDistWriter.h"
#include "tests/runtime/TemporaryDirectory.h"

#include <deque>
#include <numeric>

namespace mbc::test {

/// A torch_dist checkpoint in a temporary directory, one payload file. Float
/// tensors; element i of each chunk has the value `first` + i.
class TorchDistFolder {
public:
  void tensor(std::string_view key, Shape shape) {
    shapes_.push_back(shape);
    tensors_.push_back({key, DType::F32, shapes_.back().dims()});
  }

  /// A chunk of the last tensor.
  void chunk(Shape start, Shape shape, float first = 0) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    std::iota(values.begin(), values.end(), first);
    std::string_view data(reinterpret_cast<const char *>(values.data()),
                          values.size() * sizeof(float));
    std::string item = archiveBytes(
        "archive", tensorPickle(DType::F32, shape.dims()), {&data, 1});
    shapes_.push_back(start);
    std::span<const int64_t> at = shapes_.back().dims();
    shapes_.push_back(shape);
    chunks_.push_back({static_cast<uint32_t>(tensors_.size() - 1), 0,
                       payload_.size(), item.size(), at,
                       shapes_.back().dims()});
    payload_ += item;
  }

  void object(std::string_view key, std::string_view bytes) {
    objects_.push_back({key, 0, payload_.size(), bytes.size()});
    payload_ += bytes;
  }

  /// Writes the files and opens the folder.
  Result<Checkpoint> open() {
    std::string_view file = "__0_0.distcp";
    directory_.write(file, payload_);
    directory_.write(".metadata", torchDistMetadata(tensors_, chunks_, objects_,
                                                    {&file, 1}));
    directory_.write("metadata.json", torchDistMarker());
    return openCheckpoint(path());
  }

  const std::string &path() const { return directory_.path(); }
  const TemporaryDirectory &directory() const { return directory_; }

private:
  TemporaryDirectory directory_;
  std::deque<Shape> shapes_;
  std::vector<TorchDistTensor> tensors_;
  std::vector<TorchDistChunk> chunks_;
  std::vector<TorchDistObject> objects_;
  std::string payload_;
};

} // namespace mbc::test
