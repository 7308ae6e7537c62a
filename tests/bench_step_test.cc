// psring bench step as a user runs it, small.
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench_test_util.h"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

class BenchStepTest : public BenchCommandTest {
 protected:
  BenchStepTest() : BenchCommandTest("step") {}

  // Trains a small model in two rounds; returns the rows, which all have learned.
  nlohmann::json Rows(std::vector<std::string> more) {
    more.insert(more.end(), {"--model", "20-16-10", "--batch", "16", "-n", "100", "-w",
                             "5", "--rounds", "2", "--json", Path("rows.json")});
    const auto bench = Bench(more);
    EXPECT_THAT(bench->Wait(kPatience), Optional(0)) << bench->err();
    EXPECT_THAT(bench->err(), AllOf(HasSubstr("psring: round 1 of 2, "),
                                    HasSubstr("\npsring: round 2 of 2, ")));
    out_ = bench->out();
    const nlohmann::json json = WrittenJson();
    EXPECT_EQ(json["parameters"], 21 * 16 + 17 * 10);
    for (const nlohmann::json& row : json["rows"]) {
      const nlohmann::json& step = row["step_ms"];
      EXPECT_GT(step["min"], 0) << row;
      EXPECT_GE(step["median"], step["min"]) << row;
      EXPECT_GE(step["p99"], step["median"]) << row;
      const double rate =
          16 * row["ranks"].get<double>() / (step["median"].get<double>() / 1e3);
      EXPECT_NEAR(row["samples_per_second"], rate, 1e-6 * rate) << row;
      EXPECT_GT(row["parts_ms"]["forward"], 0) << row;
      EXPECT_GT(row["parts_ms"]["backward"], 0) << row;
      // From ln 10 on, roughly.
      EXPECT_GT(row["first_loss"], 2.0) << row;
      EXPECT_LT(row["last_loss"], 0.95 * row["first_loss"].get<double>()) << row;
    }
    return json["rows"];
  }

  static std::vector<std::string> NamesOf(const nlohmann::json& rows) {
    std::vector<std::string> names;
    for (const nlohmann::json& row : rows) {
      names.push_back(row["peer"].get<std::string>() + " " +
                      row["arm"].get<std::string>() + " " +
                      row["transport"].get<std::string>() + " " + row["ranks"].dump() +
                      " " + row["cap_bytes"].dump());
    }
    return names;
  }

  std::string out_;  // Of the last Rows().
};

// That all ranks end with the same parameters is checked by the command itself.
TEST_F(BenchStepTest, EveryArmTrains) {
  const nlohmann::json rows =
      Rows({"--transport", "tcp,shared_memory,grpc", "--cap", "256,1M"});
  EXPECT_THAT(NamesOf(rows),
              ElementsAre("psring ring tcp 2 256", "psring ring tcp 2 1048576",
                          "psring ring shared_memory 2 256",
                          "psring ring shared_memory 2 1048576", "psring ring grpc 2 256",
                          "psring ring grpc 2 1048576", "psring servers grpc 2 256",
                          "psring servers grpc 2 1048576", "psring local  1 null"));
  EXPECT_TRUE(rows[0]["ratio"].is_null());
  EXPECT_TRUE(rows[8]["ratio"].is_null());
  for (int i = 1; i < 8; ++i) EXPECT_GT(rows[i]["ratio"], 0);
  // The same sums, in the same order, whatever carries them and in which pieces.
  for (int i = 1; i < 8; ++i) EXPECT_EQ(rows[i]["last_loss"], rows[0]["last_loss"]) << i;
  EXPECT_NE(rows[8]["last_loss"], rows[0]["last_loss"]);
  // A server runs the optimizer itself.
  EXPECT_GT(rows[0]["parts_ms"]["optimizer"], 0);
  EXPECT_EQ(rows[6]["parts_ms"]["optimizer"], 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("psring bench step --transport tcp,shared_memory"),
                          HasSubstr("cores"), HasSubstr("load before"),
                          HasSubstr("20-16-10, 506 parameters"), HasSubstr("samples/s"),
                          HasSubstr("load after")));
}

TEST_F(BenchStepTest, OneRankIsAllThatSomeMachinesHave) {
  const nlohmann::json rows =
      Rows({"--ranks", "1", "--servers", "2", "--cap", "1M", "--arm", "local,servers"});
  EXPECT_THAT(NamesOf(rows),
              ElementsAre("psring local  1 null", "psring servers grpc 1 1048576"));
  EXPECT_GT(rows[1]["ratio"], 0);
  EXPECT_EQ(rows[1]["last_loss"], rows[0]["last_loss"]);
}

TEST_F(BenchStepTest, PytorchTrainsInTheSameTable) {
  const auto probe = Bench({"--against", "pytorch", "--model", "4-10", "--batch", "4",
                            "-n", "1", "-w", "0", "--rounds", "1"});
  const auto code = probe->Wait(kPatience);
  if (code == 77) {
    EXPECT_THAT(probe->err(),
                AllOf(HasSubstr("psring: --against pytorch: "), HasSubstr("install ")));
    EXPECT_EQ(probe->out(), "");
    GTEST_SKIP() << probe->err();
  }
  ASSERT_THAT(code, Optional(0)) << probe->err();
  const nlohmann::json rows =
      Rows({"--against", "pytorch", "--cap", "1M", "--arm", "ring,local"});
  EXPECT_THAT(NamesOf(rows),
              ElementsAre("psring ring tcp 2 1048576", "psring local  1 null",
                          "pytorch ddp tcp 2 26214400", "pytorch ddp tcp 2 1048576",
                          "pytorch local  1 null"));
  for (const int peer : {2, 3, 4}) {
    EXPECT_GT(rows[peer]["ratio"], 0);
    EXPECT_TRUE(rows[peer]["parts_ms"]["exposed"].is_null());
  }
  EXPECT_THAT(out_, HasSubstr("  pytorch  "));
}

TEST_F(BenchStepTest, WrongUsageIsOneLineAndStartsNothing) {
  ExpectRefused(
      {{{"--model", "784-12"}, "--model 784-12: allowed: at least two widths"},
       {{"--arm", "bus"}, "--arm bus: not one of ring, servers, local"},
       {{"--cap", "1Q"}, "\"1Q\" is not a size"},
       {{"--ranks", "17"}, "--ranks 17: 1 to 16"},
       {{"--against", "gloo"}, "--against gloo: not one of pytorch"},
       {{"--json", Path("missing/rows.json")}, "cannot be written: No such file"}});
  ExpectOutOfRange({{"-n", "0"}, {"-w", "-1"}, {"--rounds", "0"}, {"--batch", "0"}});
}

// As far as this test is concerned, its first round has no end.
std::vector<std::string> EndlessBench() {
  return {"--arm", "ring", "-n", "10000", "-w", "10000", "--rounds", "1000"};
}

TEST_F(BenchStepTest, AWorkerThatIsKilledEndsTheRunWithItsName) {
  const auto bench = Bench(EndlessBench());
  ASSERT_TRUE(bench->WaitForOutput("round 1: step ", kPatience));
  const pid_t worker = Find(bench->pid(), "worker", 1);
  ASSERT_NE(worker, 0);
  kill(worker, SIGKILL);
  EXPECT_THAT(bench->Wait(kPatience), Optional(5));
  const std::string err = bench->err();
  EXPECT_THAT(err, AllOf(HasSubstr("psring-ring-tcp-1048576, round 1: "),
                         HasSubstr("worker "), HasSubstr("logs in /")));
  ExpectKeptLogs(err);
  EXPECT_TRUE(ChildrenOf(bench->pid()).empty());
}

TEST_F(BenchStepTest, ASignalEndsItAndItsFolder) {
  std::string folder = "/tmp/bench_step_test_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("TMPDIR", folder.c_str(), 1);
  const auto bench = Bench(EndlessBench());
  unsetenv("TMPDIR");
  ASSERT_TRUE(bench->WaitForOutput("round 1: step ", kPatience));
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  bench->Signal(SIGTERM);
  EXPECT_THAT(bench->Wait(kPatience), Optional(128 + SIGTERM));
  EXPECT_THAT(bench->err(), HasSubstr("stopped by Terminated"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace psring
