// What others see of the psring command while it runs: a person in a terminal (tmux),
// Prometheus, TensorBoard.
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/tcp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;
using testing::SizeIs;

// Blocks until `done`; false where it takes too long. Somebody else's doing is waited
// for, which tells nobody.
bool WaitUntil(const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!done()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(50));
  }
  return true;
}

bool CanListen(int port) { return ListenTcp("127.0.0.1", port).ok(); }

// The first of so many ports in a row on which nobody listens at the moment. Below those
// that the system gives to whoever wants any.
int FreePorts(int count) {
  for (int first = 20000 + getpid() % 9000; first < 32000; first += count) {
    bool all = true;
    for (int k = 0; k < count; ++k) all = all && CanListen(first + k);
    if (all) return first;
  }
  ADD_FAILURE() << "no free ports";
  return 0;
}

// What an HTTP server answers with, by a bare socket; empty where nobody does.
std::string Get(int port, const std::string& path) {
  const auto addresses = ResolveTcp(absl::StrCat("127.0.0.1:", port));
  if (!addresses.ok()) return "";
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  if (connect(socket.get(), addresses->front().get(), addresses->front().length) != 0) {
    return "";
  }
  const std::string request = absl::StrCat(
      "GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  if (write(socket.get(), request.data(), request.size()) < 0) return "";
  std::string answer;
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while ((got = read(socket.get(), buffer.data(), buffer.size())) > 0) {
    answer.append(buffer.data(), static_cast<size_t>(got));
  }
  const size_t body = answer.find("\r\n\r\n");
  return absl::StartsWith(answer, "HTTP/1.1 200") && body != std::string::npos
             ? answer.substr(body + 4)
             : "";
}

// The value of the first sample of this name whose labels have `label`; nothing where
// there is none.
std::optional<double> Sample(const std::string& text, const std::string& name,
                             const std::string& label) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name + "{") || !absl::StrContains(line, label)) continue;
    return std::stod(std::string(line.substr(line.find("} ") + 2)));
  }
  return std::nullopt;
}

class WatchingTest : public EndToEndTest {
 protected:
  // The program's output, or nothing where it is not installed.
  static bool Installed(const std::string& program) {
    return access(program.c_str(), X_OK) == 0;
  }
};

TEST_F(WatchingTest, EveryProcessAnswersWhileItRuns) {
  const int port = FreePorts(5);
  const auto psring =
      Start("compare", Config(kEndless),
            {"--metrics", absl::StrCat("127.0.0.1:", port), "--tensorboard", Path("tb")});
  // Servers first.
  const auto asked = [&](int k, const std::string& name, const std::string& label) {
    return WaitUntil(
        [&] { return Sample(Get(port + k, "/metrics"), name, label).value_or(0) > 10; });
  };
  EXPECT_TRUE(asked(0, "psring_run_worker_steps", "worker=\"1\""));
  for (const int server : {0, 1}) {
    const std::string process = absl::StrCat("process=\"server ", server, "\"");
    EXPECT_TRUE(asked(1 + server, "psring_contributions_total", process));
    EXPECT_TRUE(asked(1 + server, "psring_payload_bytes_total", process));
  }
  for (const int worker : {0, 1}) {
    const std::string process = absl::StrCat("process=\"worker ", worker, "\"");
    EXPECT_TRUE(asked(3 + worker, "psring_steps_total", process));
    EXPECT_TRUE(asked(3 + worker, "psring_step_seconds_count", process));
    EXPECT_TRUE(asked(3 + worker, "psring_payload_bytes_total", process));
  }
  // So are event files: there is more in one than its first record.
  EXPECT_TRUE(WaitUntil([&] {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(Path("tb/servers-seed-1"), error)) {
      if (absl::StrContains(entry.path().string(), "/events.out.tfevents.") &&
          fs::file_size(entry.path(), error) > 1000) {
        return true;
      }
    }
    return false;
  }));
  EXPECT_FALSE(fs::exists(Path("tb/ring-seed-1")));  // It has not begun.
  psring->Signal(SIGINT);
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(128 + SIGINT)) << psring->err();
  EXPECT_THAT(psring->err(), AllOf(HasSubstr(absl::StrCat("metrics at http://127.0.0.1:",
                                                          port, "/metrics (psring)")),
                                   HasSubstr(absl::StrCat("http://127.0.0.1:", port + 4,
                                                          "/metrics (worker 1)"))));
  EXPECT_TRUE(CanListen(port));
}

TEST_F(WatchingTest, AComparisonToItsEndHasAnEventFileOfEachArm) {
  const auto psring = Start("compare", Config(6),
                            {"--metrics", absl::StrCat("127.0.0.1:", FreePorts(5)),
                             "--tensorboard", Path("tb")});
  EXPECT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  for (const char* const run : {"servers-seed-1", "ring-seed-1"}) {
    int files = 0;
    for (const auto& entry : fs::directory_iterator(Path(absl::StrCat("tb/", run)))) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string content{std::istreambuf_iterator<char>(file), {}};
      EXPECT_THAT(content, HasSubstr("brain.Event:2"));
      for (const std::string tag :
           {"loss", "samples_per_second", "exposed_share", "accuracy", "test_loss"}) {
        // As a message has it: field 1, its length, the text. One may end with another.
        const std::string field = {'\n', static_cast<char>(tag.size())};
        EXPECT_THAT(content, HasSubstr(field + tag));
      }
      ++files;
    }
    EXPECT_EQ(files, 1);
  }
}

TEST_F(WatchingTest, APortInUseAndOtherBadInputEndItBeforeItBegins) {
  const int port = FreePorts(5);
  const auto taken = ListenTcp("127.0.0.1", port + 3);
  ASSERT_TRUE(taken.ok());
  const auto refused = [this](const std::vector<std::string>& flags,
                              const std::string& why) {
    const auto psring = Start("compare", Config(5), flags);
    EXPECT_THAT(psring->Wait(kPatience), Optional(2)) << psring->err();
    EXPECT_THAT(psring->err(), HasSubstr(why));
    EXPECT_FALSE(fs::exists(Path("out"))) << why;
  };
  refused({"--metrics", absl::StrCat("127.0.0.1:", port)},
          absl::StrCat("--metrics: cannot listen at 127.0.0.1:", port + 3,
                       ": Address already in use"));
  refused({"--metrics", "127.0.0.1:65532"},
          "allowed is HOST:PORT with a port from 1 to 65531");
  refused({"--metrics", "9100"}, "\"9100\" is not HOST:PORT");
  Write("file", "in the way");
  refused({"--tensorboard", Path("file/tb")},
          absl::StrCat("--tensorboard: cannot make ", Path("file/tb")));
}

// Prometheus itself reads all of it, and its tool has nothing against it.
TEST_F(WatchingTest, PrometheusScrapesEveryProcess) {
  const std::string prometheus = "/usr/bin/prometheus";
  const std::string promtool = "/usr/bin/promtool";
  if (!Installed(prometheus) || !Installed(promtool)) {
    GTEST_SKIP() << "no prometheus here: Debian's package of that name has it";
  }
  const int port = FreePorts(6);
  const auto psring =
      Start("run", Config(kEndless),
            {"--arm", "servers", "--metrics", absl::StrCat("127.0.0.1:", port)});
  std::vector<std::string> targets;
  for (int k = 0; k < 5; ++k) {
    targets.push_back(absl::StrCat("\"127.0.0.1:", port + k, "\""));
    std::string text;
    ASSERT_TRUE(WaitUntil([&] {
      text = Get(port + k, "/metrics");
      return absl::StrContains(text, "psring_");
    }));
    Subprocess check(
        {"/bin/sh", "-c",
         absl::StrCat(promtool, " check metrics < ", Write("metrics", text))});
    EXPECT_THAT(check.Wait(kPatience), Optional(0)) << check.out() << check.err() << text;
    // What its authors' library says of itself is theirs.
    EXPECT_THAT(check.out() + check.err(), Not(HasSubstr("psring"))) << text;
  }
  const std::string config = Write(
      "prometheus.yml",
      absl::StrCat("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: psring\n"
                   "  static_configs:\n  - targets: [",
                   absl::StrJoin(targets, ", "), "]\n"));
  Subprocess server({prometheus, absl::StrCat("--config.file=", config),
                     absl::StrCat("--storage.tsdb.path=", Path("tsdb")),
                     absl::StrCat("--web.listen-address=127.0.0.1:", port + 5)});
  // Results of a query.
  const auto query = [&](const std::string& name) -> nlohmann::json {
    const auto answer = nlohmann::json::parse(
        Get(port + 5, absl::StrCat("/api/v1/query?query=", name)), nullptr, false);
    return answer.is_object() && answer.value("status", "") == "success"
               ? answer["data"]["result"]
               : nlohmann::json::array();
  };
  EXPECT_TRUE(WaitUntil([&] {
    const nlohmann::json up = query("up");
    return up.size() == 5 && std::all_of(up.begin(), up.end(), [](const auto& target) {
             return target["value"][1] == "1";
           });
  })) << query("up").dump()
      << server.err();
  EXPECT_TRUE(WaitUntil([&] { return query("psring_steps_total").size() == 2; }));
  EXPECT_TRUE(WaitUntil(
      [&] { return query("psring_gradient_staleness_versions_count").size() == 2; }));
  EXPECT_TRUE(WaitUntil([&] { return query("psring_run_worker_steps").size() == 2; }));
  server.Signal(SIGTERM);
  EXPECT_TRUE(server.Wait(kPatience).has_value());
  psring->Signal(SIGINT);
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(128 + SIGINT)) << psring->err();
}

// A tmux server of its own, with one window.
class Tmux {
 public:
  Tmux(std::string socket, const std::string& command, int columns, int rows)
      : socket_(std::move(socket)) {
    Do({"-f", "/dev/null", "new-session", "-d", "-x", absl::StrCat(columns), "-y",
        absl::StrCat(rows), command});
  }
  ~Tmux() { Do({"kill-server"}); }
  Tmux(const Tmux&) = delete;
  Tmux& operator=(const Tmux&) = delete;

  // What it prints.
  std::string Do(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"/usr/bin/tmux", "-u", "-S", socket_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Subprocess tmux(all);
    tmux.Wait(kPatience);
    return tmux.out();
  }
  std::string Screen() const { return Do({"capture-pane", "-p"}); }
  bool CursorIsShown() const {
    return Do({"display-message", "-p", "#{cursor_flag}"}) == "1\n";
  }
  void Resize(int columns, int rows) const {
    Do({"resize-window", "-x", absl::StrCat(columns), "-y", absl::StrCat(rows)});
  }

 private:
  const std::string socket_;
};

// Processes of a job that run, the launcher among them, whose program is `program`; with
// "" all.
std::vector<pid_t> ProcessesOf(const std::string& job, const std::string& program = "") {
  std::vector<pid_t> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::vector<std::string> words = absl::StrSplit(line, '\0');
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] != "--job" || words[i + 1] != job) continue;
      if (!absl::EndsWith(words[0], program)) continue;
      pids.push_back(std::stoi(entry.path().filename().string()));
    }
  }
  return pids;
}

class TerminalTest : public WatchingTest {
 protected:
  void SetUp() override {
    WatchingTest::SetUp();
    if (!Installed("/usr/bin/tmux")) {
      GTEST_SKIP() << "no tmux here: Debian's package of that name has it";
    }
    // tmux wants a locale with UTF-8.
    setenv("LC_ALL", "C.UTF-8", 1);
    job_ = fs::path(folder_).filename().string();
  }

  // psring in a terminal of 100 columns; then its exit code.
  std::unique_ptr<Tmux> RunInTerminal(const std::string& environment) {
    // The shell goes on where the terminal's signals end psring.
    const std::string command =
        absl::StrCat("trap : INT QUIT; env LC_ALL=C.UTF-8 ", environment, " ",
                     fs::current_path().string(), "/experiments/psring run ",
                     Config(kEndless), " --arm servers --out ", Path("out"), " --job ",
                     job_, "; echo ended with $?; exec cat");
    // A socket's path is short.
    return std::make_unique<Tmux>(absl::StrCat("/tmp/", job_), command, 100, 30);
  }

  std::string job_;
};

TEST_F(TerminalTest, TheViewFitsAndCtrlCLeavesItClean) {
  const auto tmux = RunInTerminal("NO_COLOR=");
  std::string screen;
  const auto shows = [&](const std::vector<std::string>& texts) {
    const bool shown = WaitUntil([&] {
      screen = tmux->Screen();
      return std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
        return absl::StrContains(screen, text);
      });
    });
    return shown ? testing::AssertionSuccess() : testing::AssertionFailure() << screen;
  };
  ASSERT_TRUE(shows({"servers\n", "step ", " left\n", "loss ", " samples/s\n",
                     "worker 0 ", "worker 1 ", "servers 0-1 ", "bit/s", "█", "lag\n"}));
  EXPECT_FALSE(tmux->CursorIsShown());
  std::cout << screen;
  // With colours, as by NO_COLOR, which is empty.
  EXPECT_THAT(tmux->Do({"capture-pane", "-p", "-e"}), HasSubstr("\x1b[1mservers"));
  tmux->Resize(50, 10);
  ASSERT_TRUE(WaitUntil([&] {
    screen = tmux->Screen();
    return absl::StrContains(screen, "busier  lag\n");
  })) << screen;
  std::cout << screen;
  // Nothing of the wide picture is left below or above.
  EXPECT_EQ(std::count(screen.begin(), screen.end(), '%'), 1) << screen;
  tmux->Resize(100, 30);
  ASSERT_TRUE(shows({"in  lag\n"}));
  EXPECT_THAT(ProcessesOf(job_), SizeIs(5));
  tmux->Do({"send-keys", "C-c"});
  ASSERT_TRUE(shows({"psring: ", "stopped by Interrupt", "ended with 130"}));
  EXPECT_THAT(screen, Not(HasSubstr("samples/s\n")));
  EXPECT_TRUE(tmux->CursorIsShown());
  EXPECT_THAT(ProcessesOf(job_), IsEmpty());
}

TEST_F(TerminalTest, TheCursorComesBackWhenASignalKills) {
  const auto tmux = RunInTerminal("NO_COLOR=1");
  ASSERT_TRUE(WaitUntil([&] { return absl::StrContains(tmux->Screen(), "lag\n"); }))
      << tmux->Screen();
  EXPECT_FALSE(tmux->CursorIsShown());
  EXPECT_THAT(tmux->Do({"capture-pane", "-p", "-e"}), Not(HasSubstr("\x1b[1mservers")));
  tmux->Do({"send-keys", "C-\\"});
  ASSERT_TRUE(WaitUntil([&] {
    return absl::StrContains(tmux->Screen(), "ended with 131");
  })) << tmux->Screen();
  EXPECT_TRUE(tmux->CursorIsShown());
  EXPECT_TRUE(WaitUntil([&] { return ProcessesOf(job_).empty(); }));
}

TEST_F(TerminalTest, TheCursorIsThereWhileItIsStopped) {
  const auto tmux = RunInTerminal("NO_COLOR=1");
  ASSERT_TRUE(WaitUntil([&] { return absl::StrContains(tmux->Screen(), "lag\n"); }))
      << tmux->Screen();
  EXPECT_FALSE(tmux->CursorIsShown());
  const std::vector<pid_t> psring = ProcessesOf(job_, "/psring");
  ASSERT_THAT(psring, SizeIs(1));
  tmux->Do({"send-keys", "C-z"});
  EXPECT_TRUE(WaitUntil([&] { return tmux->CursorIsShown(); }));
  kill(psring[0], SIGCONT);
  EXPECT_TRUE(WaitUntil([&] { return !tmux->CursorIsShown(); }));
  tmux->Do({"send-keys", "C-c"});
  EXPECT_TRUE(WaitUntil([&] {
    return absl::StrContains(tmux->Screen(), "ended with 130");
  })) << tmux->Screen();
}

TEST_F(TerminalTest, ADumbTerminalGetsPlainLines) {
  const auto tmux = RunInTerminal("TERM=dumb");
  ASSERT_TRUE(WaitUntil([&] {
    return absl::StrContains(tmux->Screen(), "servers: step ");
  })) << tmux->Screen();
  EXPECT_TRUE(tmux->CursorIsShown());
  EXPECT_THAT(tmux->Screen(), Not(HasSubstr("worker 0 ")));
  tmux->Do({"send-keys", "C-c"});
  EXPECT_TRUE(
      WaitUntil([&] { return absl::StrContains(tmux->Screen(), "ended with 130"); }));
}

}  // namespace
}  // namespace psring
