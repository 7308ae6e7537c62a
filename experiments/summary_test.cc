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
  return experiment;
}

Json SummaryOf(const ArmResult& arm, const absl::Status& outcome = absl::OkStatus()) {
  return Json::parse(SummaryJson(MakeExperiment(), {arm}, outcome));
}

TEST(SummaryTest, HasEveryField) {
  EXPECT_EQ(SummaryOf(FullArmResult()), Json::parse(R"({
    "experiment": "mnist",
    "error": null,
    "arms": [{
      "name": "servers", "mode": "parameter server, sync, ring order",
      "steps": 1024, "workers": 2, "servers": 1,
      "samples_per_second": 12345.6,
      "step_ms": {"p50": 1.5, "p99": 9.0, "mean": 2.1, "data": 0.1, "forward": 0.2,
                  "backward": 0.3, "exposed": 0.4, "optimizer": 0.5, "unaccounted": 0.6},
      "recording": {"training_thread_share": 0.125, "processor_share": 0.5},
      "final_loss": 0.12345,
      "evaluations": [{"step": 512, "seconds": 1.25, "bytes": 100, "loss": 0.75,
                       "accuracy": 0.5},
                      {"step": 1024, "seconds": 2.0, "bytes": 200, "loss": 0.25,
                       "accuracy": 0.87654}],
      "time_to_target_seconds": 2.0,
      "endpoints": [{"name": "worker 0", "role": "worker",
                     "payload_out": 4194304, "payload_in": 2097152,
                     "formula_out": 5242880, "formula_in": 3145728,
                     "initial_out": 6, "initial_in": 7}],
      "parameter_digest": "0000000000000abc",
      "certificates": {"replica": "PASS", "traffic": "FAIL"}
    }]
  })"));
}

TEST(SummaryTest, WhatIsNotThereIsNull) {
  ArmResult arm = FullArmResult();
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
  const Json none =
      Json::parse(SummaryJson(MakeExperiment(), {}, absl::UnavailableError("lost")));
  EXPECT_EQ(none["arms"], Json::array());
}

}  // namespace
}  // namespace psring
