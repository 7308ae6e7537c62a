#include "experiments/hosts/network_namespace.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/status_macros.h"

namespace psring {
namespace {

constexpr char kIp[] = "/sbin/ip";
constexpr int kToolTimeoutMilliseconds = 30'000;

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(errno)));
}

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.open()) return SystemError(absl::StrCat("cannot open ", path));
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return SystemError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

// In the calling thread's network, before it has interfaces.
absl::Status DisableIpv6() {
  const std::string folder = "/proc/sys/net/ipv6/conf";
  if (access(folder.c_str(), F_OK) != 0) return absl::OkStatus();  // A kernel without it.
  RETURN_IF_ERROR(WriteFile(folder + "/all/disable_ipv6", "1"));
  return WriteFile(folder + "/default/disable_ipv6", "1");
}

absl::Status UnshareNetwork() {
  if (unshare(CLONE_NEWNET) == 0) return absl::OkStatus();
  if (errno != EPERM) return SystemError("unshare");
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return SystemError("without root, unshare with a user namespace");
  }
  // Root inside is the user outside: files belong to whom they would belong to.
  RETURN_IF_ERROR(WriteFile("/proc/self/setgroups", "deny"));
  RETURN_IF_ERROR(WriteFile("/proc/self/uid_map", absl::StrCat("0 ", user, " 1")));
  return WriteFile("/proc/self/gid_map", absl::StrCat("0 ", group, " 1"));
}

// A file in memory, whose end a program cannot block on as on a pipe's.
absl::StatusOr<FileDescriptor> MemoryFile(const std::string& content) {
  FileDescriptor file(memfd_create("psring", MFD_CLOEXEC));
  if (!file.open()) return SystemError("memfd_create");
  if (write(file.get(), content.data(), content.size()) !=
          static_cast<ssize_t>(content.size()) ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return SystemError("cannot write to memory");
  }
  return file;
}

std::string ContentOf(const FileDescriptor& file) {
  std::string content(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  const ssize_t read = pread(file.get(), content.data(), content.size(), 0);
  content.resize(read < 0 ? 0 : static_cast<size_t>(read));
  return content;
}

// Waits for the process, or kills it when its time is over; its status of waitpid(2).
int WaitFor(pid_t pid) {
  const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&ended, 1, kToolTimeoutMilliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready != 1) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

absl::Status EnterPrivateNetwork() {
  absl::Status entered = UnshareNetwork();
  if (entered.ok()) entered = DisableIpv6();
  if (entered.ok()) entered = RunTool({kIp, "link", "set", "lo", "up"}).status();
  return WithExitCode(
      Annotate(entered, "hosts need network namespaces, which this system refuses"),
      ExitCode::kSkipped);
}

absl::StatusOr<FileDescriptor> NewNetworkNamespace() {
  FileDescriptor network;
  absl::Status status;
  std::thread maker([&] {
    if (unshare(CLONE_NEWNET) != 0) {
      status = SystemError("cannot make a network namespace");
      return;
    }
    status = DisableIpv6();
    network = FileDescriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!network.open()) status = SystemError("cannot open a network namespace");
  });
  maker.join();
  RETURN_IF_ERROR(status);
  return network;
}

absl::Status RunInside(int network, absl::FunctionRef<absl::Status()> task) {
  absl::Status status;
  std::thread visitor([&] {
    status = setns(network, CLONE_NEWNET) == 0
                 ? task()
                 : SystemError("cannot enter a network namespace");
  });
  visitor.join();
  return status;
}

absl::StatusOr<std::string> RunTool(const std::vector<std::string>& arguments,
                                    const std::string& input) {
  ASSIGN_OR_RETURN(const FileDescriptor in, MemoryFile(input));
  ASSIGN_OR_RETURN(const FileDescriptor out, MemoryFile(""));
  ASSIGN_OR_RETURN(const FileDescriptor error, MemoryFile(""));
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error.get(), STDERR_FILENO);
  // In a process group of its own, so that a terminal's Ctrl-C does not end it half-way.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int failed =
      posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  const std::string command = absl::StrCat("`", absl::StrJoin(arguments, " "), "`");
  if (failed != 0) {
    return absl::InternalError(
        absl::StrCat("cannot run ", command, ": ", strerror(failed)));
  }
  const int status = WaitFor(pid);
  const std::string complaint = ContentOf(error);
  if (status == 0 && complaint.empty()) return ContentOf(out);
  const std::string how =
      WIFSIGNALED(status) ? absl::StrCat("was killed by signal ", WTERMSIG(status))
                          : absl::StrCat("ended with exit code ", WEXITSTATUS(status));
  return absl::InternalError(
      absl::StrCat(command, " ", how, ": ", absl::StripAsciiWhitespace(complaint)));
}

}  // namespace psring
