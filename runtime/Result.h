#pragma once

#include <expected>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace mbc {

/// Why something failed, as one or more sentences a person can act on: they
/// name the file or tensor, both numbers that disagree, and the fix.
struct Error {
  std::string message;
};

template <typename T> using Result = std::expected<T, Error>;

/// Makes the failure of any `Result`; the arguments are those of fmt::format.
template <typename... Args>
std::unexpected<Error> fail(fmt::format_string<Args...> format, Args &&...args) {
  return std::unexpected(
      Error{fmt::format(format, std::forward<Args>(args)...)});
}

} // namespace mbc
