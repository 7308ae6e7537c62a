#include "experiments/summary.h"

#include <limits>

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
  return experiment;
}

ArmResult MakeArm() {
  ArmResult arm;
  arm.name = "ring";
  arm.mode = "ring all-reduce";
  arm.steps = 12;
  arm.workers = 2;
  arm.servers = 0;
  arm.samples_per_second = 1000.5;
  arm.step_ms = {.p50 = 1,
                 .p99 = 2,
                 .mean = 21,
                 .data = 1,
                 .forward = 2,
                 .backward = 3,
                 .exposed = 4,
                 .optimizer = 5,
                 .unaccounted = 6};
  arm.recording = {.training_thread_share = 0.125, .processor_share = 0.5};
  arm.final_loss = 0.25;
  arm.evaluations = {
      {.step = 6, .seconds = 1.5, .bytes = 100, .loss = 0.5, .accuracy = 0.75}};
  arm.time_to_target_seconds = 1.5;
  arm.endpoints = {{.name = "worker 0",
                    .role = "worker",
                    .payload_out = 1,
                    .payload_in = 2,
                    .formula_out = 3,
                    .formula_in = 4,
                    .initial_out = 5,
                    .initial_in = 6}};
  arm.parameter_digest = 0xabc;
  arm.replica = {.verdict = Verdict::kPass, .why = ""};
  arm.traffic = {.verdict = Verdict::kFail, .why = ""};
  return arm;
}

Json SummaryOf(const ArmResult& arm, const absl::Status& outcome = absl::OkStatus()) {
  return Json::parse(SummaryJson(MakeExperiment(), {arm}, outcome));
}

TEST(SummaryTest, HasEveryField) {
  EXPECT_EQ(SummaryOf(MakeArm()), Json::parse(R"({
    "experiment": "mnist",
    "error": null,
    "arms": [{
      "name": "ring", "mode": "ring all-reduce", "steps": 12, "workers": 2, "servers": 0,
      "samples_per_second": 1000.5,
      "step_ms": {"p50": 1.0, "p99": 2.0, "mean": 21.0, "data": 1.0, "forward": 2.0,
                  "backward": 3.0, "exposed": 4.0, "optimizer": 5.0, "unaccounted": 6.0},
      "recording": {"training_thread_share": 0.125, "processor_share": 0.5},
      "final_loss": 0.25,
      "evaluations": [{"step": 6, "seconds": 1.5, "bytes": 100, "loss": 0.5,
                       "accuracy": 0.75}],
      "time_to_target_seconds": 1.5,
      "endpoints": [{"name": "worker 0", "role": "worker",
                     "payload_out": 1, "payload_in": 2, "formula_out": 3,
                     "formula_in": 4, "initial_out": 5, "initial_in": 6}],
      "parameter_digest": "0000000000000abc",
      "certificates": {"replica": "PASS", "traffic": "FAIL"}
    }]
  })"));
}

TEST(SummaryTest, WhatIsNotThereIsNull) {
  ArmResult arm = MakeArm();
  arm.evaluations.clear();
  arm.time_to_target_seconds.reset();
  arm.parameter_digest.reset();
  arm.traffic.verdict = Verdict::kNotApplicable;
  const Json json = SummaryOf(arm)["arms"][0];
  EXPECT_EQ(json["evaluations"], Json::array());
  EXPECT_TRUE(json.at("time_to_target_seconds").is_null());
  EXPECT_TRUE(json.at("parameter_digest").is_null());
  EXPECT_EQ(json["certificates"]["traffic"], "not applicable");
}

TEST(SummaryTest, ADivergedLossIsNull) {
  ArmResult arm = MakeArm();
  arm.final_loss = kNan;
  arm.evaluations[0].loss = kInfinity;
  const Json json = SummaryOf(arm)["arms"][0];
  EXPECT_TRUE(json.at("final_loss").is_null());
  EXPECT_TRUE(json["evaluations"][0].at("loss").is_null());
  EXPECT_EQ(json["evaluations"][0]["accuracy"], 0.75);
}

TEST(SummaryTest, AnErrorStandsBesideTheArmsThatEnded) {
  const Json json = SummaryOf(MakeArm(), absl::UnavailableError("arm \"b\": lost"));
  EXPECT_EQ(json["error"], "arm \"b\": lost");
  EXPECT_EQ(json["arms"].size(), 1);
  const Json none =
      Json::parse(SummaryJson(MakeExperiment(), {}, absl::UnavailableError("lost")));
  EXPECT_EQ(none["arms"], Json::array());
}

}  // namespace
}  // namespace psring
