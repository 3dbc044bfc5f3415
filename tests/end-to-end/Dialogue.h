#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <sys/types.h>

namespace mbc::test {

/// `mbc lsp` as a process, spoken to as an editor does. What does not answer
/// within a minute fails the test; the process ends with this object.
class Dialogue {
public:
  Dialogue();
  ~Dialogue();
  Dialogue(const Dialogue &) = delete;

  void sendBytes(const std::string &bytes);
  void send(const nlohmann::json &message);
  void notify(const std::string &method, const nlohmann::json &params);
  /// The next message, or null if there is none.
  nlohmann::json receive();
  /// The answer to a request: its result, or its error.
  nlohmann::json ask(const std::string &method, const nlohmann::json &params);

  /// Closes the server's input; its exit status, or 128 + signal.
  int end();

private:
  bool fill();

  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
  int requests_ = 0;
  std::string received_;
};

} // namespace mbc::test
