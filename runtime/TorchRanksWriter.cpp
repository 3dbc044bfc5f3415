#include "runtime/TorchRanksWriter.h"

#include "runtime/CommonStateWriter.h"
#include "runtime/PickleWriter.h"

namespace mbc {

Result<std::string> rankFilePickle(std::string_view commonJson,
                                   std::span<const RankTensor> tensors) {
  PickleWriter out;
  auto model = [&] {
    out.text("model");
    out.emptyDict();
    if (tensors.empty())
      return;
    out.mark();
    for (size_t i = 0; i != tensors.size(); ++i) {
      out.text(tensors[i].key);
      out.tensor(std::to_string(i), tensors[i].dtype, tensors[i].shape);
    }
    out.setItems();
  };
  if (auto good = writeCommonState(out, commonJson, model); !good)
    return std::unexpected(good.error());
  return std::move(out).finish();
}

} // namespace mbc
