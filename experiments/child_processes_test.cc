#include "experiments/child_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::UnorderedElementsAre;

// For what takes as long as the machine needs.
constexpr absl::Duration kPatience = absl::Minutes(1);

class ChildProcessesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/children_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string LogOf(const std::string& name) const {
    return absl::StrCat(folder_, "/", name, ".log");
  }
  std::string ReadLog(const std::string& name) const {
    std::ostringstream content;
    content << std::ifstream(LogOf(name)).rdbuf();
    return content.str();
  }

  absl::Status StartShell(ChildProcesses* children, const std::string& name,
                          const std::string& script) const {
    return children->Start(name, {"/bin/sh", "-c", script}, LogOf(name));
  }
  // A process that ends only when it is made to.
  absl::Status StartEndless(ChildProcesses* children, const std::string& name) const {
    return StartShell(children, name, "exec tail -f /dev/null");
  }

  // Until `count` children have ended, in the order in which they did.
  static std::vector<EndedChild> WaitFor(ChildProcesses* children, size_t count) {
    std::vector<EndedChild> ended;
    while (ended.size() < count) {
      const ChildProcesses::Event event = children->Wait(kPatience);
      ended.insert(ended.end(), event.ended.begin(), event.ended.end());
    }
    return ended;
  }

  std::string folder_;
};

TEST_F(ChildProcessesTest, TellsHowEachChildEnded) {
  ChildProcesses children;
  const std::vector<std::pair<std::string, std::string>> scripts = {
      {"good", "exit 0"}, {"bad", "exit 3"}, {"killed", "kill -KILL $$"}};
  for (const auto& [name, script] : scripts) {
    ASSERT_OK(StartShell(&children, name, script));
  }
  const auto child = [](const char* name, int exit_code, const char* how) {
    return AllOf(Field(&EndedChild::name, name), Field(&EndedChild::pid, testing::Gt(0)),
                 Field(&EndedChild::exit_code, exit_code), Field(&EndedChild::how, how));
  };
  EXPECT_THAT(
      WaitFor(&children, 3),
      UnorderedElementsAre(child("good", 0, "ended with exit code 0"),
                           child("bad", 3, "ended with exit code 3"),
                           child("killed", 137, "was killed by signal 9 (Killed)")));
  EXPECT_FALSE(children.running());
}

TEST_F(ChildProcessesTest, KnowsWhoRuns) {
  ChildProcesses children;
  EXPECT_FALSE(children.running());
  ASSERT_OK(StartEndless(&children, "one"));
  ASSERT_OK(StartEndless(&children, "two"));
  ASSERT_OK(StartShell(&children, "short", "exit 0"));
  EXPECT_EQ(WaitFor(&children, 1)[0].name, "short");
  EXPECT_TRUE(children.running());
  EXPECT_THAT(children.RunningNames(), UnorderedElementsAre("one", "two"));
}

TEST_F(ChildProcessesTest, AnEndBeforeTheCallIsSeenAtOnce) {
  ChildProcesses children;
  ASSERT_OK(StartShell(&children, "quick", "exit 7"));
  siginfo_t info;
  ASSERT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);  // It has; left to be seen.
  EXPECT_THAT(children.Wait(absl::ZeroDuration()).ended,
              ElementsAre(Field(&EndedChild::exit_code, 7)));
}

TEST_F(ChildProcessesTest, WaitRunsOut) {
  ChildProcesses children;
  ASSERT_OK(StartEndless(&children, "endless"));
  const ChildProcesses::Event event = children.Wait(absl::Milliseconds(1));
  EXPECT_THAT(event.ended, IsEmpty());
  EXPECT_EQ(event.signal, std::nullopt);
  EXPECT_TRUE(children.running());
}

TEST_F(ChildProcessesTest, TheLogHasBothStreamsAndReplacesAnOldOne) {
  ChildProcesses children;
  std::ofstream(LogOf("talker")) << "of an earlier run, and longer than what follows\n";
  ASSERT_OK(StartShell(&children, "talker", "echo to stdout; echo to stderr >&2"));
  WaitFor(&children, 1);
  EXPECT_EQ(ReadLog("talker"), "to stdout\nto stderr\n");
}

TEST_F(ChildProcessesTest, StdinIsAtItsEnd) {
  ChildProcesses children;
  ASSERT_OK(StartShell(&children, "reader", "read line || echo nothing"));
  WaitFor(&children, 1);
  EXPECT_EQ(ReadLog("reader"), "nothing\n");
}

// So that Ctrl-C on a terminal reaches the parent alone.
TEST_F(ChildProcessesTest, HasAProcessGroupOfItsOwn) {
  ChildProcesses children;
  ASSERT_OK(StartShell(&children, "child",
                       "read pid name state parent group rest < /proc/$$/stat; "
                       "test $group = $$"));
  EXPECT_EQ(WaitFor(&children, 1)[0].exit_code, 0);
}

TEST_F(ChildProcessesTest, TheParentsBlockedSignalsAreNotTheChilds) {
  ChildProcesses children;
  ASSERT_OK(StartShell(&children, "child", "kill -TERM $$"));
  EXPECT_EQ(WaitFor(&children, 1)[0].how, "was killed by signal 15 (Terminated)");
}

// That it does run there takes a privilege, and is for tests/emulated_hosts_test.cc.
TEST_F(ChildProcessesTest, RunsInTheNetworkThatItIsGivenOrNotAtAll) {
  ChildProcesses children;
  const int no_network = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_OK(children.Start("nowhere", {"/bin/true"}, LogOf("nowhere"), no_network));
  close(no_network);
  std::vector<EndedChild> ended;
  while (children.running()) {
    for (EndedChild& child : children.Wait(kPatience).ended) ended.push_back(child);
  }
  EXPECT_THAT(ended, ElementsAre(Field(&EndedChild::exit_code, 126)));
}

TEST_F(ChildProcessesTest, NoSuchProgram) {
  ChildProcesses children;
  EXPECT_THAT(
      children.Start("worker 0", {"/nowhere/worker"}, LogOf("worker")),
      StatusIs(StatusCode::kNotFound,
               "cannot start worker 0: /nowhere/worker: No such file or directory"));
  EXPECT_FALSE(children.running());
}

TEST_F(ChildProcessesTest, NoRoomForTheLog) {
  ChildProcesses children;
  EXPECT_THAT(children.Start("worker 0", {"/bin/true"}, "/nowhere/worker.log"),
              StatusIs(StatusCode::kInternal, HasSubstr("/nowhere/worker.log")));
  EXPECT_FALSE(children.running());
}

TEST_F(ChildProcessesTest, KillAllEndsEveryone) {
  ChildProcesses children;
  ASSERT_OK(StartEndless(&children, "endless"));
  ASSERT_OK(
      StartShell(&children, "stubborn", "trap '' TERM INT; exec tail -f /dev/null"));
  ASSERT_OK(StartShell(&children, "stopped", "kill -STOP $$"));
  children.KillAll();
  for (const EndedChild& child : WaitFor(&children, 3)) {
    EXPECT_EQ(child.exit_code, 128 + SIGKILL) << child.name;
  }
}

TEST_F(ChildProcessesTest, NoneOutlivesTheObject) {
  {
    ChildProcesses children;
    ASSERT_OK(StartEndless(&children, "one"));
    ASSERT_OK(StartEndless(&children, "two"));
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ChildProcessesTest, SignalsToTheLauncherAreHandedOut) {
  ChildProcesses children;
  ASSERT_OK(StartEndless(&children, "endless"));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ASSERT_EQ(kill(getpid(), signal), 0);
    const ChildProcesses::Event event = children.Wait(kPatience);
    EXPECT_THAT(event.signal, Optional(signal));
    EXPECT_FALSE(event.save);
    EXPECT_THAT(event.ended, IsEmpty());
  }
  // Asks for a checkpoint, and takes nothing from a signal that ends.
  ASSERT_EQ(kill(getpid(), SIGINT), 0);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  const ChildProcesses::Event both = children.Wait(kPatience);
  EXPECT_THAT(both.signal, Optional(SIGINT));
  EXPECT_TRUE(both.save);
  // SIGTERM waits for a checkpoint, which nobody does who sends another one with it.
  for (const int other : {SIGHUP, SIGINT}) {
    ASSERT_EQ(kill(getpid(), SIGTERM), 0);
    ASSERT_EQ(kill(getpid(), other), 0);
    EXPECT_THAT(children.Wait(kPatience).signal, Optional(other));
  }
  EXPECT_TRUE(children.running());
}

// Who ignores SIGUSR1 while there is no object hears of it while there is one, and its
// children have what is usual: the shell dies of it.
TEST_F(ChildProcessesTest, AnIgnoredSignalIsHandedOutAndNotHandedDown) {
  const auto before = signal(SIGUSR1, SIG_IGN);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  {
    ChildProcesses children;
    EXPECT_FALSE(children.Wait(absl::ZeroDuration()).save);
    ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
    EXPECT_TRUE(children.Wait(kPatience).save);
    ASSERT_OK(StartShell(&children, "shell", "kill -USR1 $$"));
    const std::vector<EndedChild> ended = WaitFor(&children, 1);
    ASSERT_EQ(ended.size(), 1);
    EXPECT_EQ(ended[0].exit_code, 128 + SIGUSR1);
    ASSERT_EQ(kill(getpid(), SIGUSR1), 0);  // Comes too late.
  }
  signal(SIGUSR1, before);
}

TEST_F(ChildProcessesTest, SignalsAreAsBeforeOnceItIsGone) {
  const auto is_blocked = [](int signal) {
    sigset_t blocked;
    EXPECT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
    return sigismember(&blocked, signal) == 1;
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
    EXPECT_FALSE(is_blocked(signal));
    {
      ChildProcesses children;
      EXPECT_TRUE(is_blocked(signal));
    }
    EXPECT_FALSE(is_blocked(signal));
  }
}

// A child that computes uses time, one that waits has used it; nobody else has any.
TEST_F(ChildProcessesTest, ProcessorTimeIsThatOfTheChildOfThatName) {
  ChildProcesses children;
  ASSERT_OK(StartShell(&children, "busy", "while :; do :; done"));
  ASSERT_OK(StartEndless(&children, "idle"));
  absl::Duration busy = absl::ZeroDuration();
  while (busy < absl::Milliseconds(50)) {
    ASSERT_OK_AND_ASSIGN(busy, children.ProcessorTime("busy"));
  }
  ASSERT_OK_AND_ASSIGN(const absl::Duration idle, children.ProcessorTime("idle"));
  EXPECT_LT(idle, busy);
  EXPECT_THAT(children.ProcessorTime("nobody").status(),
              StatusIs(StatusCode::kInternal, HasSubstr("nobody does not run")));
}

}  // namespace
}  // namespace psring
