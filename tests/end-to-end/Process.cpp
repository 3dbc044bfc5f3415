#include "tests/end-to-end/Process.h"

#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace mbc::test {

namespace {

/// Reads both pipes until both writers are gone; a full pipe never blocks the
/// child.
void drain(int out, int err, Outcome &outcome) {
  pollfd pipes[] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string *texts[] = {&outcome.out, &outcome.err};
  char block[1 << 16];
  for (int open = 2; open != 0;) {
    poll(pipes, 2, -1);
    for (int i = 0; i != 2; ++i) {
      if (pipes[i].fd < 0 || pipes[i].revents == 0)
        continue;
      ssize_t count = read(pipes[i].fd, block, sizeof block);
      if (count > 0) {
        texts[i]->append(block, static_cast<size_t>(count));
      } else {
        close(pipes[i].fd);
        pipes[i].fd = -1;
        --open;
      }
    }
  }
}

} // namespace

Outcome run(const std::vector<std::string> &argv) {
  std::vector<char *> pointers;
  for (const std::string &argument : argv)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);

  Outcome outcome;
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0)
    return outcome;
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]), close(out[1]);
    return outcome;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  pid_t child = 0;
  const int failed = posix_spawn(&child, pointers[0], &actions, nullptr,
                                 pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]), close(err[1]);
  drain(out[0], err[0], outcome);
  if (failed) {
    outcome.err = argv[0] + " cannot be started";
    return outcome;
  }
  int status = 0;
  waitpid(child, &status, 0);
  outcome.status =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::string mbcBinary() {
  const char *build = std::getenv("MBC_BUILD");
  return std::string(build ? build : MBC_BUILD) + "/bin/mbc";
}

Outcome mbc(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), mbcBinary());
  return run(arguments);
}

static Outcome mbcWithLimit(const std::string &option, uint64_t units,
                            const std::vector<std::string> &arguments) {
  std::vector<std::string> argv{"/bin/sh", "-c",
                                "ulimit " + option + " \"$0\" && exec \"$@\"",
                                std::to_string(units), mbcBinary()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run(argv);
}

Outcome mbcWithFileLimit(uint64_t units,
                         const std::vector<std::string> &arguments) {
  return mbcWithLimit("-f", units, arguments);
}

Outcome mbcWithMemoryLimit(uint64_t kibibytes,
                           const std::vector<std::string> &arguments) {
  return mbcWithLimit("-d", kibibytes, arguments);
}

std::string spell(const std::vector<std::string> &arguments) {
  std::string text = "mbc";
  for (const std::string &argument : arguments)
    text += " " + argument;
  return text;
}

} // namespace mbc::test
