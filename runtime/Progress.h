#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace mbc {

/// A line on a terminal's standard error that shows bytes, rate and time left.
/// Elsewhere it prints nothing. `add` may be called from any thread.
class Progress {
public:
  /// `shown` false: only counts.
  explicit Progress(bool shown);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void start(uint64_t totalBytes);
  void add(uint64_t bytes) { done_ += bytes; }
  /// Clears the line.
  void stop();

private:
  void draw(double seconds) const;

  bool shown_;
  uint64_t total_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::jthread painter_;
};

/// Whether standard error is a terminal that understands control sequences.
bool onTerminal();

/// "512 B", "1.4 GiB".
std::string humanBytes(uint64_t bytes);
/// "0.3 s", "2 min 05 s".
std::string humanSeconds(double seconds);

} // namespace mbc
