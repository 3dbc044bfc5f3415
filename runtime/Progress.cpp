#include "runtime/Progress.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <unistd.h>

namespace mbc {

bool onTerminal() {
  const char *terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && terminal &&
         std::strcmp(terminal, "dumb") != 0;
}

std::string humanBytes(uint64_t bytes) {
  if (bytes < 1024)
    return fmt::format("{} B", bytes);
  const char *units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = bytes / 1024.0;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 != std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string humanSeconds(double seconds) {
  if (seconds < 60)
    return fmt::format("{:.1f} s", seconds);
  auto whole = static_cast<uint64_t>(seconds);
  if (whole < 3600)
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

Progress::Progress(bool shown) : shown_(shown && onTerminal()) {}

Progress::~Progress() { stop(); }

void Progress::start(uint64_t totalBytes) {
  total_ = totalBytes;
  done_ = 0;
  if (!shown_)
    return;
  painter_ = std::jthread([this](std::stop_token stop) {
    auto begin = std::chrono::steady_clock::now();
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      wake.wait_for(lock, stop, std::chrono::milliseconds(200),
                    [] { return false; });
      std::chrono::duration<double> elapsed =
          std::chrono::steady_clock::now() - begin;
      draw(elapsed.count());
    }
  });
}

void Progress::draw(double seconds) const {
  uint64_t done = std::min<uint64_t>(done_, total_);
  double rate = seconds > 0 ? done / seconds : 0;
  std::string left =
      rate > 0 ? humanSeconds((total_ - done) / rate) + " left" : "";
  fmt::print(stderr, "\r\x1b[K{:3}%  {} of {}  {}/s  {}",
             total_ ? done * 100 / total_ : 100, humanBytes(done),
             humanBytes(total_), humanBytes(static_cast<uint64_t>(rate)), left);
  std::fflush(stderr);
}

void Progress::stop() {
  if (!painter_.joinable())
    return;
  painter_.request_stop();
  painter_.join();
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

} // namespace mbc
