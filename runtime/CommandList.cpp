#include "runtime/CommandList.h"
#include "runtime/CommandConvert.h"

#include <cstdio>

namespace mbc {

int listCommand(const std::string &checkpoint, ListingOptions options,
                const std::string &shards) {
  if (!shards.empty()) {
    Result<ShardSizes> sizes = parseShardSizes(shards);
    if (!sizes)
      return report(sizes.error(), 2);
    options.shards = *sizes;
  }
  Result<Checkpoint> opened = openCheckpoint(checkpoint);
  if (!opened)
    return report(opened.error());
  bool written = true;
  auto print = [&](std::string_view text) {
    written = written &&
              std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  };
  if (Result<void> listed = writeListing(*opened, options, print); !listed)
    return report(listed.error());
  if (!written || std::fflush(stdout) != 0)
    return report({"standard output: the listing could not be written"});
  return 0;
}

} // namespace mbc
