#include "dsl/ConfigJson.h"
#include "tests/fuzz/Input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto config = mbc::dsl::parseConfig(mbc::fuzz::textOf(data, size));
  if (config)
    (void)mbc::dsl::unreadFields(*config);
  return 0;
}
