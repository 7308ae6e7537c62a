// psring bench push-pull as a user runs it, small.
#include <signal.h>

#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench_test_util.h"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

class BenchPushPullTest : public BenchCommandTest {
 protected:
  BenchPushPullTest() : BenchCommandTest("push-pull") {}

  // Measures 20 and 20480 bytes in two rounds, few times.
  nlohmann::json Measure(std::vector<std::string> more) const {
    for (const char* argument : {"-b", "20", "-e", "20480", "-f", "1024", "-n", "3", "-w",
                                 "1", "-c", "2", "--rounds", "2", "--min-seconds", "0"}) {
      more.push_back(argument);
    }
    more.insert(more.end(), {"--json", Path("rows.json")});
    const auto bench = Bench(more);
    EXPECT_THAT(bench->Wait(kPatience), Optional(0)) << bench->err();
    nlohmann::json json = WrittenJson();
    for (const nlohmann::json& row : json["rows"]) {
      EXPECT_EQ(row["wrong"], 0) << row;
      EXPECT_GT(row["time_us"]["min"], 0) << row;
      EXPECT_GT(row["processor_seconds_per_gb"], 0) << row;
      const double in =
          row["size"].get<double>() / (1e3 * row["time_us"]["median"].get<double>());
      EXPECT_NEAR(row["in"], in, 1e-6 * in) << row;
    }
    return json;
  }

  // A process of the benchmark that has all of these among its arguments.
  static pid_t ProcessOf(const Subprocess& bench, const std::string& contestant,
                         const std::string& rank) {
    for (const ChildProcess& child : ChildrenOf(bench.pid())) {
      const std::string all = absl::StrJoin(child.arguments, " ");
      if (absl::StrContains(all, absl::StrCat("--contestant ", contestant)) &&
          absl::StrContains(all, absl::StrCat("--rank ", rank, " "))) {
        return child.pid;
      }
    }
    return -1;
  }
};

TEST_F(BenchPushPullTest, EveryContestantMovesEverySizeRight) {
  const nlohmann::json json = Measure({"--servers", "2"});
  std::vector<std::string> rows, ratios;
  for (const nlohmann::json& row : json["rows"]) {
    rows.push_back(
        absl::StrCat(row["contestant"].get<std::string>(), " ", row["size"].get<int>()));
    EXPECT_EQ(row["out"], row["in"]);
    EXPECT_DOUBLE_EQ(row["server_in_and_out"], 2 * row["in"].get<double>());
  }
  EXPECT_THAT(rows, testing::ElementsAre("psring 20", "grpc 20", "tcp 20", "psring 20480",
                                         "grpc 20480", "tcp 20480"));
  for (const nlohmann::json& ratio : json["ratios"]) {
    ratios.push_back(absl::StrCat(ratio["contestant"].get<std::string>(), " ",
                                  ratio["reference"].get<std::string>(), " ",
                                  ratio["size"].get<int>()));
    EXPECT_GT(ratio["time"], 0);
    EXPECT_GT(ratio["processor"], 0);
  }
  EXPECT_THAT(ratios, testing::ElementsAre("psring grpc 20", "grpc tcp 20",
                                           "psring grpc 20480", "grpc tcp 20480"));
}

TEST_F(BenchPushPullTest, EveryModeAndWireIsRight) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--mode", "async", "--workers", "3"},
           {"--mode", "bounded", "--bound", "2"},
           {"--wire", "bf16", "--workers", "1", "--slot-bytes", "4K"},
           {"--wire", "fp16", "--contestant", "psring"}}) {
    SCOPED_TRACE(absl::StrJoin(flags, " "));
    const nlohmann::json json = Measure(flags);
    EXPECT_FALSE(json["rows"].empty());
  }
}

TEST_F(BenchPushPullTest, PrintsMachineAndTablesAndWritesCsv) {
  const auto bench =
      Bench({"-b", "4K", "-e", "4K", "-n", "2", "--rounds", "1", "--workers", "1",
             "--min-seconds", "0", "--csv", Path("rows.csv")});
  ASSERT_THAT(bench->Wait(kPatience), Optional(0)) << bench->err();
  EXPECT_THAT(bench->out(),
              AllOf(HasSubstr("psring bench push-pull -b 4K -e 4K"), HasSubstr("cores"),
                    HasSubstr("grpc"), HasSubstr("load before"), HasSubstr("load after"),
                    HasSubstr("server in+out"), HasSubstr("psring / grpc  4,096"),
                    HasSubstr("time at most 1.30: ")));
  EXPECT_THAT(bench->err(), testing::StartsWith("psring: round 1 of 1, "));
  std::stringstream csv;
  csv << std::ifstream(Path("rows.csv")).rdbuf();
  EXPECT_THAT(csv.str(), AllOf(HasSubstr("\n4096,1024,float,psring,"),
                               HasSubstr("\n4096,1024,float,tcp,")));
}

TEST_F(BenchPushPullTest, WrongUsageIsOneLineAndStartsNothing) {
  ExpectRefused(
      {{{"-b", "4Q"}, "\"4Q\" is not a size"},
       {{"--workers", "0"}, "--workers 0: 1 to 16"},
       {{"--mode", "lazy"}, "--mode lazy: not one of sync, bounded, async"},
       {{"--slot-bytes", "4", "-e", "1G"}, "slots; allowed: 4,194,304 at most"},
       {{"--csv", Path("missing/rows.csv")}, "--csv "},
       {{"--json", Path("missing/rows.json")}, "cannot be written: No such file"}});
}

// Whoever it is, and whether it has something to do or sleeps.
TEST_F(BenchPushPullTest, AProcessThatIsKilledEndsTheRunWithItsName) {
  for (const auto& [contestant, rank, name] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"psring", "0", "psring, server 0"},
           {"grpc", "0", "grpc, server 0"},
           {"tcp", "2", "tcp, worker 1"}}) {
    const auto bench = Bench({"--rounds", "1000"});
    ASSERT_TRUE(bench->WaitForOutput("load before", kPatience));
    std::vector<pid_t> all;
    for (const ChildProcess& child : ChildrenOf(bench->pid())) all.push_back(child.pid);
    ASSERT_EQ(all.size(), 9);
    const pid_t victim = ProcessOf(*bench, contestant, rank);
    ASSERT_GT(victim, 0) << name;
    kill(victim, SIGKILL);
    EXPECT_THAT(bench->Wait(kPatience), Optional(5));
    EXPECT_THAT(bench->err(), HasSubstr(absl::StrCat(name, " was killed by signal 9")));
    for (const pid_t pid : all) EXPECT_TRUE(WaitForEnd(pid, kPatience));
  }
}

TEST_F(BenchPushPullTest, ASignalEndsItAndItsProcesses) {
  const auto bench = Bench({"--rounds", "1000"});
  ASSERT_TRUE(bench->WaitForOutput("load before", kPatience));
  std::vector<pid_t> all;
  for (const ChildProcess& child : ChildrenOf(bench->pid())) all.push_back(child.pid);
  ASSERT_EQ(all.size(), 9);
  bench->Signal(SIGINT);
  EXPECT_THAT(bench->Wait(kPatience), Optional(128 + SIGINT));
  EXPECT_THAT(bench->err(), HasSubstr("stopped by Interrupt"));
  for (const pid_t pid : all) EXPECT_TRUE(WaitForEnd(pid, kPatience));
}

}  // namespace
}  // namespace psring
