#include "runtime/CommonStateWriter.h"

#include "runtime/Json.h"

#include <nlohmann/json.hpp>

namespace mbc {

Result<void> writeCommonState(PickleWriter &out, std::string_view commonJson,
                              const std::function<void()> &more) {
  Result<Json> common = parseJson(commonJson, "the common state");
  if (!common)
    return std::unexpected(common.error());
  if (!common->is_object())
    return fail("the common state is not a JSON object");
  out.emptyDict();
  out.mark();
  for (const auto &[key, value] : common->items()) {
    out.text(key);
    if (key == "args" && value.is_object())
      out.nameSpace(value);
    else
      out.json(value);
  }
  if (more)
    more();
  out.setItems();
  return {};
}

} // namespace mbc
