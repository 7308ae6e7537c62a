// psring bench as a user runs it, small.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
using testing::StartsWith;

class BenchTest : public BenchCommandTest {
 protected:
  BenchTest() : BenchCommandTest("all-reduce") {}

  // Runs every size in two rounds, few times; returns the rows.
  nlohmann::json Rows(int ranks, std::vector<std::string> more) const {
    more.insert(more.end(), {"--ranks",
                             absl::StrCat(ranks),
                             "-b",
                             "20",
                             "-e",
                             "20480",
                             "-f",
                             "32",
                             "-n",
                             "3",
                             "-w",
                             "1",
                             "-c",
                             "2",
                             "--rounds",
                             "2",
                             "--min-seconds",
                             "0",
                             "--json",
                             Path("rows.json")});
    const auto bench = Bench(more);
    EXPECT_THAT(bench->Wait(kPatience), Optional(0)) << bench->err();
    EXPECT_THAT(bench->err(), AllOf(StartsWith("psring: round 1 of 2, "),
                                    HasSubstr("\npsring: round 2 of 2, ")));
    nlohmann::json json = WrittenJson();
    EXPECT_EQ(json["ranks"], ranks);
    for (const nlohmann::json& row : json["rows"]) {
      const nlohmann::json& time = row["time_us"];
      EXPECT_EQ(row["wrong"], 0) << row;
      EXPECT_GT(time["min"], 0) << row;
      EXPECT_GE(time["median"], time["min"]) << row;
      EXPECT_GE(time["p99"], time["median"]) << row;
      const double algbw =
          row["size"].get<double>() / (1e3 * time["median"].get<double>());
      EXPECT_NEAR(row["algbw"], algbw, 1e-6 * algbw) << row;
      EXPECT_NEAR(row["busbw"], algbw * 2 * (ranks - 1) / ranks, 1e-6 * algbw) << row;
    }
    return json["rows"];
  }

  // "PEER ALGORITHM TRANSPORT" of the rows of the smallest size, each with sizes 20 and
  // 640 and 20480 somewhere.
  static std::vector<std::string> ContestantsOf(const nlohmann::json& rows) {
    std::vector<std::string> names;
    std::multiset<int> sizes;
    for (const nlohmann::json& row : rows) {
      sizes.insert(row["size"].get<int>());
      if (row["size"] != 20) continue;
      names.push_back(absl::StrCat(row["peer"].get<std::string>(), " ",
                                   row["algorithm"].get<std::string>(), " ",
                                   row["transport"].get<std::string>()));
    }
    for (const int size : {20, 640, 20480}) EXPECT_EQ(sizes.count(size), names.size());
    EXPECT_EQ(sizes.size(), 3 * names.size());
    return names;
  }
};

TEST_F(BenchTest, EveryTransportAndAlgorithmSumsRight) {
  for (const int ranks : {2, 4}) {
    const nlohmann::json rows =
        Rows(ranks, {"--transport", "tcp,grpc,shared_memory", "--algorithm",
                     "ring,halving_doubling,tree,gather_broadcast"});
    EXPECT_THAT(ContestantsOf(rows),
                ElementsAre("psring ring tcp", "psring halving_doubling tcp",
                            "psring tree tcp", "psring gather_broadcast tcp",
                            "psring ring grpc", "psring halving_doubling grpc",
                            "psring tree grpc", "psring gather_broadcast grpc",
                            "psring ring shared_memory", "raw ring tcp"));
    for (const int reference : {0, 4, 8}) {
      EXPECT_TRUE(rows[reference]["ratio"].is_null());
    }
    for (const int other : {1, 5, 9}) EXPECT_GT(rows[other]["ratio"], 0);
  }
}

TEST_F(BenchTest, AutoSumsRightAndIsTheReferenceWhereItComesFirst) {
  const nlohmann::json rows =
      Rows(4, {"--transport", "tcp,grpc", "--algorithm", "auto,tree"});
  EXPECT_THAT(ContestantsOf(rows),
              ElementsAre("psring auto tcp", "psring tree tcp", "psring auto grpc",
                          "psring tree grpc", "raw ring tcp"));
  EXPECT_TRUE(rows[0]["ratio"].is_null());
  EXPECT_GT(rows[1]["ratio"], 0);
}

// Runs with 2 and then with 4 ranks fill one file, which an experiment can use.
TEST_F(BenchTest, WritesTheTableOfTheFastest) {
  const std::string path =
      Write("table",
            "choices { transport: TCP workers: 2 algorithm: GATHER_BROADCAST }\n"
            "choices { transport: TCP workers: 9 algorithm: TREE }\n");
  for (const int ranks : {2, 4}) {
    Rows(ranks, {"--algorithm", "ring,auto,halving_doubling", "--write-table", path});
  }
  std::stringstream table;
  table << std::ifstream(path).rdbuf();
  EXPECT_THAT(table.str(), AllOf(HasSubstr("transport: TCP workers: 2 "),
                                 HasSubstr("transport: TCP workers: 4 "),
                                 HasSubstr("transport: TCP workers: 9 algorithm: TREE"),
                                 testing::Not(HasSubstr("GATHER_BROADCAST"))));
  const std::string config = Config(1);
  std::stringstream experiment;
  experiment << std::ifstream(config).rdbuf() << "arms { name: \"auto\" ring {\n"
             << "algorithm: AUTO\n"
             << table.str() << "} }\n";
  const auto psring =
      Start("compare", Write("auto.textproto", experiment.str()), {"--print-config"});
  EXPECT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(),
              AllOf(HasSubstr("workers: 2"), testing::Not(HasSubstr("workers: 4"))));
}

TEST_F(BenchTest, ConnectionsAndSpinningSumRight) {
  for (const char* transport : {"tcp", "grpc", "shared_memory"}) {
    Rows(2, {"--transport", transport, "--connections", "3", "--spin"});
  }
}

TEST_F(BenchTest, PrintsATableAndWritesCsv) {
  const auto bench = Bench({"-b", "4K", "-e", "4K", "-n", "2", "--rounds", "1",
                            "--min-seconds", "0", "--csv", Path("rows.csv")});
  ASSERT_THAT(bench->Wait(kPatience), Optional(0)) << bench->err();
  EXPECT_THAT(bench->out(),
              AllOf(HasSubstr("psring bench all-reduce -b 4K -e 4K"), HasSubstr("cores"),
                    HasSubstr("load before"), HasSubstr("load after"), HasSubstr("algbw"),
                    HasSubstr("#wrong")));
  std::stringstream csv;
  csv << std::ifstream(Path("rows.csv")).rdbuf();
  EXPECT_THAT(csv.str(), AllOf(HasSubstr("size,count,type,algorithm,transport,peer"),
                               HasSubstr("\n4096,1024,float,ring,tcp,psring,"),
                               HasSubstr("\n4096,1024,float,ring,tcp,raw,")));
}

TEST_F(BenchTest, WrongUsageIsOneLineAndStartsNothing) {
  ExpectRefused(
      {{{"-b", "4Q"}, "\"4Q\" is not a size"},
       {{"-e", "1K"}, "-e 1K is less than -b 4K"},
       {{"--ranks", "1"}, "--ranks 1: 2 to 16"},
       {{"--transport", "pigeon"}, "--transport pigeon: not one of tcp"},
       {{"--algorithm", "ring,ring"}, "--algorithm names ring twice"},
       {{"--against", "nccl"}, "--against nccl: not one of gloo, openmpi"},
       {{"--connections", "0"}, "--connections 0: 1 to 64"},
       {{"--algorithm", "auto", "--write-table", Path("table")},
        "--write-table: there is nothing to choose from"},
       {{"--transport", "shared_memory", "--write-table", Path("table")},
        "--write-table: there is nothing to choose from"},
       {{"--write-table", Write("broken", "choices { transport: TCP }")},
        "broken:1: choices[0].workers: missing; allowed: at least 2"},
       {{"--json", Path("missing/rows.json")}, "cannot be written: No such file"},
       {{"--transport", "shared_memory", "--against", "gloo"},
        "Gloo has TCP only, so it needs --transport tcp"}});
}

TEST_F(BenchTest, NumbersOutOfRangeAreRefusedWithTheRange) {
  for (const auto& [flag, value, message] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"-c", "10001", "10001 not in range 0 to 10000"},
           {"-c", "-1", "-1 not in range 0 to 10000"},
           {"--min-seconds", "3601", "3601 not in range 0 to 3600"},
           {"--min-seconds", "-0.5", "-0.5 not in range 0 to 3600"},
           {"--min-seconds", "nan", "nan not in range 0 to 3600"},
           {"--min-seconds", "inf", "inf not in range 0 to 3600"}}) {
    const auto bench = Bench({flag, value});
    EXPECT_THAT(bench->Wait(kPatience), Optional(2)) << message;
    EXPECT_THAT(bench->err(), HasSubstr(message));
  }
}

TEST_F(BenchTest, HelpListsTheExitCodeOfAMissingLibrary) {
  Subprocess help({"experiments/psring", "--help"});
  EXPECT_THAT(help.Wait(kPatience), Optional(0));
  EXPECT_THAT(help.out(), HasSubstr("77 a library"));
}

TEST_F(BenchTest, WithoutAWarmUpAndChecksTimesAreMeasuredAllTheSame) {
  const auto bench = Bench({"-b", "4K", "-e", "4K", "-n", "5", "-w", "0", "-c", "0",
                            "--rounds", "1", "--json", Path("rows.json")});
  ASSERT_THAT(bench->Wait(kPatience), Optional(0)) << bench->err();
  const nlohmann::json json = WrittenJson();
  EXPECT_TRUE(json["rows"][0]["wrong"].is_null());
  EXPECT_GT(json["rows"][0]["time_us"]["min"], 0);
}

// Forever, as far as this test is concerned.
std::vector<std::string> EndlessBench() {
  return {"-b",   "64K", "-e",    "64K",           "--rounds",
          "1000", "-n",  "10000", "--min-seconds", "0"};
}

TEST_F(BenchTest, ARankThatIsKilledEndsTheRunWithItsName) {
  const auto bench = Bench(EndlessBench());
  ASSERT_TRUE(bench->WaitForOutput("load before", kPatience));
  ASSERT_NE(Find(bench->pid(), "bench_rank", 1), 0);
  kill(Find(bench->pid(), "bench_rank", 1), SIGKILL);
  EXPECT_THAT(bench->Wait(kPatience), Optional(5));
  const std::string err = bench->err();
  EXPECT_THAT(err, AllOf(HasSubstr("rank "), HasSubstr("logs in /")));
  ExpectKeptLogs(err);
  EXPECT_TRUE(ChildrenOf(bench->pid()).empty());
}

TEST_F(BenchTest, ASignalEndsItAndItsRanks) {
  std::string folder = "/tmp/bench_test_XXXXXX";  // A socket's path is short.
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("TMPDIR", folder.c_str(), 1);
  const auto bench = Bench(EndlessBench());
  unsetenv("TMPDIR");
  ASSERT_TRUE(bench->WaitForOutput("load before", kPatience));
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  std::vector<pid_t> ranks;
  for (const ChildProcess& child : ChildrenOf(bench->pid())) ranks.push_back(child.pid);
  ASSERT_EQ(ranks.size(), 4);
  bench->Signal(SIGTERM);
  EXPECT_THAT(bench->Wait(kPatience), Optional(128 + SIGTERM));
  EXPECT_THAT(bench->err(), HasSubstr("stopped by Terminated"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
  for (const pid_t rank : ranks) EXPECT_TRUE(WaitForEnd(rank, kPatience));
}

class BenchPeersTest : public BenchTest,
                       public testing::WithParamInterface<std::tuple<const char*, int>> {
};

TEST_P(BenchPeersTest, SumRightInTheSameTable) {
  const auto& [peer, ranks] = GetParam();
  const auto probe = Bench({"--against", peer, "-b", "4", "-e", "4", "--rounds", "1"});
  const std::optional<int> code = probe->Wait(kPatience);
  if (code == 77) {
    EXPECT_THAT(probe->err(), AllOf(HasSubstr(peer), HasSubstr("install lib"),
                                    HasSubstr("third_party/optional_packages.txt")));
    GTEST_SKIP() << probe->err();
  }
  ASSERT_THAT(code, Optional(0)) << probe->err();
  const nlohmann::json rows =
      Rows(ranks, {"--against", peer, "--transport", "tcp,shared_memory"});
  const std::vector<std::string> names = ContestantsOf(rows);
  std::vector<std::string> of_peer;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!absl::StartsWith(names[i], peer)) continue;
    of_peer.push_back(names[i]);
    EXPECT_GT(rows[i]["ratio"], 0) << rows[i];
  }
  if (peer == std::string("gloo")) {
    EXPECT_THAT(of_peer, ElementsAre("gloo ring tcp", "gloo ring_chunked tcp",
                                     "gloo halving_doubling tcp", "gloo bcube tcp"));
  } else {
    EXPECT_THAT(of_peer,
                ElementsAre("openmpi default tcp", "openmpi default shared_memory"));
  }
}

INSTANTIATE_TEST_SUITE_P(Installed, BenchPeersTest,
                         testing::Combine(testing::Values("gloo", "openmpi"),
                                          testing::Values(2, 4)));

}  // namespace
}  // namespace psring
