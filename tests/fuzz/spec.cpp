#include "dsl/Model.h"
#include "dsl/Parse.h"
#include "tests/fuzz/Input.h"

/// Any text ends in findings or in rules, after bounded work (R22).
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mbc::dsl;
  Diagnostics diagnostics;
  ParseResult spec =
      parseText(mbc::fuzz::textOf(data, size), "input.mbspec", {}, diagnostics);
  if (!spec)
    return 0;
  (void)bundle(*spec);
  (void)evaluate(*spec, R"({"n": 3, "a": [1, 2], "b": {"c": "d"}})",
                 NameOracle(), diagnostics);
  return 0;
}
