#pragma once

#include "runtime/Result.h"

#include <string>

namespace mbc {

/// The right to write a target. Held by an open descriptor, so that it ends
/// with the process, however that ends. Moved, never copied.
class RunLock {
public:
  /// Creates the file at need, and writes this process and host into it. If
  /// another process holds the lock, the error names it.
  static Result<RunLock> take(std::string path);

  RunLock(RunLock &&other) noexcept;
  RunLock &operator=(RunLock &&) = delete;
  ~RunLock();

private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

} // namespace mbc
