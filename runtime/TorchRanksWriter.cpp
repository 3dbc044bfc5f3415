#include "runtime/TorchRanksWriter.h"

#include "runtime/CommonStateWriter.h"
#include "runtime/PickleWriter.h"

#include <algorithm>
#include <fmt/format.h>

namespace mbc {

static void writeChunk(PickleWriter &out, const std::string &name,
                       std::span<const RankTensor> tensors, int64_t chunk) {
  out.text(name);
  out.emptyDict();
  if (std::ranges::none_of(tensors, [&](const RankTensor &tensor) {
        return tensor.chunk == chunk;
      }))
    return;
  out.mark();
  for (size_t i = 0; i != tensors.size(); ++i)
    if (tensors[i].chunk == chunk) {
      out.text(tensors[i].key);
      out.tensor(std::to_string(i), tensors[i].dtype, tensors[i].shape);
    }
  out.setItems();
}

Result<std::string> rankFilePickle(std::string_view commonJson,
                                   std::span<const RankTensor> tensors,
                                   int64_t chunks) {
  PickleWriter out;
  auto models = [&] {
    for (int64_t chunk = 0; chunk != chunks; ++chunk)
      writeChunk(out, chunks == 1 ? "model" : fmt::format("model{}", chunk),
                 tensors, chunk);
  };
  if (auto good = writeCommonState(out, commonJson, models); !good)
    return std::unexpected(good.error());
  return std::move(out).finish();
}

} // namespace mbc
