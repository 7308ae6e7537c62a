// The processes of a run on this machine: started together, never outliving it.
#ifndef PSRING_EXPERIMENTS_CHILD_PROCESSES_H_
#define PSRING_EXPERIMENTS_CHILD_PROCESSES_H_

#include <signal.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace psring {

// The path of a program of this build, such as "server/parameter_server". The build puts
// all of them where it put this one.
std::string BuiltProgram(const std::string& name);

// A process that has ended.
struct EndedChild {
  std::string name;
  pid_t pid = 0;
  int exit_code = 0;  // 128 + n where signal n killed it.
  // "was killed by signal 9 (Killed)", "ended with exit code 1".
  std::string how;
};

// What ends a run because a signal came: kCancelled, exit code 128 + signal.
absl::Status SignalError(int signal);

// Children die with the thread that made them, however it ends (PR_SET_PDEATHSIG), and
// have process groups of their own, so that a terminal's Ctrl-C reaches only the parent,
// which then ends them in order. One thread, which lives as long as the children should.
//
// While an object lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD are blocked in this
// thread and those made after; Wait hands them out. At most one object at a time. A
// program that ignores SIGUSR1 otherwise, so that it does not die of one that comes too
// early or too late, is told of it all the same, and its children do not ignore it.
class ChildProcesses {
 public:
  ChildProcesses();
  // Kills what still runs.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  // Runs `arguments` (the first is the program's path) with stdout and stderr in
  // `log_path`, and no stdin; with a descriptor of a network namespace, in that one.
  // NotFound: no such program; Internal: the system refused. A child that cannot enter
  // its network ends with exit code 126.
  absl::Status Start(const std::string& name, const std::vector<std::string>& arguments,
                     const std::string& log_path,
                     std::optional<int> network = std::nullopt);

  bool running() const { return !running_.empty(); }
  std::vector<std::string> RunningNames() const;

  // Processor time of all threads of the running child of that name since it started.
  // Internal: none runs, or the system does not say.
  absl::StatusOr<absl::Duration> ProcessorTime(const std::string& name) const;

  struct Event {
    std::vector<EndedChild> ended;
    // SIGINT, SIGTERM or SIGHUP sent to this process; of several not SIGTERM.
    std::optional<int> signal;
    bool save = false;  // SIGUSR1 was: a checkpoint is wanted.
  };
  // Blocks until a child ends, a signal comes, or `timeout` has passed.
  Event Wait(absl::Duration timeout);
  // Readable once Wait has something to return; to wait for other things at the same
  // time.
  int descriptor() const { return signal_fd_; }

  // SIGKILL to all.
  void KillAll();

 private:
  std::vector<EndedChild> Reap();

  sigset_t old_signals_;
  int signal_fd_ = -1;
  std::map<pid_t, std::string> running_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CHILD_PROCESSES_H_
