#pragma once

#include "dsl/Format.h"
#include "tests/dsl/SpecText.h"

#include <gtest/gtest.h>

namespace mbc::dsl {

/// A spec's text in the usual layout; the test fails if there is none.
inline std::string formatted(const std::string &text) {
  Diagnostics diagnostics;
  std::optional<std::string> result = format(text, "t.mbspec", diagnostics);
  EXPECT_EQ(messages(diagnostics), "");
  return result.value_or("");
}

} // namespace mbc::dsl
