// A real process under test.
#ifndef PSRING_TESTS_SUBPROCESS_H_
#define PSRING_TESTS_SUBPROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace psring {

// Runs a program and collects what it prints. One thread. Kills it when destroyed.
class Subprocess {
 public:
  explicit Subprocess(const std::vector<std::string>& arguments);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }

  // Reads on until stdout or stderr contains `text`; false: it ended first, or the
  // timeout passed.
  bool WaitForOutput(const std::string& text, absl::Duration timeout);
  // Reads on until stderr has a whole line with `text` at or after its byte `from`; what
  // follows it in the first such line, or nothing as above.
  std::optional<std::string> WaitForRestOfLine(const std::string& text,
                                               absl::Duration timeout, size_t from = 0);
  // Reads until it has ended; its exit code, 128 + n for signal n, or nothing where the
  // timeout passed.
  std::optional<int> Wait(absl::Duration timeout);

  void Signal(int signal) const;

  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  // Reads until `done` or both pipes have ended; false where the timeout passed.
  bool ReadUntil(const std::function<bool()>& done, absl::Duration timeout);

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string out_;
  std::string err_;
  std::optional<int> exit_code_;
};

// Blocks until the process has ended, whoever started it; false where the timeout passed.
bool WaitForEnd(pid_t pid, absl::Duration timeout);

// The running children of a process (of its first thread).
struct ChildProcess {
  pid_t pid = 0;
  std::vector<std::string> arguments;
};
std::vector<ChildProcess> ChildrenOf(pid_t parent);

}  // namespace psring

#endif  // PSRING_TESTS_SUBPROCESS_H_
