#include "experiments/child_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "glog/logging.h"

namespace psring {
namespace {

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD})
    sigaddset(&signals, signal);
  return signals;
}

EndedChild Describe(pid_t pid, std::string name, int status) {
  EndedChild child{.name = std::move(name), .pid = pid, .exit_code = 0, .how = ""};
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    child.exit_code = 128 + signal;
    child.how =
        absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
  } else {
    child.exit_code = WEXITSTATUS(status);
    child.how = absl::StrCat("ended with exit code ", child.exit_code);
  }
  return child;
}

// Between fork and exec, so only calls that are safe after a fork of many threads.
// Returns where it cannot exec.
void BecomeChild(pid_t parent, const sigset_t& signals, int log,
                 std::optional<int> network, char* const* arguments) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);  // It died before the line above.
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (network && setns(*network, CLONE_NEWNET) != 0) _exit(126);
  signal(SIGUSR1, SIG_DFL);  // The parent may ignore it, which exec would keep.
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execv(arguments[0], arguments);
}

}  // namespace

absl::Status SignalError(int signal) {
  return WithExitCode(
      absl::CancelledError(absl::StrCat("stopped by ", strsignal(signal))),
      static_cast<ExitCode>(128 + signal));
}

std::string BuiltProgram(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path().parent_path() / name).string();
}

ChildProcesses::ChildProcesses() {
  const sigset_t handled = HandledSignals();
  PCHECK(pthread_sigmask(SIG_BLOCK, &handled, &old_signals_) == 0);
  signal_fd_ = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
  PCHECK(signal_fd_ >= 0);
}

ChildProcesses::~ChildProcesses() {
  KillAll();
  while (running()) Wait(absl::Seconds(1));
  close(signal_fd_);
  pthread_sigmask(SIG_SETMASK, &old_signals_, nullptr);
}

absl::Status ChildProcesses::Start(const std::string& name,
                                   const std::vector<std::string>& arguments,
                                   const std::string& log_path,
                                   std::optional<int> network) {
  if (access(arguments[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot start ", name, ": ", arguments[0], ": ", strerror(errno)));
  }
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0) {
    return absl::InternalError(
        absl::StrCat("cannot write ", log_path, ": ", strerror(errno)));
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    BecomeChild(parent, old_signals_, log, network, argv.data());
    _exit(127);
  }
  const int fork_error = errno;
  close(log);
  if (pid < 0) {
    return absl::InternalError(
        absl::StrCat("cannot start ", name, ": fork: ", strerror(fork_error)));
  }
  running_[pid] = name;
  return absl::OkStatus();
}

std::vector<std::string> ChildProcesses::RunningNames() const {
  std::vector<std::string> names;
  for (const auto& [pid, name] : running_) names.push_back(name);
  return names;
}

absl::StatusOr<absl::Duration> ChildProcesses::ProcessorTime(
    const std::string& name) const {
  for (const auto& [pid, running] : running_) {
    if (running != name) continue;
    clockid_t clock;
    timespec time;
    // The former returns its error, the latter sets errno.
    const int error = clock_getcpuclockid(pid, &clock);
    if (error == 0 && clock_gettime(clock, &time) == 0) {
      return absl::DurationFromTimespec(time);
    }
    return absl::InternalError(absl::StrCat("cannot read the processor time of ", name,
                                            ": ", strerror(error != 0 ? error : errno)));
  }
  return absl::InternalError(absl::StrCat(name, " does not run"));
}

ChildProcesses::Event ChildProcesses::Wait(absl::Duration timeout) {
  // SIGCHLD of a child that ended before this call is still pending in the descriptor.
  pollfd descriptor{.fd = signal_fd_, .events = POLLIN, .revents = 0};
  poll(&descriptor, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  Event event;
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGUSR1) {
      event.save = true;
    } else if (info.ssi_signo != SIGCHLD && (!event.signal || *event.signal == SIGTERM)) {
      // SIGTERM may wait for a checkpoint; whatever comes with it does not.
      event.signal = static_cast<int>(info.ssi_signo);
    }
  }
  event.ended = Reap();
  return event;
}

std::vector<EndedChild> ChildProcesses::Reap() {
  std::vector<EndedChild> ended;
  for (auto it = running_.begin(); it != running_.end();) {
    int status = 0;
    if (waitpid(it->first, &status, WNOHANG) == it->first) {
      ended.push_back(Describe(it->first, it->second, status));
      it = running_.erase(it);
    } else {
      ++it;
    }
  }
  return ended;
}

void ChildProcesses::KillAll() {
  for (const auto& [pid, name] : running_) kill(pid, SIGKILL);
}

}  // namespace psring
