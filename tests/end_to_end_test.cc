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
                                   HasSubstr("traffic PASS"), HasSubstr("memory PASS"),
                                   HasSubstr("memory in bytes, at most")));
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
    EXPECT_EQ(arm["certificates"]["memory"], "PASS");
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
  ASSERT_EQ(arm["buckets"].size(), 2);
  EXPECT_EQ(arm["buckets"][0]["bytes"], 744);
  EXPECT_EQ(arm["buckets"][0]["algorithm"], "tree");
  EXPECT_EQ(arm["buckets"][1]["bytes"], 50176);
  EXPECT_EQ(arm["buckets"][1]["algorithm"], "gather_broadcast");
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

// Every step takes its time, a third of it forward, and the worker learns what it would
// have learned without waiting.
TEST_F(EndToEndTest, PaddedComputeTakesItsTimeAndLearnsTheSame) {
  const auto psring = Start(
      "compare", Config(3),
      {"--set", "arms=[{name: 'ring' ring {}}]", "--set", "compute.padded.step_ms=60"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(), AllOf(HasSubstr("compute: padded to 60 ms"),
                                   HasSubstr("steps later than compute wants")));
  EXPECT_THAT(psring->err(), HasSubstr("compute: padded to 60 ms"));
  EXPECT_GE(QueryOne("SELECT min(forward_ns) FROM steps"), 20e6);
  EXPECT_GE(QueryOne("SELECT min(forward_ns + backward_ns) FROM steps"), 60e6);
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["compute"], "padded to 60 ms");
  EXPECT_EQ(summary["arms"][0]["late_share"], QueryOne("SELECT avg(late) FROM steps"));

  fs::remove_all(Path("out"));
  const auto real =
      Start("compare", Config(3), {"--set", "arms=[{name: 'ring' ring {}}]"});
  ASSERT_THAT(real->Wait(kPatience), Optional(0)) << real->err();
  EXPECT_EQ(Summary()["arms"][0]["parameter_digest"],
            summary["arms"][0]["parameter_digest"]);
}

// Two buckets of 4000 and 8000 bytes, over servers and rings, and no data set.
TEST_F(EndToEndTest, EmulatedComputeExchangesMadeUpGradients) {
  const std::vector<std::string> emulated = {
      "--set",
      "model.tensors={elements: 1000 repeat: 3}",
      "--set",
      "data={}",
      "--set",
      "buckets={cap_bytes: 8000 first_cap_bytes: 4000}",
      "--set",
      "training.evaluation_interval=0",
      "--set",
      "training.target_accuracy=0",
      "--set",
      "cluster.workers=3",
      "--set",
      "arms=[{name: 'servers' parameter_server {sync {order: RANK}}}, {name: "
      "'ring' ring {}}, {name: 'tree' ring {algorithm: TREE}}, {name: 'async' "
      "parameter_server {async {}}}]",
      "--set",
      "compute.emulated={forward_ms: 5 backward_ms: 30 jitter: 0.1 rank_factor: "
      "{rank: 1 factor: 2}}"};
  const auto psring = Start("compare", Config(4), emulated);
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err() << psring->out();
  EXPECT_THAT(
      psring->out(),
      AllOf(HasSubstr("compute: emulated, 5 ms forward and 30 ms backward, jitter "
                      "10 %, worker 1 times 2; made-up gradients"),
            testing::Not(HasSubstr("accuracy  "))));
  const nlohmann::json summary = Summary();
  ASSERT_EQ(summary["arms"].size(), 4);
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_TRUE(arm["final_loss"].is_null());
    EXPECT_EQ(arm["evaluations"], nlohmann::json::array());
    EXPECT_EQ(arm["verdict"], "finished");
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
    EXPECT_EQ(arm["endpoints"][0]["snapshot_in"], 0);
  }
  // Sums are exact, so that no order of addition matters.
  for (const int arm : {1, 2}) {
    EXPECT_EQ(summary["arms"][arm]["parameter_digest"],
              summary["arms"][0]["parameter_digest"]);
    EXPECT_EQ(summary["arms"][arm]["certificates"]["replica"], "PASS");
  }
  EXPECT_EQ(QueryOne("SELECT count(*) FROM steps WHERE loss IS NOT NULL"), 0);
  const auto shortest = [&](int rank) {
    return QueryOne(absl::StrCat(
        "SELECT min(forward_ns + backward_ns) / 1e6 FROM steps WHERE rank = ", rank));
  };
  EXPECT_GE(shortest(0), 0.9 * 35);
  EXPECT_GE(shortest(1), 0.9 * 70);

  std::vector<std::string> dry = emulated;
  dry.push_back("--dry-run");
  const auto plan = Start("compare", Config(4), dry);
  ASSERT_THAT(plan->Wait(kPatience), Optional(0)) << plan->err();
  EXPECT_THAT(plan->out(), AllOf(HasSubstr("3,000 parameters"), HasSubstr("tensor2"),
                                 HasSubstr("compute: emulated, 5 ms forward")));
}

// 27 GB of parameters, of which nothing is allocated. Of the two servers that with the
// first tensors of the order of sizes has a little more.
TEST_F(EndToEndTest, ALargeModelIsPlannedFromItsShapes) {
  const auto plan =
      Start("compare", Config(3),
            {"--dry-run", "--set", "model={inventory {name: 'llama_7b'}}", "--set",
             "data={}", "--set", "compute={emulated {}}", "--set",
             "training.target_accuracy=0", "--set", "training.evaluation_interval=0",
             "--set", "arms[0].parameter_server.placement=BY_TENSOR_SIZE"});
  ASSERT_THAT(plan->Wait(kPatience), Optional(0)) << plan->err();
  EXPECT_THAT(plan->out(),
              AllOf(HasSubstr("6,738,415,616 parameters (26,953,662,464 bytes)"),
                    HasSubstr("layers.31.mlp.down_proj.weight"),
                    HasSubstr("slots, by tensor size"), HasSubstr("imbalance: 1.00")));
}

// The same model in two placements: the table has their imbalance, and the bits are
// equal.
TEST_F(EndToEndTest, PlacementsOfAnInventory) {
  const auto psring = Start(
      "compare", Config(3),
      {"--set", "model={inventory {name: 'vgg16' divisor: 2048}}", "--set", "data={}",
       "--set", "compute={emulated {}}", "--set", "training.target_accuracy=0", "--set",
       "training.evaluation_interval=0", "--set",
       "arms=[{name: 'servers' parameter_server {}},"
       "{name: 'by_size' parameter_server {placement: BY_TENSOR_SIZE}},"
       "{name: 'single' parameter_server {placement: SINGLE}},"
       "{name: 'ring' ring {}}]",
       "--set",
       "expect=[{ratio {figure: 'server_imbalance' arm: 'by_size' over: 'servers' "
       "low: 1.48 high: 1.49}}, {ratio {figure: 'server_imbalance' arm: 'single' "
       "over: 'servers' low: 1.99 high: 2}}]"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  const nlohmann::json arms = Summary()["arms"];
  ASSERT_EQ(arms.size(), 4);
  for (const nlohmann::json& arm : arms) {
    EXPECT_EQ(arm["parameter_digest"], arms[0]["parameter_digest"]);
    for (const auto& [certificate, verdict] : arm["certificates"].items()) {
      EXPECT_NE(verdict, "FAIL") << arm["name"] << " " << certificate;
    }
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
  }
  EXPECT_EQ(arms[2]["server_imbalance"], 2.0);
  EXPECT_TRUE(arms[3]["server_imbalance"].is_null());
}

// With two workers and two servers every process sends and receives M bytes a step.
TEST_F(EndToEndTest, ExpectationsAreChecked) {
  const std::string expect =
      "expect=[{flat {figure: 'busiest_out_bytes' arms: ['servers', 'ring']}}, {ratio "
      "{figure: 'busiest_in_bytes' arm: 'servers' over: 'ring' low: 1.5 high: 2}}]";
  const auto psring = Start("compare", Config(3), {"--set", expect});
  EXPECT_THAT(psring->Wait(kPatience), Optional(3)) << psring->err();
  EXPECT_THAT(
      psring->out(),
      AllOf(HasSubstr("flat PASS                   busiest_out_bytes is flat "
                      "within 0 %: servers 50920, ring 50920 bytes/step"),
            HasSubstr("ratio FAIL                  busiest_in_bytes of servers is "
                      "1.5 to 2 times that of ring: it is 1 times; servers 50920, "
                      "ring 50920 bytes/step")));
  EXPECT_THAT(psring->err(),
              HasSubstr("expectations not met: 1 of 2; the first: busiest"));
  const nlohmann::json expectations = Summary()["expectations"];
  ASSERT_EQ(expectations.size(), 2);
  EXPECT_EQ(expectations[0]["verdict"], "PASS");
  EXPECT_EQ(expectations[1]["verdict"], "FAIL");

  // What is recorded of one arm can be run as it is.
  fs::remove_all(Path("out"));
  const auto one = Start("run", Config(3), {"--set", expect, "--arm", "ring"});
  EXPECT_THAT(one->Wait(kPatience), Optional(0)) << one->err();
  EXPECT_THAT(one->out(), HasSubstr("flat not applicable"));
  EXPECT_EQ(QueryOne("SELECT count(*) FROM runs WHERE configuration LIKE '%expect%'"), 0);
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
