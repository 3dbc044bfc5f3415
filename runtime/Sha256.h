#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace mbc {

/// SHA-256 over bytes that come in runs.
class Sha256 {
public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  /// Lower-case hexadecimal digits. Ends the computation.
  std::string hex();

private:
  struct Free {
    void operator()(void *context) const;
  };
  std::unique_ptr<void, Free> context_;
};

} // namespace mbc
