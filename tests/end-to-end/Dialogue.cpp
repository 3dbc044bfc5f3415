#include "tests/end-to-end/Dialogue.h"

#include "tests/end-to-end/Process.h"
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

extern char **environ;

namespace mbc::test {

using nlohmann::json;

Dialogue::Dialogue() {
  signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    return;
  std::string program = mbcBinary(), command = "lsp";
  char *argv[] = {program.data(), command.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  EXPECT_EQ(posix_spawn(&child_, argv[0], &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]), close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

Dialogue::~Dialogue() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  close(to_), close(from_);
}

void Dialogue::sendBytes(const std::string &bytes) {
  for (size_t sent = 0; sent != bytes.size();) {
    ssize_t count = write(to_, bytes.data() + sent, bytes.size() - sent);
    ASSERT_GT(count, 0) << "the server is gone";
    sent += static_cast<size_t>(count);
  }
}

void Dialogue::send(const json &message) {
  std::string text = message.dump();
  sendBytes("Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" +
            text);
}

void Dialogue::notify(const std::string &method, const json &params) {
  send(json{{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

bool Dialogue::fill() {
  constexpr int patience = 60'000; // milliseconds
  pollfd waiting{from_, POLLIN, 0};
  char block[1 << 16];
  ssize_t count =
      poll(&waiting, 1, patience) == 1 ? read(from_, block, sizeof block) : 0;
  if (count > 0)
    received_.append(block, static_cast<size_t>(count));
  return count > 0;
}

json Dialogue::receive() {
  const std::string mark = "\r\n\r\n";
  size_t header = 0;
  while ((header = received_.find(mark)) == std::string::npos)
    if (!fill())
      return nullptr;
  EXPECT_TRUE(received_.starts_with("Content-Length: ")) << received_;
  size_t length = std::stoul(received_.substr(16));
  size_t start = header + mark.size();
  while (received_.size() < start + length)
    if (!fill())
      return nullptr;
  json message = json::parse(received_.substr(start, length));
  received_.erase(0, start + length);
  EXPECT_EQ(message.at("jsonrpc"), "2.0");
  return message;
}

json Dialogue::ask(const std::string &method, const json &params) {
  int id = ++requests_;
  send(json{
      {"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}});
  json answer = receive();
  EXPECT_EQ(answer.value("id", json()), id) << answer;
  return answer.contains("error") ? answer["error"]
                                  : answer.value("result", json());
}

int Dialogue::end() {
  close(to_);
  to_ = -1;
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace mbc::test
