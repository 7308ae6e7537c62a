// The psring command as a user runs it: real processes, real sockets, real data.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "experiments/sqlite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::StartsWith;

// For what takes as long as the machine needs; nothing here is meant to take it.
constexpr absl::Duration kPatience = absl::Minutes(5);
// The promise: whoever dies, every process has ended by then.
constexpr absl::Duration kEndOfRun = absl::Seconds(10);

constexpr char kConfig[] = R"(
name: "end_to_end"
model { mlp { hidden: [16] } }
data { fashion_mnist {} }
training {
  steps: %d
  global_batch: 60
  optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } }
  seed: 1
  evaluation_interval: 5
  target_accuracy: 0.2
  digest_interval: 1
}
cluster { workers: 2 servers: 2 }
buckets { cap_bytes: 20000 first_cap_bytes: 1000 }
arms { name: "servers" parameter_server {} }
arms { name: "ring" ring {} }
)";
// Of an arm that is not meant to come to its end.
constexpr int kEndless = 100000000;

class EndToEndTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/end_to_end_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  std::string Config(int steps) const {
    return Write("config.textproto", absl::StrFormat(kConfig, steps));
  }

  // `psring COMMAND CONFIG --out OUT MORE...`
  std::unique_ptr<Subprocess> Start(const std::string& command, const std::string& config,
                                    const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"experiments/psring", command, config, "--out",
                                          Path("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<Subprocess>(arguments);
  }

  nlohmann::json Summary() const {
    std::ifstream file(Path("out/summary.json"));
    return nlohmann::json::parse(file);
  }

  // What a query of the run database gives; nothing where the file cannot be read yet.
  std::vector<double> Query(const std::string& sql) const {
    const auto connection = SqliteConnection::OpenReadOnly(Path("out/run.db"));
    if (!connection.ok()) return {};
    auto statement = (*connection)->Prepare(sql);
    if (!statement.ok()) return {};
    std::vector<double> cells;
    while (true) {
      const auto more = statement->Next();
      if (!more.ok() || !*more) return cells;
      cells.push_back(statement->Real(0));
    }
  }
  // Of a query with one row.
  double QueryOne(const std::string& sql) const {
    const std::vector<double> cells = Query(sql);
    EXPECT_EQ(cells.size(), 1) << sql;
    return cells.size() == 1 ? cells[0] : 0;
  }

  // The process of a running arm whose program and rank are these.
  static pid_t Find(pid_t launcher, const std::string& program, int rank) {
    for (const ChildProcess& child : ChildrenOf(launcher)) {
      if (child.arguments.empty() || !absl::EndsWith(child.arguments[0], program))
        continue;
      for (size_t i = 0; i + 1 < child.arguments.size(); ++i) {
        if (child.arguments[i] == "--rank" &&
            child.arguments[i + 1] == absl::StrCat(rank)) {
          return child.pid;
        }
      }
    }
    return 0;
  }

  // Kills one process of an arm that is under way; the run must end in time, everywhere,
  // with the name of the dead.
  void KillInTraining(const std::string& arm, const std::string& program, int rank,
                      const std::string& name) {
    const auto psring = Start("run", Config(kEndless), {"--arm", arm});
    ASSERT_TRUE(psring->WaitForOutput("step ", kPatience)) << psring->err();
    const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
    const pid_t victim = Find(psring->pid(), program, rank);
    ASSERT_NE(victim, 0);
    kill(victim, SIGKILL);
    EXPECT_THAT(psring->Wait(kEndOfRun), Optional(5)) << psring->err();
    EXPECT_THAT(psring->err(),
                HasSubstr(absl::StrCat("arm ", arm, ": ", name, " (process ", victim,
                                       ") was killed by signal 9")));
    for (const ChildProcess& child : children) {
      EXPECT_TRUE(WaitForEnd(child.pid, absl::ZeroDuration())) << child.pid;
    }
    EXPECT_THAT(Summary()["error"].get<std::string>(), HasSubstr(name));
    EXPECT_GT(QueryOne("SELECT count(*) FROM steps"), 0);
    EXPECT_GE(QueryOne(absl::StrCat(
                  "SELECT count(*) FROM events WHERE severity = 'error' AND process = '",
                  name, "' AND text LIKE '%killed by signal 9%'")),
              1);
    EXPECT_EQ(QueryOne("SELECT count(*) FROM processes WHERE outcome IS NULL OR "
                       "outcome = 'ok'"),
              0);
    EXPECT_EQ(QueryOne(absl::StrCat("SELECT count(*) FROM runs WHERE ended_unix_ns > "
                                    "started_unix_ns AND outcome LIKE '%",
                                    name, "%'")),
              1);
  }

  // Where the coordinator of a running arm listens.
  static int CoordinatorPort(pid_t launcher) {
    for (const ChildProcess& child : ChildrenOf(launcher)) {
      for (size_t i = 0; i + 1 < child.arguments.size(); ++i) {
        if (child.arguments[i] == "--coordinator")
          return PortAtEnd(child.arguments[i + 1]);
      }
    }
    return 0;
  }
  // Where a server listens, from its log.
  int PortInLog(const std::string& log) const {
    std::ifstream file(Path(absl::StrCat("out/logs/", log)));
    for (std::string line; std::getline(file, line);) {
      if (absl::StrContains(line, "serves at ")) return PortAtEnd(line);
    }
    return 0;
  }
  static int PortAtEnd(const std::string& text) {
    return std::stoi(text.substr(text.rfind(':') + 1));
  }
  static int64_t ResidentKib(pid_t pid) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
    for (std::string line; std::getline(file, line);) {
      if (absl::StartsWith(line, "VmRSS:")) return std::stoll(line.substr(6));
    }
    return 0;
  }

  std::string folder_;
};

TEST_F(EndToEndTest, ComparesAndProvesThatBothDidTheSameWork) {
  const auto psring = Start("compare", Config(12));
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(), AllOf(HasSubstr("samples/s"), HasSubstr("replica PASS"),
                                   HasSubstr("traffic PASS")));
  const nlohmann::json summary = Summary();
  EXPECT_TRUE(summary["error"].is_null());
  ASSERT_EQ(summary["arms"].size(), 2);
  const nlohmann::json& servers = summary["arms"][0];
  const nlohmann::json& ring = summary["arms"][1];
  EXPECT_EQ(servers["parameter_digest"], ring["parameter_digest"]);
  EXPECT_EQ(servers["final_loss"], ring["final_loss"]);
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_EQ(arm["steps"], 12);
    EXPECT_EQ(arm["workers"], 2);
    EXPECT_GT(arm["samples_per_second"], 0);
    EXPECT_EQ(arm["certificates"]["replica"], "PASS");
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
    std::vector<int> steps;
    for (const nlohmann::json& evaluation : arm["evaluations"]) {
      steps.push_back(evaluation["step"]);
      EXPECT_GT(evaluation["seconds"], 0);
      EXPECT_GT(evaluation["bytes"], 0);
      EXPECT_GT(evaluation["accuracy"], 0.05);
    }
    EXPECT_THAT(steps, ElementsAre(5, 10, 12));
    EXPECT_FALSE(arm["time_to_target_seconds"].is_null());
    const nlohmann::json& ms = arm["step_ms"];
    EXPECT_NEAR(ms["data"].get<double>() + ms["forward"].get<double>() +
                    ms["backward"].get<double>() + ms["exposed"].get<double>() +
                    ms["optimizer"].get<double>() + ms["unaccounted"].get<double>(),
                ms["mean"], 1e-9);
    for (const nlohmann::json& endpoint : arm["endpoints"]) {
      EXPECT_EQ(endpoint["payload_out"], endpoint["formula_out"]);
      EXPECT_EQ(endpoint["payload_in"], endpoint["formula_in"]);
    }
  }
  // 784 * 16 + 16 + 16 * 10 + 10 parameters, each sent once per step.
  EXPECT_EQ(servers["endpoints"][0]["payload_out"], 12730 * 4 * 12);
  EXPECT_EQ(servers["endpoints"].size(), 4);
  EXPECT_EQ(ring["endpoints"].size(), 2);
  EXPECT_EQ(ring["endpoints"][0]["payload_out"], 12730 * 4 * 12);
  for (const char* file : {"config.textproto", "environment.json",
                           "logs/servers/server-1.log", "logs/ring/worker-1.log"}) {
    EXPECT_TRUE(fs::exists(Path(absl::StrCat("out/", file)))) << file;
  }
}

TEST_F(EndToEndTest, TheDatabaseHoldsEveryRowAndTheSummaryIsMadeOfThem) {
  const auto psring = Start("compare", Config(12));
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  const nlohmann::json summary = Summary();
  const auto per_run = [&](const std::string& table) {
    return Query(absl::StrCat("SELECT (SELECT count(*) FROM ", table,
                              " WHERE run = runs.run) FROM runs ORDER BY run"));
  };
  // 2 workers; 12 steps; 2 buckets; 2 servers with a slot in each; 3 snapshots.
  EXPECT_EQ(QueryOne("SELECT count(*) FROM runs"), 2);
  EXPECT_THAT(per_run("processes"), ElementsAre(4, 2));
  EXPECT_THAT(per_run("steps"), ElementsAre(24, 24));
  EXPECT_THAT(per_run("buckets"), ElementsAre(48, 48));
  EXPECT_THAT(per_run("digests"), ElementsAre(24, 24));
  EXPECT_THAT(per_run("updates"), ElementsAre(48, 0));
  EXPECT_THAT(per_run("evaluations"), ElementsAre(3, 3));
  // Payload and first distribution in both directions; the ring knows its wire, too.
  EXPECT_THAT(per_run("links"), ElementsAre(16, 12));
  EXPECT_THAT(per_run("events"), ElementsAre(8, 4));     // Each joins and leaves.
  EXPECT_THAT(per_run("recording"), ElementsAre(9, 5));  // Two of each, and the writer's.

  EXPECT_EQ(QueryOne("SELECT count(*) FROM steps JOIN buckets USING (run, rank, step) "
                     "WHERE NOT (start_ns < ready_ns AND ready_ns <= launched_ns AND "
                     "launched_ns <= done_ns AND done_ns < start_ns + total_ns)"),
            0);
  EXPECT_EQ(QueryOne("SELECT count(*) FROM updates WHERE contributions = 2 AND "
                     "time_ns >= 0 AND version BETWEEN 1 AND 12"),
            48);
  EXPECT_EQ(QueryOne("SELECT count(*) FROM processes WHERE left_unix_ns > joined_unix_ns "
                     "AND outcome = 'ok'"),
            6);

  for (int run = 1; run <= 2; ++run) {
    const nlohmann::json& arm = summary["arms"][run - 1];
    const auto steps = [&](const std::string& expression) {
      return QueryOne(
          absl::StrCat("SELECT ", expression, " FROM steps WHERE run = ", run));
    };
    EXPECT_EQ(steps("sum(samples)"), 720);
    EXPECT_NEAR(steps("avg(total_ns) / 1e6"), arm["step_ms"]["mean"], 1e-9);
    EXPECT_NEAR(steps("avg(exposed_ns) / 1e6"), arm["step_ms"]["exposed"], 1e-9);
    EXPECT_NEAR(steps("sum(samples) / (max(start_ns + total_ns) / 1e9)"),
                arm["samples_per_second"], 1e-3);
    EXPECT_NEAR(steps("avg(loss)"), arm["final_loss"], 1e-9);  // Fewer than 20 steps.
    EXPECT_NEAR(steps("sum(recording_ns) * 1.0 / sum(total_ns)"),
                arm["recording"]["training_thread_share"], 1e-9);
    EXPECT_GT(arm["recording"]["training_thread_share"], 0);
    EXPECT_GT(arm["recording"]["processor_share"], 0);
    for (const nlohmann::json& endpoint : arm["endpoints"]) {
      for (const char* direction : {"out", "in"}) {
        EXPECT_EQ(QueryOne(absl::StrCat(
                      "SELECT bytes FROM links WHERE run = ", run, " AND process = '",
                      endpoint["name"].get<std::string>(),
                      "' AND kind = 'payload' AND direction = '", direction, "'")),
                  endpoint[absl::StrCat("payload_", direction)]);
      }
    }
    EXPECT_EQ(QueryOne(absl::StrCat("SELECT count(*) FROM digests WHERE run = ", run,
                                    " AND step = 11 AND digest = '",
                                    arm["parameter_digest"].get<std::string>(), "'")),
              2);
  }
}

TEST_F(EndToEndTest, MoreServersThanElementsInABucketIsLegal) {
  const auto psring =
      Start("compare", Config(2),
            {"--set", "model.mlp.hidden=[1]", "--set", "buckets.cap_bytes=4", "--set",
             "buckets.first_cap_bytes=4", "--set", "cluster.servers=3"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_EQ(Summary()["arms"][0]["parameter_digest"],
            Summary()["arms"][1]["parameter_digest"]);
}

TEST_F(EndToEndTest, ASlowWorkerSlowsEveryoneAndChangesNothing) {
  const auto psring =
      Start("compare", Config(3), {"--set", "inject.slow_worker=[{rank: 1 factor: 3}]"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(psring->err(), HasSubstr("worker 1 computes 3 times as long"));
  EXPECT_EQ(Summary()["arms"][0]["parameter_digest"],
            Summary()["arms"][1]["parameter_digest"]);
}

TEST_F(EndToEndTest, OptimizerAndScheduleAreTheSameInEveryMode) {
  const auto psring = Start(
      "compare", Config(4),
      {"--set", "training.optimizer={adamw {learning_rate: 0.01 weight_decay: 0.1}}",
       "--set", "training.optimizer.schedule={warmup_steps: 2 cosine {}}"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(psring->err(),
              HasSubstr("adamw, learning rate 0.01 after a warm-up of 2 steps, then a "
                        "cosine to 0 times that at the end of the run"));
  EXPECT_EQ(Summary()["arms"][0]["parameter_digest"],
            Summary()["arms"][1]["parameter_digest"]);
}

TEST_F(EndToEndTest, AKilledWorkerEndsTheRingAndIsNamed) {
  KillInTraining("ring", "worker", 1, "worker 1");
}

TEST_F(EndToEndTest, AKilledWorkerEndsTheServersAndIsNamed) {
  KillInTraining("servers", "worker", 0, "worker 0");
}

TEST_F(EndToEndTest, AKilledServerEndsTheRunAndIsNamed) {
  KillInTraining("servers", "parameter_server", 1, "server 1");
}

// Right after its start, long before it is ready.
TEST_F(EndToEndTest, AProcessKilledWhileTheOthersWaitForItIsNamed) {
  const auto psring = Start("run", Config(kEndless), {"--arm", "ring"});
  ASSERT_TRUE(psring->WaitForOutput("results in", kPatience));
  pid_t victim = 0;
  while (victim == 0) victim = Find(psring->pid(), "worker", 1);
  kill(victim, SIGKILL);
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(5)) << psring->err();
  EXPECT_THAT(psring->err(), HasSubstr("worker 1 (process"));
}

TEST_F(EndToEndTest, NothingOutlivesAKilledLauncher) {
  const auto psring = Start("run", Config(kEndless), {"--arm", "servers"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
  EXPECT_EQ(children.size(), 4);
  constexpr char kCountSteps[] = "SELECT count(*) FROM steps";
  double recorded = 0;
  while (recorded == 0) recorded = QueryOne(kCountSteps);
  psring->Signal(SIGKILL);
  for (const ChildProcess& child : children) {
    EXPECT_TRUE(WaitForEnd(child.pid, kEndOfRun)) << child.pid;
  }
  EXPECT_GE(QueryOne(kCountSteps), recorded);
  EXPECT_EQ(QueryOne("SELECT count(*) FROM runs WHERE outcome IS NULL"), 1);
}

TEST_F(EndToEndTest, CtrlCEndsEverythingWithItsSignalsExitCode) {
  const auto psring = Start("run", Config(kEndless), {"--arm", "ring"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
  psring->Signal(SIGINT);
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(128 + SIGINT));
  EXPECT_THAT(psring->err(), HasSubstr("stopped by Interrupt"));
  for (const ChildProcess& child : children) {
    EXPECT_TRUE(WaitForEnd(child.pid, absl::ZeroDuration())) << child.pid;
  }
}

// Connections of a stopped process stand: only its silence tells.
TEST_F(EndToEndTest, AFrozenWorkerIsDeadAndNamed) {
  const auto psring = Start("run", Config(kEndless),
                            {"--arm", "ring", "--set", "liveness.dead_seconds=3"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const pid_t victim = Find(psring->pid(), "worker", 1);
  kill(victim, SIGSTOP);
  EXPECT_THAT(psring->Wait(kPatience), Optional(5)) << psring->err();
  EXPECT_THAT(psring->err(), AllOf(HasSubstr(absl::StrCat("worker 1 (process ", victim)),
                                   HasSubstr("is dead: it has not been heard of for 3s"),
                                   HasSubstr("last seen at ")));
}

TEST_F(EndToEndTest, AFrozenServerIsDeadAndNamed) {
  const auto psring = Start("run", Config(kEndless),
                            {"--arm", "servers", "--set", "liveness.dead_seconds=3"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  kill(Find(psring->pid(), "parameter_server", 0), SIGSTOP);
  EXPECT_THAT(psring->Wait(kPatience), Optional(5)) << psring->err();
  EXPECT_THAT(psring->err(), AllOf(HasSubstr("server 0 (process"), HasSubstr("is dead")));
}

TEST_F(EndToEndTest, AFrozenCoordinatorEndsItsMembers) {
  const auto psring = Start("run", Config(kEndless),
                            {"--arm", "servers", "--set", "liveness.dead_seconds=3"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
  psring->Signal(SIGSTOP);
  for (const ChildProcess& child : children) {
    EXPECT_TRUE(WaitForEnd(child.pid, kPatience)) << child.pid;
  }
  // Whoever notices first is taken for lost by the next, who cannot ask either.
  for (const char* process : {"worker-0", "worker-1", "server-0", "server-1"}) {
    std::ifstream log(Path(absl::StrCat("out/logs/servers/", process, ".log")));
    const std::string text(std::istreambuf_iterator<char>(log), {});
    EXPECT_THAT(text, HasSubstr("the coordinator at ")) << process;
  }
}

// Alive, but stuck: heartbeats come, progress does not.
TEST_F(EndToEndTest, AStalledWorkerIsNamedWithWhomItHoldsUp) {
  for (const char* arm : {"ring", "servers"}) {
    const auto psring = Start("run", Config(kEndless),
                              {"--arm", arm, "--set", "liveness.stall_seconds=4", "--set",
                               "inject.stall_worker=[{rank: 1 step: 3}]"});
    EXPECT_THAT(psring->Wait(kPatience), Optional(5)) << psring->err();
    EXPECT_THAT(psring->err(),
                AllOf(HasSubstr("injected: worker 1 gets stuck in step 3"),
                      HasSubstr("worker 1 (process"),
                      HasSubstr("has made no progress for 2s (step 3, forward);"),
                      HasSubstr("(step 3, forward) is stalled: no progress for 4s"),
                      HasSubstr("held up: "), HasSubstr("worker 0 (process")));
    fs::remove_all(Path("out"));
  }
}

// Connections that never say who they are cost little and stop nobody.
TEST_F(EndToEndTest, TenThousandSilentConnectionsAreBorne) {
  constexpr int kConnections = 10000;
  constexpr int64_t kMostGrowthKib = 256 << 10;
  rlimit files{.rlim_cur = kConnections + 500, .rlim_max = kConnections + 500};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
    GTEST_SKIP() << "this process may not have so many files: " << strerror(errno);
  }
  const auto psring = Start("run", Config(kEndless), {"--arm", "servers"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const pid_t server = Find(psring->pid(), "parameter_server", 0);
  for (const auto& [pid, port] :
       {std::pair{psring->pid(), CoordinatorPort(psring->pid())},
        {server, PortInLog("servers/server-0.log")}}) {
    const int64_t before = ResidentKib(pid);
    std::vector<int> connections;
    for (int i = 0; i < kConnections; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      ASSERT_GE(fd, 0) << strerror(errno);
      connections.push_back(fd);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      // Where the queue of the listener is full, the rest stays half open.
      (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    // The run goes on under the flood: whoever holds it up for long is given up.
    EXPECT_THAT(psring->Wait(absl::Seconds(3)), testing::Eq(std::nullopt))
        << psring->err();
    EXPECT_LT(ResidentKib(pid) - before, kMostGrowthKib);
    for (const int fd : connections) close(fd);
  }
  psring->Signal(SIGINT);
  EXPECT_THAT(psring->Wait(kPatience), Optional(128 + SIGINT)) << psring->err();
}

// Bad input is one line on stderr and exit code 2, and leaves no folder behind.
class BadInputTest : public EndToEndTest {
 protected:
  void ExpectRefused(const std::vector<std::string>& more, const std::string& message) {
    const auto psring = Start("compare", Config(3), more);
    EXPECT_THAT(psring->Wait(kPatience), Optional(2)) << psring->err();
    const std::vector<std::string> lines = absl::StrSplit(psring->err(), '\n');
    EXPECT_THAT(lines, ElementsAre(HasSubstr(message), IsEmpty()));
    EXPECT_THAT(psring->out(), IsEmpty());
    EXPECT_FALSE(fs::exists(Path("out")));
  }
};

TEST_F(BadInputTest, Configuration) {
  ExpectRefused({"--set", "training.stepz=3"}, "stepz");
  ExpectRefused({"--set", "cluster.workers=0"}, "cluster.workers");
  ExpectRefused({"--set", "training.global_batch=61"}, "global_batch");
  ExpectRefused({"--set", "training.global_batch=60002"}, "60000");
}

TEST_F(BadInputTest, MissingData) {
  ExpectRefused({"--set", absl::StrCat("data.fashion_mnist.directory=\"", folder_, "\"")},
                "dataset-fashion-mnist");
}

TEST_F(BadInputTest, TruncatedData) {
  const fs::path data = Path("data");
  fs::create_directory(data);
  for (const auto& entry : fs::directory_iterator("/usr/share/datasets/fashion-mnist")) {
    fs::copy(entry.path(), data / entry.path().filename());
  }
  const fs::path images = data / "train-images-idx3-ubyte.gz";
  fs::resize_file(images, fs::file_size(images) / 2);
  ExpectRefused(
      {"--set", absl::StrCat("data.fashion_mnist.directory=\"", data.string(), "\"")},
      "train-images-idx3-ubyte.gz");
}

TEST_F(EndToEndTest, AnUnusableOutputFolderIsOneLine) {
  const std::string file = Write("file", "");
  for (const std::string& out : {absl::StrCat(file, "/out"), std::string("/proc/out")}) {
    Subprocess psring({"experiments/psring", "compare", Config(3), "--out", out});
    EXPECT_THAT(psring.Wait(kPatience), Optional(2)) << psring.err();
    EXPECT_THAT(psring.err(),
                HasSubstr(absl::StrCat("cannot use the output folder ", out)));
  }
  Subprocess psring({"experiments/psring", "compare", Config(3), "--out", folder_});
  EXPECT_THAT(psring.Wait(kPatience), Optional(2));
  EXPECT_THAT(psring.err(), HasSubstr("not empty"));
}

// A limit on the size of files, in blocks of 512 bytes, stands for a disk without room.
class FullFolderTest : public EndToEndTest {
 protected:
  std::unique_ptr<Subprocess> Start(int blocks, int steps) {
    return std::make_unique<Subprocess>(std::vector<std::string>{
        "/bin/sh", "-c",
        absl::StrCat("trap '' XFSZ; ulimit -f ", blocks, "; exec \"$@\""), "sh",
        "experiments/psring", "compare", Config(steps), "--out", Path("out")});
  }
};

TEST_F(FullFolderTest, ThatTakesNothingIsOneLine) {
  // No room for the configuration, and room for that but not for an empty database.
  for (const auto& [blocks, file] : {std::pair(0, "config.textproto"), {16, "run.db"}}) {
    const auto psring = Start(blocks, /*steps=*/3);
    EXPECT_THAT(psring->Wait(kPatience), Optional(1));
    const std::vector<std::string> lines = absl::StrSplit(psring->err(), '\n');
    EXPECT_THAT(
        lines, ElementsAre(AllOf(HasSubstr("cannot write"), HasSubstr(file)), IsEmpty()));
    fs::remove_all(Path("out"));
  }
}

TEST_F(FullFolderTest, ThatFillsUpEndsTheRun) {
  const auto psring = Start(/*blocks=*/1000, kEndless);
  EXPECT_THAT(psring->Wait(kPatience), Optional(1));
  EXPECT_THAT(psring->err(), HasSubstr(absl::StrCat("psring: arm servers: cannot write ",
                                                    Path("out/run.db"))));
  EXPECT_GT(QueryOne("SELECT count(*) FROM steps"), 0);
}

TEST_F(EndToEndTest, ATakenPortIsOneLine) {
  const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string listen_at = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));

  // With one worker there is no note about processes that share cores.
  const auto psring = Start("run", Config(3),
                            {"--set", "cluster.workers=1", "--arm", "ring", "--external",
                             "--listen", listen_at});
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(1));
  const std::vector<std::string> lines = absl::StrSplit(psring->err(), '\n');
  // The first line announces the run.
  EXPECT_THAT(lines, ElementsAre(HasSubstr("results in"),
                                 AllOf(StartsWith("psring: arm ring: "),
                                       HasSubstr(listen_at), HasSubstr("taken")),
                                 IsEmpty()));
  EXPECT_THAT(Summary()["error"].get<std::string>(), HasSubstr(listen_at));
  close(taken);
}

TEST_F(EndToEndTest, AnExternalRunThatNobodyJoinsEndsAndNamesWhoIsMissing) {
  const auto psring = Start("run", Config(3),
                            {"--arm", "servers", "--external", "--listen", "127.0.0.1:0",
                             "--rendezvous-timeout", "0.1"});
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(4));
  EXPECT_THAT(psring->err(), HasSubstr("arm servers: not joined within 100ms: worker 0, "
                                       "worker 1, server 0, server 1\n"));
}

TEST_F(EndToEndTest, AListenAddressWithoutAPortIsWrongUsage) {
  for (const char* address : {"127.0.0.1", "127.0.0.1:", ":7000", "::1:7000", "[::1]"}) {
    const auto psring =
        Start("run", Config(3), {"--arm", "ring", "--external", "--listen", address});
    EXPECT_THAT(psring->Wait(kEndOfRun), Optional(2)) << address;
    EXPECT_THAT(psring->err(),
                HasSubstr(absl::StrCat("\"", address, "\" is not HOST:PORT")));
  }
}

TEST_F(EndToEndTest, DryRunAndPrintConfigStartNothing) {
  const auto plan = Start("compare", Config(3), {"--dry-run"});
  EXPECT_THAT(plan->Wait(kPatience), Optional(0));
  EXPECT_THAT(plan->out(), AllOf(HasSubstr("arm servers: 2 workers, 2 servers"),
                                 HasSubstr("50,920"), HasSubstr("layer0.weight")));
  const auto config = Start("compare", Config(3), {"--print-config"});
  EXPECT_THAT(config->Wait(kPatience), Optional(0));
  const std::string printed = Write("printed.textproto", config->out());
  const auto again = Start("compare", printed, {"--print-config"});
  EXPECT_THAT(again->Wait(kPatience), Optional(0));
  EXPECT_EQ(again->out(), config->out());
  EXPECT_FALSE(fs::exists(Path("out")));
}

TEST_F(EndToEndTest, HelpEverywhere) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"experiments/psring"},
                                             {"experiments/psring", "compare"},
                                             {"experiments/psring", "run"},
                                             {"experiments/psring", "env"},
                                             {"worker/main/worker"},
                                             {"server/parameter_server"}}) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    Subprocess help(arguments);
    EXPECT_THAT(help.Wait(kPatience), Optional(0)) << help.err();
    EXPECT_THAT(help.out(), HasSubstr("--help"));
  }
  Subprocess env({"experiments/psring", "env"});
  EXPECT_THAT(env.Wait(kPatience), Optional(0));
  EXPECT_THAT(env.out(), HasSubstr("gRPC"));
}

}  // namespace
}  // namespace psring
