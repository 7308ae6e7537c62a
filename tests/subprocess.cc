#include "tests/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <tuple>

#include "common/mutex.h"
#include "glog/logging.h"

namespace psring {
namespace {

int MillisecondsUntil(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

// Appends what is there; false at the end of the stream.
bool ReadSome(int fd, std::string* text) {
  char buffer[4096];
  const ssize_t count = read(fd, buffer, sizeof buffer);
  if (count > 0) text->append(buffer, count);
  return count > 0;
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  int out[2], err[2];
  PCHECK(pipe2(out, O_CLOEXEC) == 0);
  PCHECK(pipe2(err, O_CLOEXEC) == 0);
  pid_ = fork();
  PCHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
}

Subprocess::~Subprocess() {
  if (!exit_code_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) close(out_fd_);
  if (err_fd_ >= 0) close(err_fd_);
}

bool Subprocess::ReadUntil(const std::function<bool()>& done, absl::Duration timeout) {
  const auto deadline = SteadyDeadline(timeout);
  while (!done() && (out_fd_ >= 0 || err_fd_ >= 0)) {
    pollfd fds[2] = {{.fd = out_fd_, .events = POLLIN, .revents = 0},
                     {.fd = err_fd_, .events = POLLIN, .revents = 0}};
    const int ready = poll(fds, 2, MillisecondsUntil(deadline));
    if (ready == 0) return false;
    if (ready < 0) continue;
    for (auto [fd, text, index] :
         {std::tuple{&out_fd_, &out_, 0}, {&err_fd_, &err_, 1}}) {
      if (fds[index].revents != 0 && !ReadSome(*fd, text)) {
        close(*fd);
        *fd = -1;  // poll ignores it from now on.
      }
    }
  }
  return true;
}

bool Subprocess::WaitForOutput(const std::string& text, absl::Duration timeout) {
  const auto there = [&] {
    return out_.find(text) != std::string::npos || err_.find(text) != std::string::npos;
  };
  ReadUntil(there, timeout);
  return there();
}

std::optional<std::string> Subprocess::WaitForRestOfLine(const std::string& text,
                                                         absl::Duration timeout,
                                                         size_t from) {
  std::optional<std::string> rest;
  const auto there = [&] {
    const size_t begin = err_.find(text, from);
    if (begin == std::string::npos) return false;
    const size_t end = err_.find('\n', begin);
    if (end == std::string::npos) return false;
    rest = err_.substr(begin + text.size(), end - begin - text.size());
    return true;
  };
  ReadUntil(there, timeout);
  return rest;
}

std::optional<int> Subprocess::Wait(absl::Duration timeout) {
  if (exit_code_) return exit_code_;
  const auto deadline = SteadyDeadline(timeout);
  if (!ReadUntil([] { return false; }, timeout)) return std::nullopt;
  if (!WaitForEnd(pid_, absl::Milliseconds(MillisecondsUntil(deadline)))) {
    return std::nullopt;
  }
  int status = 0;
  PCHECK(waitpid(pid_, &status, 0) == pid_);
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return exit_code_;
}

void Subprocess::Signal(int signal) const { PCHECK(kill(pid_, signal) == 0); }

bool WaitForEnd(pid_t pid, absl::Duration timeout) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd descriptor{.fd = fd, .events = POLLIN, .revents = 0};
  const bool ended =
      poll(&descriptor, 1, MillisecondsUntil(SteadyDeadline(timeout))) == 1;
  close(fd);
  return ended;
}

std::vector<ChildProcess> ChildrenOf(pid_t parent) {
  std::vector<ChildProcess> children;
  const std::string task =
      "/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children";
  std::ifstream list(task);
  for (pid_t pid; list >> pid;) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    ChildProcess child{.pid = pid, .arguments = {}};
    for (std::string argument; std::getline(file, argument, '\0');) {
      child.arguments.push_back(argument);
    }
    children.push_back(child);
  }
  return children;
}

}  // namespace psring
