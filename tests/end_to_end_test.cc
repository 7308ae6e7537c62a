// The psring command to its good end.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

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

TEST_F(EndToEndTest, ARingOfAnotherOrderOverGrpcEqualsServersThatFollowIt) {
  const auto psring =
      Start("compare", Config(4),
            {"--set", "cluster.workers=4", "--set", "ring_order=[0, 2, 1, 3]", "--set",
             "arms[1].ring={transport: GRPC connections: 2}"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["arms"][0]["parameter_digest"],
            summary["arms"][1]["parameter_digest"]);
  EXPECT_EQ(summary["arms"][1]["mode"], "ring all-reduce over gRPC, 2 connections");
  EXPECT_EQ(summary["arms"][1]["certificates"]["traffic"], "PASS");
}

TEST_F(EndToEndTest, AnotherAlgorithmMovesTheBytesOfItsFormula) {
  const auto psring = Start("run", Config(4),
                            {"--arm", "ring", "--set", "cluster.workers=4", "--set",
                             "arms[1].ring={algorithm: GATHER_BROADCAST spin: true}"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  const nlohmann::json arm = Summary()["arms"][0];
  EXPECT_EQ(arm["mode"], "gather-broadcast all-reduce, spinning");
  EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
  EXPECT_EQ(arm["certificates"]["replica"], "PASS");
  // Worker 0 sends everything to each of the others, in each step.
  EXPECT_EQ(arm["endpoints"][0]["payload_out"], 3 * 12730 * 4 * 4);
  EXPECT_EQ(arm["endpoints"][3]["payload_out"], 12730 * 4 * 4);
}

// The buckets have 744 and 50176 bytes: the last is the weights of layer 0.
TEST_F(EndToEndTest, AutoSumsEachBucketByTheAlgorithmForItsSizeAndSaysSo) {
  const auto psring =
      Start("run", Config(4),
            {"--arm", "ring", "--set", "cluster.workers=4", "--set",
             "arms[1].ring={algorithm: AUTO"
             " choices { transport: TCP workers: 3 up_to_bytes: 744 algorithm: TREE }"
             " choices { transport: TCP workers: 3 algorithm: GATHER_BROADCAST }"
             " choices { transport: TCP workers: 8 algorithm: RING }}"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  const nlohmann::json arm = Summary()["arms"][0];
  EXPECT_EQ(arm["mode"], "auto all-reduce");
  EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
  EXPECT_EQ(arm["certificates"]["replica"], "PASS");
  EXPECT_EQ(arm["buckets"], nlohmann::json::parse(R"([
    {"bytes": 744, "algorithm": "tree"}, {"bytes": 50176, "algorithm": "gather_broadcast"}
  ])"));
  EXPECT_EQ(QueryOne("SELECT count(*) FROM bucket_plan WHERE run = 1 AND (bucket, bytes, "
                     "algorithm) IN (VALUES (0, 744, 'tree'), (1, 50176, "
                     "'gather_broadcast'))"),
            2);
  // In each of 4 steps: up the tree and, of the large bucket, to worker 0.
  EXPECT_EQ(arm["endpoints"][3]["payload_out"], 4 * (744 + 50176));
  EXPECT_EQ(arm["endpoints"][0]["payload_out"], 4 * (2 * 744 + 3 * 50176));
}

TEST_F(EndToEndTest, SharedMemoryIsNotForProcessesOnOtherHosts) {
  const auto psring = Start("run", Config(4),
                            {"--arm", "ring", "--external", "--listen", "127.0.0.1:0",
                             "--set", "arms[1].ring.transport=SHARED_MEMORY"});
  EXPECT_THAT(psring->Wait(kPatience), Optional(2));
  EXPECT_THAT(psring->err(), HasSubstr("arm 'ring': ring.transport: is SHARED_MEMORY"));
  EXPECT_FALSE(fs::exists(Path("out")));
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
  EXPECT_THAT(per_run("bucket_plan"), ElementsAre(2, 2));
  EXPECT_THAT(per_run("digests"), ElementsAre(24, 24));
  EXPECT_THAT(per_run("contributions"), ElementsAre(96, 0));
  EXPECT_THAT(per_run("evaluations"), ElementsAre(3, 3));
  // Payload, first distribution and snapshots in both directions; the ring knows its
  // wire, too.
  EXPECT_THAT(per_run("links"), ElementsAre(24, 16));
  EXPECT_THAT(per_run("link_costs"), ElementsAre(0, 2));
  EXPECT_THAT(per_run("events"), ElementsAre(8, 4));     // Each joins and leaves.
  EXPECT_THAT(per_run("recording"), ElementsAre(9, 5));  // Two of each, and the writer's.

  EXPECT_EQ(QueryOne("SELECT count(*) FROM steps JOIN buckets USING (run, rank, step) "
                     "WHERE NOT (start_ns < ready_ns AND ready_ns <= launched_ns AND "
                     "launched_ns <= done_ns AND done_ns < start_ns + total_ns)"),
            0);
  // In each update of a slot, both workers' gradients from the version before.
  EXPECT_EQ(QueryOne("SELECT count(*) FROM (SELECT 1 FROM contributions WHERE "
                     "version_read = version AND version < 12 AND time_ns >= 0 AND "
                     "dropped IS NULL GROUP BY slot, version HAVING count(*) = 2)"),
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
      if (run == 1) {  // Of servers.
        EXPECT_TRUE(endpoint["awaiting_bytes_seconds"].is_null());
        continue;
      }
      // Two workers in a ring cannot go on without each other.
      EXPECT_GT(endpoint["awaiting_bytes_seconds"], 0);
      EXPECT_NEAR(QueryOne(absl::StrCat(
                      "SELECT awaiting_bytes_ns / 1e9 FROM link_costs WHERE process = '",
                      endpoint["name"].get<std::string>(), "' AND run = ", run)),
                  endpoint["awaiting_bytes_seconds"], 1e-9);
      EXPECT_GE(endpoint["awaiting_room_seconds"], 0);
      EXPECT_GE(endpoint["retransmissions"], 0);
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
