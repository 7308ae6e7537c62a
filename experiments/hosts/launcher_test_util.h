// Processes of tests that have a private network.
#ifndef PSRING_EXPERIMENTS_HOSTS_LAUNCHER_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_HOSTS_LAUNCHER_TEST_UTIL_H_

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "experiments/hosts/network_namespace.h"
#include "gtest/gtest.h"

namespace psring {

// What a launcher says where the system does not let it have such a network.
inline constexpr char kSkip[] = "skip: ";

// A process with a private network that runs `body`; the test goes on beside it.
class Launcher {
 public:
  // Talks with the test through `say` and `hear`, a line each.
  struct Wires {
    int out = -1;
    int in = -1;
    void Say(const std::string& line) const {
      const std::string text = line + "\n";
      if (write(out, text.data(), text.size()) < 0) _exit(1);
    }
    // Empty: the other end is gone.
    std::string Hear() const {
      std::string line;
      char next = 0;
      while (read(in, &next, 1) == 1 && next != '\n') line.push_back(next);
      return line;
    }
  };
  using Body = std::function<absl::Status(const Wires& test)>;

  explicit Launcher(const Body& body) {
    std::array<int, 2> up;
    std::array<int, 2> down;
    EXPECT_EQ(pipe(up.data()), 0);
    EXPECT_EQ(pipe(down.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const Wires test{.out = up[1], .in = down[0]};
      close(down[1]);
      close(up[0]);
      const absl::Status entered = EnterPrivateNetwork();
      const absl::Status done = entered.ok() ? body(test) : entered;
      const bool skipped = ExitCodeOf(done) == ExitCode::kSkipped;
      test.Say(done.ok() ? "ok" : absl::StrCat(skipped ? kSkip : "", done.message()));
      _exit(0);
    }
    close(up[1]);
    close(down[0]);
    wires_ = {.out = down[1], .in = up[0]};
  }
  ~Launcher() {
    kill(pid_, SIGKILL);
    End();
    close(wires_.out);
    close(wires_.in);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  const Wires& wires() const { return wires_; }
  void Kill() {
    kill(pid_, SIGKILL);
    End();
  }

 private:
  void End() {
    if (!ended_) waitpid(pid_, nullptr, 0);
    ended_ = true;
  }

  pid_t pid_ = -1;
  bool ended_ = false;
  Wires wires_;
};

// "ok", or what went wrong.
inline std::string RunLauncher(const std::function<absl::Status()>& body) {
  const Launcher launcher([&](const Launcher::Wires&) { return body(); });
  return launcher.wires().Hear();
}

inline std::set<std::string> InterfacesHere() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
    names.insert(entry.path().filename());
  }
  return names;
}

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_LAUNCHER_TEST_UTIL_H_
