#include "experiments/summary.h"

#include <limits>

#include "experiments/arm_result_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Experiment MakeExperiment() {
  Experiment experiment;
  experiment.set_name("mnist");
  experiment.mutable_compute()->mutable_padded()->set_step_ms(20);
  return experiment;
}

Json SummaryOf(const ArmResult& arm, const absl::Status& outcome = absl::OkStatus()) {
  return Json::parse(SummaryJson(MakeExperiment(), {}, {arm}, {}, outcome));
}

TEST(SummaryTest, HasEveryField) {
  EXPECT_EQ(SummaryOf(FullArmResult()), Json::parse(R"({
    "experiment": "mnist",
    "compute": "padded to 20 ms",
    "error": null,
    "probed_links": [],
    "arms": [{
      "name": "servers", "mode": "parameter server, async", "reduction": "", "seed": 7,
      "error": null,
      "verdict": "reached target", "steps": 1024,
      "restored_from_step": null, "workers": 2, "servers": 1,
      "samples_per_second": 12345.6,
      "applied_samples_per_second": 12345.6,
      "step_ms": {"p50": 1.5, "p99": 9.0, "mean": 2.1, "data": 0.1, "forward": 0.2,
                  "backward": 0.3, "exposed": 0.4, "not_ready": 0.05,
                  "peer_late": 0.2, "on_wire": 0.1, "working": 0.05, "optimizer": 0.5, "unaccounted": 0.6},
      "recording": {"training_thread_share": 0.125, "processor_share": 0.5},
      "waiting": {"exposed": 0.75, "peer_late": 0.625,
                  "for_worker": [{"worker": 0, "share": 0.125},
                                 {"worker": 1, "share": 0.5}]},
      "first_launch": 0.25, "overlap_ratio": 0.375,
      "arrival_skew": {"mean_ms": 0.25, "max_ms": 4.0, "worker_ms": [0.5, 0.0],
                       "last": 1, "last_share": 0.9375, "error_ms": 0.0625},
      "late_share": 0.25,
      "wire": {"type": "bf16", "drift_max": 0.00390625, "drift_mean": 0.001953125,
               "fp32_arm": "servers32", "loss_over_fp32": -0.0625},
      "final_loss": 0.12345,
      "evaluations": [{"step": 512, "seconds": 1.25, "bytes": 100, "loss": 0.75,
                       "accuracy": 0.5, "version_skew": 1},
                      {"step": 1024, "seconds": 2.0, "bytes": 200, "loss": 0.25,
                       "accuracy": 0.87654, "version_skew": 2}],
      "time_to_target_seconds": 2.0,
      "staleness": {"mean": 1.5, "max": 2, "histogram": [1, 1, 4]},
      "clock_lag_max": 3,
      "dropped": {"total": 512.5, "late": 312.5, "stale": 200.0},
      "contributions": [{"worker": 0, "made": 1536.0, "applied": 1280.0,
                         "dropped": 256.0, "staleness_mean": 1.25, "staleness_max": 2},
                        {"worker": 1, "made": 514.0, "applied": 257.5,
                         "dropped": 256.5, "staleness_mean": 1.75, "staleness_max": 1}],
      "buckets": [{"bytes": 12, "algorithm": null, "launched": 0.25,
                   "communication_ms": 1.5, "working_ms": 0.5, "overlap_ratio": 0.75,
                   "arrival_skew_ms": 0.125},
                  {"bytes": 28, "algorithm": "halving_doubling", "launched": 1.0,
                   "communication_ms": 2.0, "working_ms": 1.0, "overlap_ratio": null,
                   "arrival_skew_ms": 0.0}],
      "skipped_buckets": 8,
      "endpoints": [{"name": "worker 0", "role": "worker", "steps": 1024,
                     "payload_out": 4194304, "payload_in": 2097152,
                     "formula_out": 5242880, "formula_in": 3145728,
                     "operations_per_step": 16, "initial_out": 6, "initial_in": 7,
                     "snapshot_out": 8, "snapshot_in": 9,
                     "local_payload_out": 10, "local_payload_in": 11,
                     "local_formula_out": 12, "local_formula_in": 13,
                     "local_other_out": 14, "local_other_in": 15, "host": "worker 0",
                     "link_out": {"kernel": 100, "formula": 21, "payload": 20,
                                  "other_payload": 10, "framing": 3, "headers": 66,
                                  "rest": 1, "packets": 1, "resent": 4, "dropped": 5},
                     "link_in": null,
                     "awaiting_bytes_seconds": 0.5, "awaiting_room_seconds": 0.25,
                     "retransmissions": null}],
      "server_imbalance": 1.5,
      "memory": [{"name": "worker 0",
                  "purposes": [{"purpose": "gradients", "bytes": 40, "budget": 44,
                                "exact": true},
                               {"purpose": "contributions", "bytes": 50, "budget": 60,
                                "exact": false},
                               {"purpose": "other", "bytes": 4, "budget": null,
                                "exact": true}],
                  "resident_bytes": 1000}],
      "hosts": "links of 8 Mbit/s",
      "link_usage": {"busiest": 0, "hot_spot_factor": 1.5, "moving_seconds": 0.5,
                     "floor_ms": 375.0, "floor_host": "server 0",
                     "floor_direction": "out", "over_floor": 1.75,
                     "intervals_in_use": 3, "seconds_in_use": 0.75,
                     "idle_processors": 0.0625, "peak_utilisation": 0.375,
                     "links": [{"host": "worker 0", "direction": "out",
                                "bit_s": 8000000, "bytes": 2048.0, "utilisation": 0.25,
                                "share_of_steps": 0.125, "backlog_bytes": 1514,
                                "dropped": 5}]},
      "validity": {"verdict": "void", "cause": "processors",
                   "why": "the processors were idle 6.2 % of the time"},
      "parameter_digest": "0000000000000abc",
      "certificates": {"replica": "PASS", "traffic": "FAIL", "memory": "PASS",
                       "consistency": "PASS"}
    }],
    "over_seeds": [{
      "name": "servers", "seeds": [7], "verdicts": {"reached target": 1}, "void": 1,
      "samples_per_second": {"median": 12345.6, "min": 12345.6, "max": 12345.6},
      "final_loss": {"median": 0.12345, "min": 0.12345, "max": 0.12345},
      "accuracy": {"median": 0.87654, "min": 0.87654, "max": 0.87654},
      "time_to_target_seconds": {"median": 2.0, "min": 2.0, "max": 2.0}
    }],
    "expectations": []
  })"));
}

TEST(SummaryTest, ProbedLinksAndNoFloor) {
  ArmResult arm = FullArmResult();
  arm.link_usage->floor.reset();
  ProbedLink probed;
  probed.link.host = "worker 0";
  probed.out_bytes_s = 5;
  const Json json =
      Json::parse(SummaryJson(MakeExperiment(), {probed}, {arm}, {}, absl::OkStatus()));
  EXPECT_EQ(json["probed_links"][0]["host"], "worker 0");
  EXPECT_EQ(json["probed_links"][0]["out_bytes_s"], 5);
  const Json& usage = json["arms"][0]["link_usage"];
  for (const char* const field :
       {"floor_ms", "floor_host", "floor_direction", "over_floor"}) {
    EXPECT_TRUE(usage.at(field).is_null()) << field;
  }
}

TEST(SummaryTest, ExpectationsInOrder) {
  const Json json = Json::parse(SummaryJson(
      MakeExperiment(), {}, {FullArmResult()},
      {{.kind = "flat", .figure = "f", .verdict = Verdict::kPass, .text = "f is flat"},
       {.kind = "ratio", .figure = "g", .verdict = Verdict::kFail, .text = "g of a"}},
      absl::OkStatus()));
  EXPECT_EQ(json["expectations"], Json::parse(R"([
    {"kind": "flat", "figure": "f", "verdict": "PASS", "text": "f is flat"},
    {"kind": "ratio", "figure": "g", "verdict": "FAIL", "text": "g of a"}])"));
}

// Emulated compute learns nothing.
TEST(SummaryTest, WithoutALossItIsNull) {
  ArmResult arm = FullArmResult();
  arm.learns = false;
  arm.final_loss = kNan;
  arm.evaluations.clear();
  const Json json = SummaryOf(arm);
  EXPECT_TRUE(json["arms"][0].at("final_loss").is_null());
  EXPECT_TRUE(json["over_seeds"][0]["final_loss"].at("min").is_null());
}

TEST(SummaryTest, WithoutServersThereIsNoWordOfContributions) {
  ArmResult arm = FullArmResult();
  arm.servers = 0;
  arm.contributions = {};
  const Json json = SummaryOf(arm)["arms"][0];
  for (const char* const field : {"staleness", "clock_lag_max", "dropped"}) {
    EXPECT_TRUE(json.at(field).is_null()) << field;
  }
  EXPECT_EQ(json["contributions"], Json::array());
}

TEST(SummaryTest, SeedsAreRunsOfTheirOwnAndSummedUp) {
  ArmResult first = FullArmResult();
  ArmResult second = FullArmResult();
  second.seed = 8;
  second.convergence = Convergence::kDiverged;
  second.final_loss = kNan;
  second.time_to_target_seconds.reset();
  second.error = "worker 0: bias[2] is nan";
  const Json json = Json::parse(
      SummaryJson(MakeExperiment(), {}, {first, second}, {}, absl::OkStatus()));
  ASSERT_EQ(json["arms"].size(), 2);
  EXPECT_EQ(json["arms"][1]["seed"], 8);
  EXPECT_EQ(json["arms"][1]["verdict"], "diverged");
  EXPECT_EQ(json["arms"][1]["error"], "worker 0: bias[2] is nan");
  ASSERT_EQ(json["over_seeds"].size(), 1);
  const Json& over_seeds = json["over_seeds"][0];
  EXPECT_EQ(over_seeds["seeds"], Json::parse("[7, 8]"));
  EXPECT_EQ(over_seeds["verdicts"],
            Json::parse(R"({"reached target": 1, "diverged": 1})"));
  // The worst of the two is beyond all numbers.
  EXPECT_EQ(over_seeds["time_to_target_seconds"],
            Json::parse(R"({"median": null, "min": 2.0, "max": null})"));
  EXPECT_EQ(over_seeds["final_loss"]["min"], 0.12345);
}

TEST(SummaryTest, WhatIsNotThereIsNull) {
  ArmResult arm = FullArmResult();
  arm.evaluations.clear();
  arm.time_to_target_seconds.reset();
  arm.parameter_digest.reset();
  arm.validity.reset();
  arm.traffic.verdict = Verdict::kNotApplicable;
  const Json json = SummaryOf(arm)["arms"][0];
  EXPECT_EQ(json["evaluations"], Json::array());
  EXPECT_TRUE(json.at("time_to_target_seconds").is_null());
  EXPECT_TRUE(json.at("parameter_digest").is_null());
  EXPECT_TRUE(json.at("validity").is_null());
  EXPECT_EQ(json["certificates"]["traffic"], "not applicable");
}

TEST(SummaryTest, ADivergedLossIsNull) {
  ArmResult arm = FullArmResult();
  arm.final_loss = kNan;
  arm.evaluations[0].loss = kInfinity;
  const Json json = SummaryOf(arm)["arms"][0];
  EXPECT_TRUE(json.at("final_loss").is_null());
  EXPECT_TRUE(json["evaluations"][0].at("loss").is_null());
  EXPECT_EQ(json["evaluations"][0]["accuracy"], 0.5);
}

TEST(SummaryTest, AnErrorStandsBesideTheArmsThatEnded) {
  const Json json = SummaryOf(FullArmResult(), absl::UnavailableError("arm \"b\": lost"));
  EXPECT_EQ(json["error"], "arm \"b\": lost");
  EXPECT_EQ(json["arms"].size(), 1);
  const Json none = Json::parse(
      SummaryJson(MakeExperiment(), {}, {}, {}, absl::UnavailableError("lost")));
  EXPECT_EQ(none["arms"], Json::array());
}

}  // namespace
}  // namespace psring
